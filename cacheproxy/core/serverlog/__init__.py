"""What a server's log tells of its cache."""
