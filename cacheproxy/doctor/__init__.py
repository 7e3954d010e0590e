"""``cacheproxy doctor``: one small module per check, and the report."""
