"""Text sources to notebooks, the same bytes every time."""
