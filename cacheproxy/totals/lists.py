"""The lists that the pages show: requests, sessions, conversations and the turns of one.

They come page by page; or a whole window as comma-separated values (RFC 4180), of figures and
names alone.
"""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from cacheproxy.core.conversation.speeds import generation_of
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.record.columns import Json, Shown, select
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.sums import IS_BREAK, SCOPE
from cacheproxy.totals.windows import scope_of

FILTERS = {
    "all": ("1", "NOT INDEXED"),
    "breaks": (IS_BREAK, "INDEXED BY exchanges_breaks"),
    "slow": ("first_ms >= 10000", "INDEXED BY exchanges_slow"),
    "errors": ("failed = 1", "INDEXED BY exchanges_failed"),
}
"""Filters of the table of requests: names to SQL and index. Slow: 10 s to the first byte."""
Period = tuple[int, int]
"""Start and end of a period, in ms since the epoch; the end is not in it."""
_MOST = 200
_FEW = 20_000
"""Exchanges, at most, of the sessions found, for which the index by session is used."""
_ENDS = f"SELECT min(id), max(id) FROM exchanges INDEXED BY exchanges_at WHERE {SCOPE}"  # noqa: S608
_LATEST = """
SELECT * FROM sessions WHERE last >= :since AND last < :until AND requests > 0
ORDER BY last DESC LIMIT :limit
"""
_FOUND = (
    "client LIKE :search ESCAPE '!' OR name LIKE :search ESCAPE '!' "
    "OR ifnull(model, '') LIKE :search ESCAPE '!'"
)
_CAUSED = (
    " AND reason = (SELECT id FROM words WHERE text = :reason)"
    " AND iif(:shape = '', shape IS NULL, shape = (SELECT id FROM words WHERE text = :shape))"
)
_ROWS = 250
"""Rows read at a time: this takes 4 ms, in the reactor's thread if the totals are in memory."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters at the start of a client's name that make a spreadsheet take it for a formula
(https://owasp.org/www-community/attacks/CSV_Injection)."""
_EXCHANGES = """
SELECT * FROM exchanges INDEXED BY exchanges_at
WHERE at >= :since AND (at, id) > (:first, :second) ORDER BY at, id LIMIT :limit
"""
_SESSIONS = """
SELECT * FROM sessions WHERE id > :second AND last >= :since AND requests > 0
ORDER BY id LIMIT :limit
"""
TABLES = {
    "requests": select(Shown.REQUESTS_CSV, _EXCHANGES, "e.at, e.id", also="e.at, e.id, "),
    "conversations": select(Shown.CONVERSATIONS_CSV, _SESSIONS, also="e.id, e.id, "),
}
START = (0, 0)
SORTS = {"last": "last", "cost": "lost"}
"""Orders of the list of conversations: by the last request, or by the tokens lost."""
_PAGE = 50
_TURNS = 400
_BRANCHES, _BRANCH_TURNS = 24, 100
_RECENT = 24
_PARTS = ("tools", "system", "history", "thinking", "last")
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


def requests(
    store: TotalsStore,
    which: str = "all",
    search: str = "",
    before: int | None = None,
    limit: int = 50,
    *,
    period: Period | None = None,
    cause: str = "",
) -> Json:
    """Return a page of exchanges, the latest first.

    ``which``: one of FILTERS; ``search``: text in the client's, session's or model's name;
    ``before``: ``next`` of the previous page; ``period``: the time in which exchanges began;
    ``cause``: a break's reason, a blank and its shape. Raises KeyError for an unknown filter.
    """
    limit = max(1, min(limit, _MOST))
    (condition, own), index = FILTERS[which], ""
    scope: Json = {"before": before, "limit": limit + 1, "search": like(search)}
    if cause:
        condition += _CAUSED
        scope["reason"], _, scope["shape"] = cause.partition(" ")
    if before is not None:
        condition += " AND id < :before"
    if period is not None:  # exchanges of a period lie close together, and so do their ids
        scope["start"], scope["end"] = period
        scope["low"], scope["high"] = store.connection.execute(_ENDS, scope).fetchone()
        index = own
        condition += f" AND id BETWEEN :low AND :high AND {SCOPE}"
    if search:
        count, scope["last"] = store.connection.execute(
            "SELECT total(requests), "  # noqa: S608 - our own names
            "max((SELECT max(id) FROM exchanges WHERE session = sessions.id)) "
            f"FROM sessions WHERE {_FOUND}",
            scope,
        ).fetchone()
        if not count:
            return {"requests": [], "next": None}
        condition += f" AND session IN (SELECT id FROM sessions WHERE {_FOUND})"  # noqa: S608
        if count <= _FEW:
            index = "INDEXED BY exchanges_session"
        else:  # newest first, from the last match on
            index = own
            condition += " AND id <= ifnull(:last, 0)"
    rows = (
        f"SELECT * FROM exchanges {index} "  # noqa: S608 - our own names
        f"WHERE {condition} ORDER BY id DESC LIMIT :limit"
    )
    page = store.shown(Shown.REQUESTS, rows, scope, "e.id DESC")
    return {
        "requests": [_request(row) for row in page[:limit]],
        "next": page[limit - 1]["id"] if len(page) > limit else None,
    }


