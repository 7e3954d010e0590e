"""Recorded conversations inspected: what changes, why it broke, which rule would cure it."""
