"""Requests of one dialect to a server of another."""
