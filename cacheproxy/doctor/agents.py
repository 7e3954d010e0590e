"""Which clients have come through the proxy, when, and what became of their turns."""

from __future__ import annotations

from collections import Counter

from cacheproxy.core.judge.weights import share_in_words
from cacheproxy.doctor.finding import Finding, FindingState
from cacheproxy.doctor.record import Record
from cacheproxy.words import clients, counted


def check(record: Record | None, now: float) -> list[Finding]:
    """Return the findings on the clients of ``record``.

    ``now``: seconds since the epoch.
    """
    if record is None or not record.seen:
        return []
    came = clients(((one.client, one.session, one.wall) for one in record.seen), now)
    return [Finding("agents", FindingState.OK, f"seen: {came}"), *_turns(record)]


def _turns(record: Record) -> list[Finding]:
    if not record.breaks:
        return []
    reasons = Counter(one.reason or "unknown" for one in record.breaks)
    text = (
        f"{len(record.breaks)} of the last {counted(len(record.later), 'follow-up turn')} lost the "
        f"cache: {', '.join(f'{reason} {number}' for reason, number in reasons.most_common())}"
        f"; {share_in_words(record.lost_share)} of their tokens were evaluated again"
    )
    state = (
        FindingState.FAIL
        if record.is_broken
        else FindingState.WARN
        if record.is_hurt
        else FindingState.OK
    )
    return [
        Finding(
            "turns",
            state,
            text,
            f"cacheproxy diagnose {record.breaks[-1].number}   says where and why",
        )
    ]
