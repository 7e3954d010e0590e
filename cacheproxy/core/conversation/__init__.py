"""A conversation: its session and lanes, where a turn differs from the last, its usage."""
