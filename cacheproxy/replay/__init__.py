"""Captured requests, sent to a real server again: as captured, and through the rules."""
