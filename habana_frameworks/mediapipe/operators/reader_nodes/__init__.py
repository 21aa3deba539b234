"""Operators that read files."""
