"""Rules, and the fold of a request through them."""
