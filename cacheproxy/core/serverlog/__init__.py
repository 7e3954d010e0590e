"""Facts on a server's cache from its log."""
