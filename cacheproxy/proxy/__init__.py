"""How bytes move, with Twisted."""
