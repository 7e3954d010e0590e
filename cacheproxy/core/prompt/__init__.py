"""The prompt of a request: the segments that its server renders, in that server's order."""
