"""What is known of the server: how its memory is made, and when it reports what it reused.

The proxy learns it and says so on its health page. Where none runs, the server's pages are asked.
"""

from __future__ import annotations

from typing import Any

from cacheproxy.core.server.metrics_page import sample_of
from cacheproxy.core.server.profile_text import for_people
from cacheproxy.core.server.status import METRICS, MORE_PAGES, PAGES, Answers, look_of
from cacheproxy.core.server.telling import told
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.site import NoAnswerError, Site

_LARGEST = 512 << 10
"""Bytes of a page that is read."""

Json = dict[str, Any]


def of_health(profile: Any) -> Json | None:
    """Return the member ``profile`` of a health page, None if it says nothing."""
    if not isinstance(profile, dict) or not isinstance(profile.get("says"), dict):
        return None
    return profile


def of_server(site: Site) -> Json:
    """Ask the model server at ``site`` itself. Never raises."""
    statuses: dict[str, int] = {}
    pages: Json = {}
    sample, software = None, ""
    for path in (*PAGES, *MORE_PAGES):
        known = Answers(statuses, pages, sample, software)
        if path in MORE_PAGES and not known.wants(path):
            continue
        try:
            answer = site.get(path)
        except NoAnswerError:
            continue
        statuses[path], software = answer.status, software or answer.software
        if answer.status != 200 or len(answer.body) > _LARGEST:
            continue
        if path == METRICS:
            sample = sample_of(answer.body.decode("utf-8", "replace"))
        else:
            pages[path] = answer.json()
    answers = Answers(statuses, pages, sample, software)
    return for_people(told(look_of(site.url, 0.0, 0.0, answers)))


def check(profile: Json | None) -> list[Finding]:
    """Return the finding on the server's memory, if anything is known of it."""
    text = profile["says"].get("memory") if profile else None
    return [Finding("memory", State.OK, text)] if isinstance(text, str) else []
