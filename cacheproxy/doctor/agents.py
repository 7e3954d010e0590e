"""Which clients have come through the proxy, when, and what became of their turns."""

from __future__ import annotations

from collections import Counter

from cacheproxy.doctor.finding import Finding, State, counted
from cacheproxy.doctor.record import Record


def check(record: Record | None, now: float) -> list[Finding]:
    """Return the findings on the clients of ``record``; ``now``: seconds since the epoch."""
    if record is None or not record.seen:
        return []
    parts = []
    for client, requests in record.clients().items():
        last = max(one.wall for one in record.seen if one.client == client)
        sessions = len({one.session for one in record.seen if one.client == client})
        parts.append(
            f"{client} ({counted(requests, 'request')} in {counted(sessions, 'session')}, "
            f"the last {_ago(now - last)})"
        )
    return [Finding("agents", State.OK, "seen: " + ", ".join(parts)), *_turns(record)]


def _turns(record: Record) -> list[Finding]:
    if not record.breaks:
        return []
    reasons = Counter(one.reason or "unknown" for one in record.breaks)
    text = (
        f"{len(record.breaks)} of the last {counted(len(record.later), 'later turn')} lost the "
        f"cache: {', '.join(f'{reason} {number}' for reason, number in reasons.most_common())}"
    )
    state = State.FAIL if record.is_broken else State.WARN
    return [Finding("turns", state, text, "cacheproxy diagnose last   says where and why")]


def _ago(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now" if seconds < 5 else f"{seconds:.0f} s ago"
