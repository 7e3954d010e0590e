"""Extensions of Twisted's transports and reactor, used by both sides."""
