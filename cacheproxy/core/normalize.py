"""Fold a request through the normalizers, one at a time, with a report for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cacheproxy.core.edits import Edit, apply
from cacheproxy.core.request import Request
from cacheproxy.core.rules import Normalizer


@dataclass(frozen=True, slots=True)
class Report:
    """What one normalizer did to one request: its edits, or why it was left out."""

    rule: str
    edits: tuple[Edit, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Normalized:
    """A request after the normalizers; the same object if none had anything to say."""

    request: Request
    reports: tuple[Report, ...] = ()


def normalize(
    request: Request, normalizers: Sequence[Normalizer], previous: Request | None = None
) -> Normalized:
    """Fold ``request`` through ``normalizers``; each sees the result of the earlier ones.

    Never raises on account of a normalizer (law 4): one that fails, or whose edits cannot be
    made, is left out and named in its report. A body that is no JSON object is not touched.
    """
    reports: list[Report] = []
    for normalizer in normalizers:
        try:
            if not may_fire(normalizer, request.body) or request.document is None:
                continue
            edits = tuple(normalizer.edits(request, previous) or ())
        except Exception as error:  # law 4; whatever its class, its text is not ours
            reports.append(Report(normalizer.name, error=type(error).__name__))
            continue
        try:
            text = apply(request.document, edits)
            changed = request if text is request.document.text else request.with_text(text)
        except Exception as error:  # law 4
            reports.append(Report(normalizer.name, error=describe(error)))
            continue
        if changed is not request:
            reports.append(Report(normalizer.name, edits))
            request = changed
    return Normalized(request, tuple(reports))


def may_fire(normalizer: Normalizer, body: bytes) -> bool:
    """Whether ``body`` holds one of the normalizer's literals, if it names any."""
    literals = normalizer.literals
    return bool(body) and (not literals or any(text.encode() in body for text in literals))


def describe(error: BaseException) -> str:
    """Return the kind of ``error`` without its text, which may quote a prompt.

    Our own errors name places, never contents, so they are given whole.
    """
    name = type(error).__name__
    if type(error).__module__.startswith("cacheproxy.core"):
        return f"{name}: {error}"
    return name
