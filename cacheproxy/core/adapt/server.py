"""What adaptations may ask of the server that they are for."""

from __future__ import annotations

from typing import Protocol

from cacheproxy.core.kinds.belief import Beliefs, Key
from cacheproxy.core.kinds.placement import Placement
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.request import Request


class KnownServer(Protocol):
    """One server: what is known of it, and where late system messages stand; it can be asked."""

    @property
    def beliefs(self) -> Beliefs:
        """What is thought of it."""

    @property
    def profile(self) -> Profile:
        """All that is known of it."""

    @property
    def placement(self) -> Placement | None:
        """Where late messages stand, as learned last; None for not learned."""

    def key(self, request: Request) -> Key:
        """Return what a placement depends on."""

    def known(self, request: Request, *, fresh: bool = True) -> Placement | None:
        """Return the placement for ``request``; ``fresh``: of the server that is there now."""

    def keep(self, key: Key, placement: Placement) -> None:
        """Know this from now on."""

    def forget(self) -> None:
        """Ask again: what is known may be of another server."""

    async def learn_for(self, request: Request, *, quietly: bool) -> None:
        """Ask for ``request``, which waits; ``quietly``: without short prompts."""

    def is_rendered(self, request: Request) -> bool:
        """Whether what the profile says of the template holds for ``request``."""
