"""Conversations, and the turns of one: what they read, lost and saved."""

from __future__ import annotations

from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.record.kept import CONVERSATIONS, EXCHANGES, Json, Shown, select
from cacheproxy.totals.requests import like
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.windows import WINDOWS, scope_of

SORTS = {"last": "last", "cost": "lost"}
"""What the list can be sorted by: the last request, or the tokens lost."""
_PAGE = 50
_TURNS = 400
_BRANCHES, _BRANCH_TURNS = 24, 100
_RECENT = 24
_PARTS = ("tools", "system", "history", "thinking", "last")
_ORDERS = {
    PromptOrder.TOOLS_FIRST: ["tools", "system", "history", "thinking", "last"],
    PromptOrder.SYSTEM_FIRST: ["system", "tools", "history", "thinking", "last"],
    PromptOrder.HOISTED: ["system", "tools", "history", "thinking", "last"],
}
_RECENT_PROMPTS = """
SELECT prompt FROM exchanges INDEXED BY exchanges_session
WHERE session = ? AND turn > 0 AND side = 0 AND prompt IS NOT NULL ORDER BY id DESC LIMIT ?
"""
_TURNS_OF = """
SELECT * FROM exchanges INDEXED BY exchanges_session
WHERE session = :session AND (turn > 0 OR failed) AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
"""


def conversations(
    store: TotalsStore,
    window: str,
    now: int,
    *,
    search: str = "",
    sort: str = "last",
    before: str = "",
) -> Json:
    """Return a page of the conversations whose last request was in ``window``, that ends ``now``.

    ``search``: text in the client's, conversation's, model's or upstream's name; ``sort``: one of
    SORTS; ``before``: the ``next`` of the page before. Raises KeyError for a sort there is not, and
    ValueError for a ``before`` that no page had.
    """
    column = SORTS[sort]
    condition = "last >= :start AND last < :end AND requests > 0"
    scope: Json = {**scope_of(WINDOWS[window], now), "search": like(search), "limit": _PAGE + 1}
    if search:
        condition += (
            " AND (client || '/' || name LIKE :search ESCAPE '!' "
            "OR ifnull(model, '') LIKE :search ESCAPE '!' "
            "OR upstream IN (SELECT id FROM upstreams WHERE url LIKE :search ESCAPE '!'))"
        )
    (count,) = store.connection.execute(
        f"SELECT count(*) FROM sessions WHERE {condition}",  # noqa: S608 - our own names
        scope,
    ).fetchone()
    if before:
        value, _, row = before.partition("-")
        scope |= {"value": _number(value), "row": _number(row)}
        condition += f" AND ({column}, id) < (:value, :row)"
    keys = store.connection.execute(
        f"SELECT {column}, id FROM sessions WHERE {condition} "  # noqa: S608
        f"ORDER BY {column} DESC, id DESC LIMIT :limit",
        scope,
    ).fetchall()
    found = {each["row"]: each for each in _known(store, [row for _, row in keys[:_PAGE]])}
    return {
        "conversations": [_conversation(store, found[row]) for _, row in keys[:_PAGE]],
        "next": "{}-{}".format(*keys[_PAGE - 1]) if len(keys) > _PAGE else None,
        "count": count,
    }


def conversation(store: TotalsStore, name: str, before: int | None = None) -> Json | None:
    """Return the last turns of the conversation called ``name``, the oldest first.

    With them those of its branches, which are the conversations that work for it. ``before``: the
    ``next`` of the page before. None if there is no such conversation.
    """
    client, _, session = name.partition("/")
    row = store.connection.execute(
        "SELECT id FROM sessions WHERE client = ? AND name = ?", (client, session)
    ).fetchone()
    if row is None:
        return None
    turns, more = _turns(store, row[0], _TURNS, before)
    branches = [
        number
        for (number,) in store.connection.execute(
            "SELECT id FROM sessions WHERE root = ? ORDER BY last DESC LIMIT ?", (row[0], _BRANCHES)
        )
    ]
    return {
        "conversation": _conversation(store, _known(store, row)[0]),
        "turns": turns,
        "next": more,
        "branches": [
            {"conversation": each, "turns": _turns(store, number, _BRANCH_TURNS)[0]}
            for number, each in (
                (known["row"], _conversation(store, known)) for known in _known(store, branches)
            )
        ],
    }


def _known(store: TotalsStore, rows: list[int]) -> list[Json]:
    marks = ", ".join("?" * len(rows))
    sessions = f"SELECT * FROM sessions WHERE id IN ({marks})"  # noqa: S608 - question marks
    sql = select(CONVERSATIONS, Shown.CONVERSATIONS, sessions, order="e.id")
    return store.rows(sql, rows)


def _conversation(store: TotalsStore, found: Json) -> Json:
    """Return what is shown of one; its seconds are None where nobody knew the speed."""
    recent = store.connection.execute(_RECENT_PROMPTS, (found["row"], _RECENT)).fetchall()
    prompts = [prompt for (prompt,) in reversed(recent)]
    is_unpriced = found["saved"] and found["saved"] == found["unpriced"]
    is_measured = found["reused"] or found["evaluated"]
    shown = {key: value for key, value in found.items() if key not in ("row", "unpriced")}
    return shown | {
        "saved": found["saved"] if is_measured else None,
        "saved_seconds": found["saved_seconds"] if is_measured and not is_unpriced else None,
        "context": prompts[-1] if prompts else None,
        "recent": prompts,
    }


def _turns(
    store: TotalsStore, session: int, limit: int, before: int | None = None
) -> tuple[list[Json], int | None]:
    """Return the turns, and the row before which there are more, None if there are none."""
    scope = {"session": session, "before": before, "limit": limit + 1}
    sql = select(EXCHANGES, Shown.TURNS, _TURNS_OF, order="e.id")
    rows = store.rows(sql, scope | {"first_row": store.first})
    more = rows[1]["row"] if len(rows) > limit else None
    return [_turn(row) for row in rows[-limit:]], more


def _turn(found: Json) -> Json:
    parts = [found.pop(name) for name in _PARTS]
    order = _ORDERS[PromptOrder(found["order"] or PromptOrder.TOOLS_FIRST)]
    failed, side = found.pop("failed"), found.pop("side")
    is_compacted = found["verdict"] == "compacted"
    return found | {
        "kind": "failed" if failed else "compacted" if is_compacted else "side" if side else "turn",
        "parts": None if parts[0] is None else dict(zip(_PARTS, parts, strict=True)),
        "order": order,
    }


def _number(text: str) -> int:
    """Return the number; raises ValueError for what is none that a page has given."""
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise ValueError(text)
    return int(text)
