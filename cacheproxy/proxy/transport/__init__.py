"""What is done with Twisted's transports and reactor beneath both sides."""
