"""What exchanges add up to, in SQL: kept by the minute and the hour, asked for by the window."""

from __future__ import annotations

from cacheproxy.core.conversation.speeds import LEAST_EVALUATED, LEAST_OUTPUT, LEAST_OUTPUT_MS

STEPS = (60_000, 3_600_000)
"""Milliseconds of what is summed up."""
_PREFILL = f"CASE WHEN evaluated >= {LEAST_EVALUATED} AND prompt_ms > 0 THEN"
_GENERATION = f"CASE WHEN output >= {LEAST_OUTPUT} AND output_ms >= {LEAST_OUTPUT_MS} THEN"
IS_BREAK = "reason IS NOT NULL AND side = 0"
SUM_TABLES = ("rollups", "rollup_firsts", "rollup_breaks", "rollup_groups")
SUMS = {
    "requests": "count(*)",
    "turns": "sum(turn > 0)",
    "failed": "sum(failed)",
    "breaks": f"sum({IS_BREAK})",
    **{name: f"total({name})" for name in ("prompt", "reused", "evaluated", "output", "lost")},
    "spared": "total(spared)",
    "timed_prompt": f"total({_PREFILL} evaluated END)",
    "prompt_ms": f"total({_PREFILL} prompt_ms END)",
    "timed_output": f"total({_GENERATION} output END)",
    "output_ms": f"total({_GENERATION} output_ms END)",
    "added_us": "total(added_us)",
    "sent": "count(added_us)",
    "spared_ms": "total(spared_ms)",
    "unpriced": "total(CASE WHEN spared_ms IS NULL THEN spared END)",
}
"""Each sum by its column in ``rollups``, as an aggregate over ``exchanges``."""
LONGEST = {
    "first_ms": "ifnull(max(first_ms), 0)",
    "context": "ifnull(max(CASE WHEN turn > 0 AND side = 0 THEN prompt END), 0)",
}
"""The columns of ``rollups`` that are no sums."""
GROUPED = {
    "requests": "count(*)",
    **{name: f"total({name})" for name in ("prompt", "reused", "evaluated")},
    "lost": f"total(CASE WHEN {IS_BREAK} THEN lost END)",
    "lost_ms": f"total(CASE WHEN {IS_BREAK} THEN lost_ms END)",
}
"""Each sum by its column in ``rollup_groups``."""
GROUP = {
    "client": "ifnull((SELECT client FROM sessions WHERE sessions.id = session), '')",
    "model": "ifnull(model, 0)",
}
"""By what they are grouped."""


_NEW = f"""
FROM exchanges CROSS JOIN (SELECT {STEPS[0]} AS step UNION ALL SELECT {STEPS[1]}) WHERE id > ?
"""
_KEY = "step, upstream, at / step * step"
ADD_SUMS = (
    f"""
INSERT INTO rollups (step, upstream, at, {", ".join([*LONGEST, *SUMS])})
SELECT {_KEY}, {", ".join([*LONGEST.values(), *SUMS.values()])} {_NEW} GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET
    {", ".join(f"{name} = max({name}, excluded.{name})" for name in LONGEST)},
    {", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)}
""",
    f"""
INSERT INTO rollup_firsts (step, upstream, at, class, count)
SELECT {_KEY}, first_class(first_ms), count(*) {_NEW} AND turn > 0 AND first_ms IS NOT NULL
GROUP BY 1, 2, 3, 4 ON CONFLICT DO UPDATE SET count = count + excluded.count
""",
    f"""
INSERT INTO rollup_breaks (step, upstream, at, reason, shape, count, lost, lost_ms, last)
SELECT {_KEY}, reason, ifnull(shape, 0), count(*), total(lost), total(lost_ms), max(id) {_NEW}
AND {IS_BREAK} GROUP BY 1, 2, 3, 4, 5 ON CONFLICT DO UPDATE SET count = count + excluded.count,
    lost = lost + excluded.lost, lost_ms = lost_ms + excluded.lost_ms, last = excluded.last
""",
    f"""
INSERT INTO rollup_groups (step, upstream, at, {", ".join([*GROUP, *GROUPED])})
SELECT {_KEY}, {", ".join([*GROUP.values(), *GROUPED.values()])} {_NEW} GROUP BY 1, 2, 3, 4, 5
ON CONFLICT DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in GROUPED)}
""",
)
"""Add the exchanges with a higher ``id`` to the sums by the step."""
