"""KnownServer: the view of a server that adaptations have."""

from __future__ import annotations

from typing import Protocol

from cacheproxy.core.kinds.belief import Beliefs, Key
from cacheproxy.core.kinds.placement import Placement
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.request import Request


class KnownServer(Protocol):
    """One server: its profile, and its placement of late system messages, which can be learned."""

    @property
    def beliefs(self) -> Beliefs:
        """The beliefs about it."""

    @property
    def profile(self) -> Profile:
        """Its profile."""

    @property
    def placement(self) -> Placement | None:
        """The placement learned last, None if none was."""

    def key(self, request: Request) -> Key:
        """Return the key under which the placement for ``request`` is stored."""

    def known(self, request: Request, *, fresh: bool = True) -> Placement | None:
        """Return the placement for ``request``; ``fresh``: only that of the present server."""

    def keep(self, key: Key, placement: Placement) -> None:
        """Store the placement under ``key``."""

    def forget(self) -> None:
        """Drop the placements, so that they are learned anew: there may be another server."""

    async def learn_for(self, request: Request, *, quietly: bool) -> None:
        """Learn the placement for ``request``, which waits; ``quietly``: without short prompts."""

    def is_rendered(self, request: Request) -> bool:
        """Whether the profile's facts about the template are true for ``request``."""
