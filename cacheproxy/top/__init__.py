"""``cacheproxy top``: a running proxy's work, live in a terminal."""
