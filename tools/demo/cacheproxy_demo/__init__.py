"""Recorded conversations, replayed directly and through the proxy, with what each turn cost."""
