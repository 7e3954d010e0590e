"""A replay's result as one JSON object. No prompt text in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cacheproxy_replay import table
from cacheproxy_replay.estimate import Assessed
from cacheproxy_replay.figures import Total
from cacheproxy_replay.report import ReplayReport


def record(report: ReplayReport) -> dict[str, Any]:
    """Return what was done, the sums and every turn; seconds and tokens, None where unknown."""
    figures, run = report.figures, report.run
    alike, answered = run.answered_alike()
    return {
        "verdict": report.verdict(),
        "files": list(report.files),
        "server": report.server,
        "requests": len(run.plan.items),
        "max_tokens": run.plan.answers,
        "cold": run.cold.value,
        "warm": figures.warm,
        "rules": list(run.ruleset.names),
        "via": run.via.value,
        "template": report.order.value if report.order is not None else None,
        "expected": "counted" if figures.exact else "estimated",
        "seconds_from": "server" if figures.server_time else "wall clock",
        "interrupted": report.interrupted,
        "compared": figures.compared,
        "ratio": {"seconds": figures.faster, "evaluated": figures.fewer},
        "as_captured": _pass(figures.captured, figures.totals[0]),
        "through": _pass(figures.through, figures.totals[1]),
        "answers": {"alike": alike, "of": answered} if run.plan.answers > 1 else None,
        "notes": [f"{label}: {note}" for label, note in report.notes()],
    }


def _pass(turns: tuple[Assessed, ...], total: Total) -> dict[str, Any]:
    names = ("prompt", "reused", "evaluated", "expected", "seconds")
    return {
        "turns": [_turn(one) for one in turns],
        "total": {name: getattr(total, name) for name in names},
    }


def _turn(one: Assessed) -> dict[str, Any]:
    turn, judged = one.turn, one.verdict
    where = judged.where if judged is not None else None
    reason = judged.reason if judged is not None else None
    lost = judged.lost if judged is not None else None
    return {
        "number": one.number,
        "session": turn.session and turn.session.label,
        "turn": turn.turn,
        "side": turn.side,
        "prompt": one.usage.prompt,
        "reused": one.usage.reused,
        "evaluated": one.usage.evaluated,
        "prefill_seconds": one.usage.prompt_seconds,
        "first_token_seconds": turn.first_byte,
        "expected": asdict(one.expected) if one.expected is not None else None,
        "verdict": table.verdict(one),
        "reason": reason.value if reason is not None else None,
        "path": where.path if where is not None else None,
        "kind": where.kind.value if where is not None else None,
        "lost": lost.tokens if lost is not None else None,
        "status": turn.status or 0,
    }
