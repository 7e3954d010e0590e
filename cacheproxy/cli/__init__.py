"""The ``cacheproxy`` command."""
