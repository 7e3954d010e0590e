"""Is the model server up, which one is it, and what does it tell."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.server.identify import (
    LLAMA_SERVER,
    MORE_PAGES,
    PAGES,
    Server,
    Signs,
    identify,
    may_tell,
)
from cacheproxy.doctor import load
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.load import NOTHING, Load
from cacheproxy.doctor.proxy import is_health
from cacheproxy.doctor.site import HEALTH, Answer, NoAnswerError, Site, shown

LLAMA = LLAMA_SERVER


@dataclass(frozen=True, slots=True)
class Upstream:
    """The model server as it was found; ``problem``, ``fix``: why ``server`` is None.

    ``model``: the first it lists, unabridged. ``metrics``: whether it has counters; None where
    that is not known to be a matter of its settings. ``seconds``: until its first answer.
    """

    url: str
    server: Server | None = None
    model: str | None = None
    seconds: float = 0.0
    load: Load = NOTHING
    metrics: bool | None = None
    problem: str | None = None
    fix: str | None = None


def look(site: Site) -> Upstream:
    """Ask the server at ``site`` for its status pages. Never raises."""
    url = shown(site.url)
    answers: dict[str, Answer] = {}
    for path in PAGES:
        try:
            answers[path] = site.get(path)
        except NoAnswerError as error:
            if not answers:
                problem = f"no model server answers at {url}: {error}"
                fix = "start it, or name it with --upstream URL"
                return Upstream(site.url, problem=problem, fix=fix)
    if _is_a_cacheproxy(site):
        problem = f"what answers at {url} is a cacheproxy, not the model server behind it"
        return Upstream(site.url, problem=problem, fix="name the model server with --upstream URL")
    pages = {path: answer.json() for path, answer in answers.items() if answer.status == 200}
    if not _is_model_server(pages) or _asks_for_a_key(answers):
        problem, fix = _refusal(url, answers)
        return Upstream(site.url, problem=problem, fix=fix)
    server = _identified(site, pages, answers)
    seen = load.look(site) if server.kind == LLAMA else NOTHING
    return Upstream(
        site.url,
        server,
        _model(pages.get("/v1/models")),
        next(iter(answers.values())).seconds,
        seen,
        seen.evaluated is not None if server.kind == LLAMA else None,
    )


def check(upstream: Upstream) -> list[Finding]:
    """Return the findings: the server itself, and its counters."""
    server = upstream.server
    if server is None:
        return [Finding("upstream", State.FAIL, upstream.problem or "", upstream.fix)]
    answers = f"{server.summary} at {shown(upstream.url)} answers in {_short(upstream.seconds)}"
    found = [Finding("upstream", State.OK, answers)]
    if upstream.metrics is False:
        text = "the server was started without --metrics, so totals come from responses only"
        fix = "add --metrics to the llama-server command line"
        found.append(Finding("metrics", State.WARN, text, fix))
    elif upstream.metrics:
        total = upstream.load.evaluated or 0
        reused = upstream.load.reused
        since = f"{total:,} prompt tokens evaluated"
        since += f" and {reused:,} reused" if reused is not None else ""
        found.append(Finding("metrics", State.OK, f"/metrics is on: {since} since its start"))
    return found


def _identified(site: Site, pages: dict[str, Any], answers: Mapping[str, Answer]) -> Server:
    """Return who it is, by what PAGES said, and by further ones where those may tell."""
    statuses = {path: answer.status for path, answer in answers.items()}
    signs = Signs(next((answer.software for answer in answers.values()), ""), statuses)
    for path in MORE_PAGES:
        if may_tell(path, pages, signs):
            with contextlib.suppress(NoAnswerError):
                answer = site.get(path)
                statuses[path] = answer.status
                pages |= {path: answer.json()} if answer.status == 200 else {}
    return identify(pages, signs)


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


def _asks_for_a_key(answers: Mapping[str, Answer]) -> bool:
    """llama-server lists its models to anybody, but tells its properties only with the key."""
    return any(
        path in answers and answers[path].status in (401, 403) for path in ("/props", "/v1/models")
    )


def _refusal(url: str, answers: Mapping[str, Answer]) -> tuple[str, str]:
    """Say why none of the pages could be had."""
    statuses = {answer.status for answer in answers.values()}
    if _asks_for_a_key(answers):
        return f"the server at {url} asks for a key", "give it with --api-key KEY"
    if 503 in statuses:
        said = next((answer.said() for answer in answers.values() if answer.status == 503), "")
        return f"the server at {url} is not ready: {said or 'it answers 503'}", "wait for it"
    text = f"what answers at {url} is no model server: it has none of {', '.join(PAGES)}"
    return text, "name the model server's root URL with --upstream"


def _model(page: Any) -> str | None:
    data = page.get("data") if isinstance(page, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _short(seconds: float) -> str:
    return f"{max(1, seconds * 1e3):.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
