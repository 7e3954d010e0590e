"""Recorded conversations, replayed directly and through the proxy, with the cost of each turn."""
