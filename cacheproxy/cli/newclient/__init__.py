"""The folder of a new client package: what it starts from."""
