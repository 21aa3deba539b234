"""Base classes of operators that users write."""
