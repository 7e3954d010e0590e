"""Each upstream's latest status, and the requests that run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cacheproxy.core.server.status import Look
from cacheproxy.observe.prefills import Prefills


@dataclass(slots=True)
class Latest:
    """The looks taken last, by the upstreams' URLs, and what runs now; for pages that show it."""

    looks: dict[str, Look] = field(default_factory=dict)
    prefills: Prefills = field(default_factory=Prefills)

    def keep(self, urls: Collection[str]) -> None:
        """Forget what was seen of other upstreams than those at ``urls``."""
        self.looks = {url: look for url, look in self.looks.items() if url in urls}
