"""Servers of which little is known, or nothing."""

from __future__ import annotations

from cacheproxy.core.kinds.kind import Recognition, Reuse, ServerKind
from cacheproxy.core.kinds.profile import UNKNOWN_KIND, Reporting

TABBY = ServerKind(
    "TabbyAPI",
    port=5000,
    recognition=Recognition(owner="tabbyapi"),
    reuse=Reuse(reporting=Reporting.NEVER),
)
UNKNOWN_SERVER = ServerKind(
    UNKNOWN_KIND, title="this server", recognition=Recognition(is_at=lambda _: True)
)
"""One that does not tell what it is."""
