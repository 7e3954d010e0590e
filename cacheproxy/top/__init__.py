"""``cacheproxy top``: what happens in a running proxy, in a terminal."""
