"""What is asked of a server beside the requests: its pages, its template, its counters."""
