"""What the upstream last said of itself."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.core.look import Look


@dataclass(slots=True)
class Latest:
    """The look taken last, None before the first; for pages that show it."""

    look: Look | None = None
