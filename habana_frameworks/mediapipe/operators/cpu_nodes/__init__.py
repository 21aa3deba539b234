"""Operators that run on the host."""
