"""Helpers to look inside."""

from __future__ import annotations
