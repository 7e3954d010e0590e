"""Is the model server up, which one is it, and what does it tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.asking import HEALTH, Answer, NoAnswerError, Site, shown
from cacheproxy.core.server import status
from cacheproxy.core.server.identify import LLAMA_SERVER, PAGES, Server
from cacheproxy.core.server.metrics_page import sample_of
from cacheproxy.core.server.profile_text import for_people
from cacheproxy.core.server.telling import told
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.load import NOTHING, Load, load_of
from cacheproxy.doctor.proxy import is_health

LLAMA = LLAMA_SERVER
_LARGEST = 512 << 10
"""Bytes of a page that is read."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The model server as it was found; ``problem``, ``fix``: why ``server`` is None.

    ``model``: the first it lists, unabridged. ``metrics``: whether it has counters; None where
    that is not known to be a matter of its settings. ``seconds``: until its first answer.
    ``profile``: what it tells of itself, as on the proxy's health page.
    """

    url: str
    server: Server | None = None
    model: str | None = None
    seconds: float = 0.0
    load: Load = NOTHING
    metrics: bool | None = None
    profile: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    fix: str | None = None


def look(site: Site) -> Upstream:
    """Ask the server at ``site`` for its status pages. Never raises."""
    url = shown(site.url)
    said: dict[str, Answer] = {}
    for path in status.PAGES:
        try:
            said[path] = site.get(path)
        except NoAnswerError as error:
            if not said:
                problem = f"no model server answers at {url}: {error}"
                fix = "start the model server, or name it with --upstream URL"
                return Upstream(site.url, problem=problem, fix=fix)
    if _is_a_cacheproxy(site):
        problem = f"the server at {url} is a cacheproxy, not the model server behind it"
        return Upstream(site.url, problem=problem, fix="name the model server with --upstream URL")
    if not _is_model_server(_read(said).pages) or _asks_for_a_key(said):
        problem, fix = _refusal(url, said)
        return Upstream(site.url, problem=problem, fix=fix)
    for path in status.MORE_PAGES:
        if _read(said).wants(path):
            try:
                said[path] = site.get(path)
            except NoAnswerError:
                continue
    answers = _read(said)
    server = answers.server
    is_llama = server.kind == LLAMA
    seen = load_of(answers.sample, answers.pages.get(status.SLOTS)) if is_llama else NOTHING
    return Upstream(
        site.url,
        server,
        _model(answers.pages.get("/v1/models")),
        next(iter(said.values())).seconds,
        seen,
        seen.evaluated is not None if is_llama else None,
        for_people(told(status.look_of(site.url, 0.0, 0.0, answers))),
    )


def check(upstream: Upstream) -> list[Finding]:
    """Return the findings: the server itself, and its counters."""
    server = upstream.server
    if server is None:
        return [Finding("upstream", State.FAIL, upstream.problem or "", upstream.fix)]
    answers = f"{server.summary} at {shown(upstream.url)} answers in {_short(upstream.seconds)}"
    found = [Finding("upstream", State.OK, answers)]
    if upstream.metrics is False:
        text = (
            "the server was started without --metrics, so nobody tells the speed that its "
            "answers to /v1/messages do not"
        )
        fix = "add --metrics to the llama-server command line"
        found.append(Finding("metrics", State.WARN, text, fix))
    elif upstream.metrics:
        total = upstream.load.evaluated or 0
        reused = upstream.load.reused
        since = f"{total:,} prompt tokens evaluated"
        since += f" and {reused:,} reused" if reused is not None else ""
        found.append(Finding("metrics", State.OK, f"/metrics is on: {since} since its start"))
    return found


def _read(said: Mapping[str, Answer]) -> status.Answers:
    good = {
        path: one for path, one in said.items() if one.status == 200 and len(one.body) <= _LARGEST
    }
    metrics = good.pop(status.METRICS, None)
    return status.Answers(
        {path: one.status for path, one in said.items()},
        {path: one.json() for path, one in good.items()},
        sample_of(metrics.body.decode("utf-8", "replace")) if metrics is not None else None,
        next((one.software for one in said.values() if one.software), ""),
    )


def _is_model_server(pages: Mapping[str, Any]) -> bool:
    return any(
        isinstance(pages.get(path), dict) and key in pages[path]
        for path, key in zip(PAGES, ("default_generation_settings", "data", "version"), strict=True)
    )


def _is_a_cacheproxy(site: Site) -> bool:
    """Through a proxy every server looks as if it needed none."""
    try:
        return is_health(site.page(HEALTH))
    except NoAnswerError:
        return False


def _asks_for_a_key(said: Mapping[str, Answer]) -> bool:
    """llama-server lists its models to anybody, but tells its properties only with the key."""
    return any(path in said and said[path].status in (401, 403) for path in PAGES[:2])


def _refusal(url: str, said: Mapping[str, Answer]) -> tuple[str, str]:
    """Say why none of the pages could be had."""
    if _asks_for_a_key(said):
        return f"the server at {url} asks for a key", "give the key with --api-key KEY"
    for path in PAGES:
        if path in said and said[path].status == 503:
            why = said[path].said() or "it answers 503"
            return f"the server at {url} is not ready: {why}", "wait for it"
    text = f"the server at {url} is not a model server: it has none of {', '.join(PAGES)}"
    return text, "name the model server's root URL with --upstream"


def _model(page: Any) -> str | None:
    data = page.get("data") if isinstance(page, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _short(seconds: float) -> str:
    return f"{max(1, seconds * 1e3):.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
