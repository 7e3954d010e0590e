"""HTTP/1.1 read and written: requests, responses, headers, server-sent events."""
