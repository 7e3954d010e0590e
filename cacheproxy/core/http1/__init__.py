"""HTTP/1.1: requests, responses, headers, content codings, server-sent events."""
