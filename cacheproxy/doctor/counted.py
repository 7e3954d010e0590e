"""What vLLM's ``/metrics`` tell of one prompt: how much of it was reused.

Its answers say that only with a flag; the counters always do. Where their difference over one
request is as many prompt tokens as it had, no other was worked on meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from cacheproxy.asking import NoAnswerError, Site
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.server.counters import NOTHING, ServerFigures
from cacheproxy.core.server.metrics_page import sample_of
from cacheproxy.core.server.status import METRICS

_TRIES, _PAUSE = 10, 0.05
"""Looks, and seconds between them: the counters may be behind the answer."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of the server at ``site``, which is asked only where it ``has_them``."""

    site: Site
    has_them: bool

    def figures(self) -> ServerFigures:
        """Return what they show now. Never raises."""
        try:
            answer = self.site.get(METRICS) if self.has_them else None
        except NoAnswerError:
            return NOTHING
        page = answer.body if answer is not None and answer.status == 200 else b""
        sample = sample_of(page.decode("utf-8", "replace"))
        return sample.figures if sample is not None else NOTHING

    def told(self, usage: Usage, before: ServerFigures) -> tuple[Usage, bool]:
        """Return ``usage``, and whether its reuse was filled in from the counters.

        It is where the answer did not say it, and the counters have risen since ``before`` by this
        one prompt. Never raises.
        """
        if not self.has_them or usage.reused is not None or not usage.prompt:
            return usage, False
        for _ in range(_TRIES):
            now = self.figures()
            if None in (now.prompt, now.reused, before.prompt, before.reused):
                break
            worked = (now.prompt or 0) - (before.prompt or 0)
            if worked >= usage.prompt:
                reused = int((now.reused or 0) - (before.reused or 0))
                is_alone = worked == usage.prompt
                return (replace(usage, reused=reused), True) if is_alone else (usage, False)
            time.sleep(_PAUSE)
        return usage, False
