"""The translation of Messages clients' requests for a server of Chat Completions."""
