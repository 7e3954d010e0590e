"""Commands to type, as they reach the proxy that was looked at."""

from __future__ import annotations

from cacheproxy.doctor.site import is_same, shown

_USUAL = "http://127.0.0.1:8081"
"""Where ``cacheproxy diagnose`` looks by itself."""


def diagnose(proxy: str, number: int) -> str:
    """Return the command that explains the request with ``number``; ``proxy``: a URL."""
    where = "" if is_same(proxy, _USUAL) else f" --proxy {shown(proxy)}"
    return f"cacheproxy diagnose {number}{where}"
