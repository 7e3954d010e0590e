"""What a server is: its profile, its status pages, its counters, its dialects."""
