"""Which pages of a server need no second request, and what they said.

A missing page can appear only with another server, or after a restart; the list of models changes
only then, too. For some servers each request is costly: mlx-lm serves all from one thread, and
searches the disk for its list of models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cacheproxy.core.servers.kinds import all_kinds, kind_called
from cacheproxy.core.servers.status import (
    ABSENT,
    HEALTH,
    METRICS,
    MODELS,
    Identity,
    Look,
    MetricsPage,
    UpstreamState,
    identity_of,
)

Said = tuple[int, Any]
"""A page's status, and its JSON value if that was 200."""
_REMIND = 30
"""Looks after which they are asked for again: not every restart shows."""


def lasting() -> tuple[str, ...]:
    """Return pages that say the same for as long as the server runs; the cheapest first."""
    return (*(kind.version_page for kind in all_kinds() if kind.version_page), MODELS)


class KnownPages:
    """Of one upstream: ``begin`` each look, ``take`` what its pages say, ``settle`` it."""

    def __init__(self) -> None:
        self._said: dict[str, Said] = {}
        self._looks = 0
        self._who: Identity | None = None
        self._kind = self._software = ""

    def begin(self) -> Mapping[str, Said]:
        """Begin a look: return what need not be asked for in it.

        Something always is: whether the server is there must be seen.
        """
        self._looks += 1
        if self._looks > _REMIND:
            self._looks = 1
            self._said = {path: said for path, said in self._said.items() if said[0] in ABSENT}
        known = dict(self._said)
        if kind_called(self._kind).metrics and not self._tells_start:
            # From when it counts must be known exactly, and it may be started anew within a
            # second, then with --metrics: an older one, which does not tell.
            known.pop(METRICS, None)
        if HEALTH in known:
            alive = (path for path in lasting() if path in known and known[path][0] == 200)
            known.pop(next(alive, HEALTH))
        return known

    def take(self, path: str, status: int, value: Any) -> None:
        """Remember what a page said, if that is worth it."""
        if status in ABSENT or (status == 200 and path in lasting()):
            self._said[path] = status, value

    def forget(self) -> None:
        """Know nothing: whoever comes back may be another."""
        self._said = {}
        self._looks = 0
        self._who = None
        self._kind = self._software = ""

    def settle(self, look: Look, software: str = "") -> tuple[Look, bool]:
        """Return ``look`` without what it does not tell, and whether all is to be asked for anew.

        That is at once, when another server, or another start of it, is seen: from when its
        pages are there must be known exactly, above all its counters. ``software``: how it calls
        itself in each answer.
        """
        if look.state is not UpstreamState.UP:
            self.forget()
            return look, False
        is_sure = look.start is not None or not self._tells_start
        self._who, is_another = identity_of(look, self._who)
        if is_another or (self._software and software and software != self._software):
            self.forget()
            return look, True
        self._software = software or self._software
        if look.server is not None:
            self._kind = look.server.kind
        if METRICS in self._said and not is_sure:  # it may have been started anew
            look = replace(look, metrics=MetricsPage.UNKNOWN)
        return look, False

    @property
    def _tells_start(self) -> bool:
        return self._who is not None and self._who[0] is not None
