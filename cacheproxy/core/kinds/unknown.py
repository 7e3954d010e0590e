"""Kinds of servers that little or nothing is known of."""

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
"""The kind of a server that no other kind recognises."""
