"""Conversations, and the turns of one: what they read, lost and saved."""

from __future__ import annotations

from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.record.kept import Json, Shown
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
_ONE = "SELECT * FROM sessions WHERE client = :client AND name = :name"
_BRANCHES_OF = "SELECT * FROM sessions WHERE root = :root ORDER BY last DESC LIMIT :limit"
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
    order = f"e.{column} DESC, e.id DESC"
    rows = f"SELECT * FROM sessions AS e WHERE {condition} ORDER BY {order} LIMIT :limit"  # noqa: S608
    found = _found(store, rows, scope, order)
    following = None
    if len(found) > _PAGE:
        last = found[_PAGE - 1]
        value = round(last["last"] * 1e3) if sort == "last" else last["lost"]
        following = f"{value}-{last['row']}"
    return {
        "conversations": [_conversation(store, each) for each in found[:_PAGE]],
        "next": following,
        "count": count,
    }


def conversation(store: TotalsStore, name: str, before: int | None = None) -> Json | None:
    """Return the last turns of the conversation called ``name``, the oldest first.

    With them those of its branches, which are the conversations that work for it. ``before``: the
    ``next`` of the page before. None if there is no such conversation.
    """
    client, _, session = name.partition("/")
    scope = {"client": client, "name": session, "limit": _BRANCHES}
    for one in _found(store, _ONE, scope):
        turns, more = _turns(store, one["row"], _TURNS, before)
        return {
            "conversation": _conversation(store, one),
            "turns": turns,
            "next": more,
            "branches": [
                {
                    "conversation": _conversation(store, each),
                    "turns": _turns(store, each["row"], _BRANCH_TURNS)[0],
                }
                for each in _found(store, _BRANCHES_OF, scope | {"root": one["row"]})
            ],
        }
    return None


def _found(store: TotalsStore, rows: str, scope: Json, order: str = "e.id") -> list[Json]:
    return store.shown(Shown.CONVERSATIONS, rows, scope, order)


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
    rows = store.shown(Shown.TURNS, _TURNS_OF, scope)
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
