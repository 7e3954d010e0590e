"""Is the model server up, which one is it, and what does it tell."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cacheproxy.asking import HEALTH, Answer, NoAnswerError, Site, have_answered, shown
from cacheproxy.client_setup.finding import Finding, fail, ok, warn
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.servers import looking
from cacheproxy.core.servers.counters import NOTHING, ServerFigures
from cacheproxy.core.servers.kinds import kind_called
from cacheproxy.core.servers.metrics_page import sample_of
from cacheproxy.core.servers.profile import UNKNOWN, Profile, ServerFacts
from cacheproxy.core.servers.status import METRICS, Look, MetricsPage
from cacheproxy.doctor.proxy import is_health

_TRIES, _PAUSE = 10, 0.05
"""Looks, and seconds between them: the counters may be behind the answer."""


@dataclass(frozen=True, slots=True)
class SeenUpstream:
    """The model server as it was found."""

    url: str  #: where it was looked for
    look: Look | None = None  #: None: there is a ``problem``
    profile: Profile = UNKNOWN  #: what it tells of itself
    model: str | None = None  #: the first it lists, unabridged
    seconds: float = 0.0  #: until its first answer
    problem: str | None = None  #: why it cannot be looked at
    fix: str | None = None  #: what mends the problem

    @property
    def server(self) -> ServerFacts | None:
        """Which one it is."""
        return self.look.server if self.look is not None else None


def look(site: Site) -> SeenUpstream:
    """Ask the server at ``site`` for its status pages. Never raises."""
    url = shown(site.url)
    said: dict[str, Answer] = {}
    why: list[str] = []

    def get(path: str) -> tuple[int, bytes, str] | None:
        try:
            one = said[path] = site.get(path)
        except NoAnswerError as error:
            why.append(str(error))
            return None
        return one.status, one.body, one.software

    answers = have_answered(looking.asking({}), get)
    if answers is None:
        problem = f"no model server answers at {url}: {why[0]}"
        fix = "start the model server, or name it with --upstream URL"
        return SeenUpstream(site.url, problem=problem, fix=fix)
    if _is_a_cacheproxy(site):
        problem = f"the server at {url} is a cacheproxy, not the model server behind it"
        return SeenUpstream(
            site.url, problem=problem, fix="name the model server with --upstream URL"
        )
    if not _is_model_server(answers.pages) or _asks_for_a_key(said):
        problem, fix = _refusal(url, said)
        return SeenUpstream(site.url, problem=problem, fix=fix)
    seen = looking.look_of(site.url, time.time(), time.monotonic(), answers)
    model, seconds = _model(answers.pages.get("/v1/models")), next(iter(said.values())).seconds
    return SeenUpstream(site.url, seen, looking.profile_from_look(seen), model, seconds)


def check(upstream: SeenUpstream) -> list[Finding]:
    """Return the findings: the server itself, and its counters."""
    server = upstream.server
    if server is None:
        return [fail("upstream", upstream.problem or "", upstream.fix)]
    answers = f"{server.summary} at {shown(upstream.url)} answers in {_short(upstream.seconds)}"
    found = [ok("upstream", answers)]
    kind = kind_called(server.kind)
    if not kind.metrics or upstream.look is None:
        return found
    if upstream.look.metrics is MetricsPage.OFF:
        text = (
            f"the server was started without {kind.metrics}, so nobody tells the speed that its "
            "answers to /v1/messages do not"
        )
        fix = f"add {kind.metrics} to the {kind.name} command line"
        found.append(warn("metrics", text, fix))
    elif upstream.look.sample is not None:
        figures = upstream.look.sample.figures
        since = f"{figures.evaluated or 0:,.0f} prompt tokens evaluated"
        since += f" and {figures.reused:,.0f} reused" if figures.reused is not None else ""
        found.append(ok("metrics", f"/metrics is on: {since} since its start"))
    return found


def _is_model_server(pages: Mapping[str, Any]) -> bool:
    return any(
        isinstance(pages.get(path), dict) and key in pages[path]
        for path, key in looking.marks().items()
    )


def _is_a_cacheproxy(site: Site) -> bool:
    """Through a proxy every server looks as if it needed none."""
    try:
        return is_health(site.page(HEALTH))
    except NoAnswerError:
        return False


def _asks_for_a_key(said: Mapping[str, Answer]) -> bool:
    """llama-server lists its models to anybody, but tells its properties only with the key."""
    return any(path in said and said[path].status in (401, 403) for path in [*looking.marks()][:2])


def _refusal(url: str, said: Mapping[str, Answer]) -> tuple[str, str]:
    """Say why none of the pages could be had."""
    if _asks_for_a_key(said):
        return f"the server at {url} asks for a key", "give the key with --api-key KEY"
    for path in looking.marks():
        if path in said and said[path].status == 503:
            why = said[path].said() or "it answers 503"
            return f"the server at {url} is not ready: {why}", "wait for it"
    text = f"the server at {url} is not a model server: it has none of {', '.join(looking.marks())}"
    return text, "name the model server's root URL with --upstream"


def _model(page: Any) -> str | None:
    data = page.get("data") if isinstance(page, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _short(seconds: float) -> str:
    return f"{max(1, seconds * 1e3):.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class Counters:
    """What a server's counters tell of one prompt: how much of it was reused.

    vLLM's answers say that only with a flag; its ``/metrics`` always do. Where their difference
    over one request is as many prompt tokens as it had, no other was worked on meanwhile.
    """

    site: Site  #: the server
    has_them: bool  #: it is asked only then

    def figures(self) -> ServerFigures:
        """Return what they show now. Never raises."""
        try:
            answer = self.site.get(METRICS) if self.has_them else None
        except NoAnswerError:
            return NOTHING
        page = answer.body if answer is not None and answer.status == 200 else b""
        sample = sample_of(page.decode("utf-8", "replace"))
        return sample.figures if sample is not None else NOTHING

    def with_reuse(self, usage: Usage, before: ServerFigures) -> tuple[Usage, bool]:
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
