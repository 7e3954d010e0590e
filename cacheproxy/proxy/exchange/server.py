"""A model server, with all that deals with it alone."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.proxy.exchange.keeping import Keeping
from cacheproxy.proxy.exchange.placing import Placing
from cacheproxy.proxy.learning.profiling import Profiling
from cacheproxy.proxy.learning.proving import Proving
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.upstream.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Server:
    """One model server.

    ``profiling``: what is known of it; ``proving``: asks it what it rendered, and for its counters.
    ``placing``: where late system messages go, ``keeping``: what becomes of earlier reasoning; None
    where it is not ours, so that what is sent to it is not edited.
    """

    upstream: Upstream
    translating: Translating
    profiling: Profiling
    proving: Proving
    placing: Placing | None = None
    keeping: Keeping | None = None

    @property
    def edits(self) -> bool:
        """Whether requests to it are edited."""
        return self.placing is not None

    def forget(self) -> None:
        """It is down: another server may take its place."""
        self.translating.forget()
        if self.placing is not None:
            self.placing.forget()
