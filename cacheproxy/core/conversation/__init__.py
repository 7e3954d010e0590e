"""Conversations: sessions and lanes, the difference of a turn from the one before, usage."""
