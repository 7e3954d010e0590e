"""Each upstream's latest status, and the prompts that are being evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheproxy.core.server.status import Look
from cacheproxy.observe.prefills import Prefills


@dataclass(slots=True)
class Latest:
    """The looks taken last, by the upstreams' URLs, and what runs now; for pages that show it."""

    looks: dict[str, Look] = field(default_factory=dict)
    prefills: Prefills = field(default_factory=Prefills)
