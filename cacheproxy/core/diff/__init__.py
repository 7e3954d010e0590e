"""Differences between two texts, two values, two requests."""
