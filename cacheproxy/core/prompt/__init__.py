"""A request as the segments that its server will render, in that server's order."""
