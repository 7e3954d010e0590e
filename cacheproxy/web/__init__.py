"""Our own pages, under /_cacheproxy/."""
