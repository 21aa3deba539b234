"""Operators that programs define for a pipeline."""
