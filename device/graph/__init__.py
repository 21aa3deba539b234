"""Recorded graphs: their form, where their operators come from, and why one differs from another."""