def like(search: str) -> str:
    """Return the LIKE pattern, with ``!`` as its escape, of texts that contain ``search``."""
    return "%" + search.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"


def sessions(store: TotalsStore, since: int, until: int, limit: int = 50) -> list[Json]:
    """Return the sessions whose last request was at ``since`` (ms) or later, the latest first.

    Sessions from ``until`` on are left out: a clock has been set back since. Figures are of the
    whole session, ``prompt`` and ``reused`` of the requests that report both; ``context``: tokens
    after its last turn.
    """
    scope = {"since": since, "until": until, "limit": max(1, min(limit, _MOST))}
    return store.shown(Shown.LATEST, _LATEST, scope, "e.last DESC")


def _request(found: Json) -> Json:
    output, measured, rest = found["output"], found.pop("output_seconds"), found.pop("rest")
    return found | {
        "side": bool(found["side"]),
        "failed": bool(found["failed"]),
        "rules": found["rules"].split(",") if found["rules"] else [],
        "speed": generation_of(output, measured or rest),
        "speed_source": ("measured" if measured else "estimated") if output else None,
    }


def rows_of(
    store: TotalsStore, name: str, since: int, after: tuple[int, int] = START
) -> tuple[str, tuple[int, int] | None]:
    """Return rows of the table ``name`` from ``since`` (ms) on, as CSV, and the next ``after``.

    The latter is None after the last row. The first page begins with the names of the columns.
    """
    scope = {"since": since, "first": after[0], "second": after[1], "limit": _ROWS}
    found = store.connection.execute(TABLES[name], scope)
    text = StringIO()
    writer = csv.writer(text)
    if after == START:
        writer.writerow([column[0] for column in found.description[2:]])
    rows = found.fetchall()
    writer.writerows([[_plain(value) for value in row[2:]] for row in rows])
    return text.getvalue(), rows[-1][:2] if len(rows) == _ROWS else None


def _plain(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def conversations(
    store: TotalsStore,
    window: str,
    now: int,
    *,
    search: str = "",
    sort: str = "last",
    before: str = "",
) -> Json:
    """Return a page of the conversations whose last request was in ``window``, which ends ``now``.

    ``search``: text in the client's, conversation's, model's or upstream's name; ``sort``: one of
    SORTS; ``before``: ``next`` of the previous page. Raises KeyError for an unknown sort, and
    ValueError for a malformed ``before``.
    """
    column = SORTS[sort]
    condition = "last >= :start AND last < :end AND requests > 0"
    scope: Json = {**scope_of(window, now), "search": like(search), "limit": _PAGE + 1}
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
    found = _rows(store, rows, scope, order)
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

    Turns of its branches, the conversations that work for it, are returned as well. ``before``:
    ``next`` of the previous page. None if there is no such conversation.
    """
    client, _, session = name.partition("/")
    scope = {"client": client, "name": session, "limit": _BRANCHES}
    for one in _rows(store, _ONE, scope):
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
                for each in _rows(store, _BRANCHES_OF, scope | {"root": one["row"]})
            ],
        }
    return None


def _rows(store: TotalsStore, rows: str, scope: Json, order: str = "e.id") -> list[Json]:
    return store.shown(Shown.CONVERSATIONS, rows, scope, order)


def _conversation(store: TotalsStore, found: Json) -> Json:
    """Return a conversation's fields for the page; seconds are None if no speed was known."""
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
    """Return the turns, and the row before which there are more; None if these are all."""
    scope = {"session": session, "before": before, "limit": limit + 1}
    rows = store.shown(Shown.TURNS, _TURNS_OF, scope)
    more = rows[1]["row"] if len(rows) > limit else None
    return [_turn(row) for row in rows[-limit:]], more


def _turn(found: Json) -> Json:
    parts = [found.pop(name) for name in _PARTS]
    is_usual = (found["order"] or PromptOrder.TOOLS_FIRST) == PromptOrder.TOOLS_FIRST
    failed, side = found.pop("failed"), found.pop("side")
    is_compacted = found["verdict"] == "compacted"
    return found | {
        "kind": "failed" if failed else "compacted" if is_compacted else "side" if side else "turn",
        "parts": None if parts[0] is None else dict(zip(_PARTS, parts, strict=True)),
        "order": [*_PARTS] if is_usual else ["system", "tools", *_PARTS[2:]],
    }


def _number(text: str) -> int:
    """Return the number in a page's ``next``; raises ValueError if ``text`` is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise ValueError(text)
    return int(text)
