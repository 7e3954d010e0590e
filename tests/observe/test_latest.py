"""Each upstream's latest status."""

from __future__ import annotations

from cacheproxy.observe.latest import Latest

from .exchanges import look


def test_what_was_seen_of_others_is_forgotten():
    """When the configuration names other upstreams."""
    latest = Latest()
    for url in ("http://a", "http://b"):
        latest.looks[url] = look(url=url)
    latest.keep(("http://b", "http://c"))
    assert list(latest.looks) == ["http://b"]
