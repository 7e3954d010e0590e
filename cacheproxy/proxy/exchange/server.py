"""A model server, with all that deals with it alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cacheproxy.core.route.choose import Target, TargetState
from cacheproxy.core.route.stamp import Stamp
from cacheproxy.core.servers.profile_text import says
from cacheproxy.proxy.exchange.keeping import Keeping
from cacheproxy.proxy.exchange.placing import Placing
from cacheproxy.proxy.servers.asker import Asker
from cacheproxy.proxy.servers.health import Health
from cacheproxy.proxy.servers.profiling import Profiling
from cacheproxy.proxy.servers.proving import Proving
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.upstream.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Server:
    """One model server, and all that deals with it."""

    upstream: Upstream  #: where requests go
    translating: Translating  #: between its API and the client's
    asker: Asker  #: asks it what the parts below want to know
    profiling: Profiling  #: what is known of it
    proving: Proving  #: asks it what it rendered, and for its counters
    health: Health  #: asked where there are several
    target: Target  #: what a choice looks at
    placing: Placing | None = None  #: where late system messages go; None where nothing is edited
    keeping: Keeping | None = None
    """What becomes of earlier reasoning; None where nothing is edited."""
    stamp: Stamp = field(default_factory=Stamp)
    """Headers that tell routers whose conversation it is."""
    max_context: int | None = None  #: tokens of a prompt; None: what it says itself
    model: str = ""  #: asked for instead of the client's, "" for the client's

    @property
    def name(self) -> str:
        """As the configuration has it; "" where it is the only one."""
        return self.target.name

    @property
    def edits(self) -> bool:
        """Whether requests to it are edited."""
        return self.placing is not None

    def standing(self, speed: float | None) -> TargetState:
        """Return how it is doing; ``speed``: of its prefill, tokens a second."""
        context = self.max_context or self.profiling.profile.memory.context
        health = self.health
        return TargetState(health.is_up, context, speed, health.waiting, health.is_silent)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a page."""
        profile, target = self.profiling.profile, self.target
        return {
            "name": self.name,
            "url": self.upstream.url.text,
            "state": "up" if self.health.is_up else "down",
            "says": profile.server.summary if profile.server is not None else "",
            "context": self.max_context or profile.memory.context,
            "waiting": self.health.waiting,
            "edits": self.edits,
            "fallback": target.is_fallback,
            "models": list(target.models),
            "words": self.words(),
        }

    def words(self) -> dict[str, str]:
        """Return what is known of it, and what is done here for that, in a line each."""
        found = {
            "placement": "" if self.placing is None else self.placing.as_dict()["says"],
            "thinking": "" if self.keeping is None else self.keeping.says,
            **says(self.profiling.profile),
        }
        return {name: text for name, text in found.items() if text}

    def refused(self) -> None:
        """It has refused a connection: another server may take its place."""
        self.translating.forget()
        if self.placing is not None:
            self.placing.forget()
        if self.name:
            self.health.set(is_up=False)
