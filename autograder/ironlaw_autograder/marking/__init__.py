"""Marking written answers in bulk: answers that are alike are read once and marked together."""
