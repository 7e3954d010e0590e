"""Label values, which others may have chosen: cleaned, and bounded in number.

Every value is a time series of its own for as long as the proxy and its Prometheus live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cacheproxy.core.privacy.credentials import hide_text

OTHER = "other"
"""Stands for all values beyond the most there may be."""
UNKNOWN = "unknown"
_LONGEST = 64
_LOOKED_AT = 256
"""Characters that are looked through for credentials; all that is kept lies well within."""


class Labels:
    """The values of one label: the first ``most`` are kept, the rest are ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def of(self, text: str, carried: Callable[[], Collection[bytes]] = tuple) -> str:
        """Return the value for ``text``; ``carried`` returns credentials that may stand in it."""
        text = text[:_LOOKED_AT]
        value = self._known.get(text)
        if value is None:
            if len(self._known) >= self._most:
                return OTHER
            value = self._known[text] = clean(text, carried())
        return value


def clean(text: str, known: Collection[bytes] = ()) -> str:
    """Return ``text`` as a label's value: printable, short, without credentials, not empty."""
    text = hide_text(text[:_LOOKED_AT], known)[:_LONGEST]
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")[:_LONGEST]
    return text.strip() or UNKNOWN
