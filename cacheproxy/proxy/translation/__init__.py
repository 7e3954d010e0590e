"""Requests of Messages clients to a server of Chat Completions."""
