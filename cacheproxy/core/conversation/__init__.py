"""A conversation: its session, its lanes, where a turn leaves the last one, what it used."""
