"""How bytes move: Twisted and treq."""
