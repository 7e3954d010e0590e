"""The upstream's latest status, and the prompts that it is evaluating."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheproxy.core.server.status import Look
from cacheproxy.observe.prefills import Prefills


@dataclass(slots=True)
class Latest:
    """The look taken last, None before the first, and what runs now; for pages that show it."""

    look: Look | None = None
    prefills: Prefills = field(default_factory=Prefills)
