"""Observers of finished exchanges, registered as plugins, off the data path."""
