"""The columns that the totals store of exchanges and of conversations: figures and names.

From these tables follow the file's tables, what is written into them, and the rows that pages and
downloads select. A new column is one row here, and one where the page shows it. No text of a prompt
is stored.
"""

from __future__ import annotations

from enum import Flag, auto
from functools import partial
from itertools import compress
from operator import attrgetter, is_not, itemgetter, mul
from types import SimpleNamespace
from typing import Any, NamedTuple

from cacheproxy.core.adapt.progress import NAME
from cacheproxy.record.exchange import Exchange, Outcome

Json = dict[str, Any]
LONGEST_NAME = 120
"""Characters at most of a name that a client chose."""
LONGEST_PLACE = 200
IS_SOME = partial(is_not, None)


class Kind(NamedTuple):
    """The way in which a column is stored."""

    type: str  #: type in SQL; "": not stored, but computed when it is selected
    scale: float = 1  #: factor by which the field is multiplied before it is rounded
    shown: str = "{}"  #: SQL expression by which pages select the stored value


FOUND = Kind("")
NUMBER = Kind("INTEGER")
TEXT = Kind("TEXT")
WORD = Kind("INTEGER", shown="(SELECT text FROM words WHERE id = {})")
"""A short text that recurs, stored as its number."""
MS = Kind("INTEGER", 1e3, "{} / 1e3")
"""Milliseconds; pages show seconds."""
US = Kind("INTEGER", 1e6, "{} / 1e6")
"""Microseconds; pages show seconds."""
SUM = Kind("INTEGER NOT NULL DEFAULT 0")
SUM_MS = Kind(SUM.type, MS.scale, MS.shown)


class Shown(Flag):
    """The pages and downloads that show a column."""

    NOWHERE = 0
    REQUESTS = auto()  #: the list of requests
    TURNS = auto()  #: the list of one conversation's turns
    REQUESTS_CSV = auto()  #: the download of a window's requests
    CONVERSATIONS = auto()  #: the list of conversations
    LATEST = auto()  #: the latest conversations, on the overview
    CONVERSATIONS_CSV = auto()  #: the download of a window's conversations


_R, _T, _D, _C, _L, _E = list(Shown)
_ROWS = _R | _T | _D


class DataColumn(NamedTuple):
    """One column of a table."""

    name: str  #: name in the file and in a record
    on: Shown = Shown.NOWHERE  #: pages that show the column
    kind: Kind = NUMBER  #: way in which the column is stored
    source: str = ""
    """Of exchanges: field that ``record_of`` reads; "": it computes the value. Of conversations:
    SQL over a record, added to a SUM, else stored in its place; "": a request changes nothing."""
    key: str = ""  #: name on these pages; "": ``name``, with seconds for milliseconds
    sql: str = ""  #: SQL that these pages select from the row ``e``; "": the stored value
    sums: bool = False
    """Whether an exchange's value is added up by the minute, by the hour and for ever."""

    @property
    def selected(self) -> str:
        """SQL expression that pages select."""
        key = self.key or self.name.replace("_ms", "_seconds")
        return f'{self.kind.shown.format(self.sql or f"e.{self.name}")} AS "{key}"'


NUMBER_OF_RUN = "iif(e.id >= :first_row, e.number, NULL)"
"""An exchange's number, to ask for it by; NULL for exchanges of an earlier run."""
_URL = "(SELECT url FROM upstreams WHERE id = e.upstream)"
_SERVED = "(SELECT served FROM upstreams WHERE id = e.upstream)"
_CLIENT = "(SELECT client FROM sessions WHERE id = e.session)"
_SESSION = "(SELECT name FROM sessions WHERE id = e.session)"
EXCHANGES = (
    DataColumn("id", _R, FOUND),
    DataColumn("id", _T, FOUND, key="row"),
    DataColumn("number", _R | _T, NUMBER, "exchange.number", sql=NUMBER_OF_RUN),
    DataColumn("at", _ROWS, MS, "exchange.wall"),
    DataColumn("client", _R | _D, FOUND, sql=_CLIENT),
    DataColumn("session", _R | _D, sql=_SESSION),
    DataColumn("model", _R, WORD, key="asked"),
    DataColumn("model", _R, FOUND, sql=_SERVED),
    DataColumn("turn", _ROWS),
    DataColumn("side", _ROWS, NUMBER, "exchange.side"),
    DataColumn("upstream", _D, NUMBER, "exchange.upstream", sql=_URL),
    DataColumn("model", _D, FOUND, sql=WORD.shown.format("e.model")),
    DataColumn("status", _ROWS, NUMBER, "exchange.status"),
    DataColumn("dialect", kind=WORD),
    DataColumn("outcome", _R | _D, WORD, "exchange.outcome"),
    DataColumn("waited", _ROWS, TEXT),
    DataColumn("failed", _ROWS),
    DataColumn("prompt", _ROWS, NUMBER, "exchange.usage.prompt", sums=True),
    DataColumn("reused", _ROWS, NUMBER, "exchange.usage.reused", sums=True),
    DataColumn("evaluated", _ROWS, NUMBER, "exchange.usage.evaluated", sums=True),
    DataColumn("output", _ROWS, NUMBER, "exchange.usage.output", sums=True),
    DataColumn("tools", _T | _D, NUMBER, "parts.tools"),
    DataColumn("system", _T | _D, NUMBER, "parts.system"),
    DataColumn("history", _T | _D, NUMBER, "parts.history"),
    DataColumn("thinking", _T | _D, NUMBER, "parts.thinking"),
    DataColumn("newest", _T | _D, NUMBER, "parts.newest", key="last"),
    DataColumn("prompt_ms", _D, MS, "exchange.usage.prompt_seconds"),
    DataColumn("output_ms", _R | _D, MS, "exchange.usage.output_seconds"),
    DataColumn("first_ms", _ROWS, MS, "exchange.first_byte"),
    DataColumn("total_ms", _R | _D, MS, "exchange.seconds"),
    DataColumn("rest", _R, FOUND, sql="(e.total_ms - e.first_ms) / 1e3"),
    DataColumn("added_us", _R, US, "exchange.sent_after", key="added", sums=True),
    DataColumn("equal", _T, key="breaks_at"),
    DataColumn("verdict", _ROWS, WORD, "verdict.judgement"),
    DataColumn("reason", _ROWS, WORD, "verdict.reason"),
    DataColumn("shape", _R | _D, WORD),
    DataColumn("lost", _ROWS, sums=True),
    DataColumn("lost_ms", _ROWS, MS, "verdict.seconds_lost"),
    DataColumn("spared", _D, NUMBER, "spared.tokens", key="saved", sums=True),
    DataColumn("spared_ms", _R | _D, MS, "spared.seconds", key="saved_seconds", sums=True),
    DataColumn("rules", _R | _D, WORD),
    DataColumn("rendered", _T, WORD, "parts.order", key="order"),
    DataColumn("place", kind=TEXT),
    DataColumn("up"),
    DataColumn("down", source="exchange.bytes_down"),
)

_TURN = ":turn > 0 AND NOT :side"
_BREAK = ":reason IS NOT NULL AND NOT :side"
_HAS_BOTH = ":prompt + :reused IS NOT NULL"
_ROOT = "(SELECT {} FROM sessions WHERE id = e.root)"
CONVERSATIONS = (
    DataColumn("id", _C, FOUND, key="row"),
    DataColumn("id", _C, FOUND, sql="e.client || '/' || e.name"),
    DataColumn("client", _C | _L | _E, TEXT),
    DataColumn("name", _C | _L | _E, TEXT, key="session"),
    DataColumn(
        "root", _C, NUMBER, "ifnull(:root, root)", sql=_ROOT.format("client || '/' || name")
    ),
    DataColumn("root", _E, FOUND, sql=_ROOT.format("name")),
    DataColumn("model", _C | _E, TEXT, "ifnull((SELECT text FROM words WHERE id = :model), model)"),
    DataColumn("upstream", _C | _E, NUMBER, ":upstream", sql=_URL),
    DataColumn("first", _C | _E, MS),
    DataColumn("last", _C | _E, MS, ":at"),
    DataColumn("requests", _E, SUM, "1"),
    DataColumn("turns", _C | _L | _E, SUM, _TURN),
    DataColumn("side", _C | _E, SUM, ":side"),
    DataColumn("prompt", _L | _E, SUM, f"CASE WHEN {_HAS_BOTH} THEN :prompt END"),
    DataColumn("reused", _C | _L | _E, SUM, f"CASE WHEN {_HAS_BOTH} THEN :reused END"),
    DataColumn("evaluated", _C | _E, SUM, f"CASE WHEN {_HAS_BOTH} THEN :evaluated END"),
    DataColumn("output", _E, SUM, ":output"),
    DataColumn(
        "context",
        _L | _E,
        NUMBER,
        f"ifnull(CASE WHEN {_TURN} THEN :prompt + ifnull(:output, 0) END, context)",
    ),
    DataColumn("breaks", _C | _E, SUM, _BREAK),
    DataColumn("lost", _C | _E, SUM, f"CASE WHEN {_BREAK} THEN :lost END"),
    DataColumn("lost_ms", _C | _E, SUM_MS, f"CASE WHEN {_BREAK} THEN :lost_ms END"),
    DataColumn("spared", _C | _E, SUM, ":spared", key="saved"),
    DataColumn("spared_ms", _C | _E, SUM_MS, ":spared_ms", key="saved_seconds"),
    DataColumn("unpriced", _C, SUM, "CASE WHEN :spared_ms IS NULL THEN :spared END"),
    DataColumn("branches", _C, FOUND, sql="(SELECT count(*) FROM sessions WHERE root = e.id)"),
)


_SELECTED = {
    on: ", ".join(each.selected for each in (*EXCHANGES, *CONVERSATIONS) if on in each.on)
    for on in Shown
}


def select(on: Shown, rows: str, order: str = "e.id", also: str = "") -> str:
    """Return the SQL query for the page ``on``, over ``rows``; ``also``: columns in front."""
    return f"SELECT {also}{_SELECTED[on]} FROM ({rows}) AS e ORDER BY {order}"  # noqa: S608


STORED = tuple(each for each in EXCHANGES if each.kind.type)
WORDS = tuple(each.name for each in STORED if each.kind is WORD)
_NAMES = [each.name for each in STORED]
INSERT = f"INSERT INTO exchanges ({', '.join(_NAMES)}) VALUES (:{', :'.join(_NAMES)})"  # noqa: S608
_CHANGES = [
    f"{each.name} = {each.name} + ifnull({each.source}, 0)"
    if each.kind in (SUM, SUM_MS)
    else f"{each.name} = {each.source}"
    for each in CONVERSATIONS
    if each.source
]
ADD_TO_CONVERSATION = f"UPDATE sessions SET {', '.join(_CHANGES)} WHERE id = :session"  # noqa: S608
_FIELDS = [each for each in STORED if each.source]
_FIELD_NAMES = [*(each.name for each in _FIELDS), "client", "served"]
_SCALES = {each.name: each.kind.scale for each in _FIELDS if each.kind.scale != 1}
_read = attrgetter(*(each.source for each in _FIELDS), "exchange.client", "served")
_of_scaled = itemgetter(*_SCALES)
_NOTHING = SimpleNamespace(**{each.source.rpartition(".")[2]: None for each in _FIELDS})


def record_of(exchange: Exchange, served: str | None = None) -> Json:
    """Return the row of ``exchanges`` (``EXCHANGES``), with texts where the file has numbers.

    A failed request is no turn: nothing came of it, whatever was evaluated for it. ``served``: the
    one model that its upstream serves, if it names one. Members of the result that are no columns,
    but needed for other tables: ``client``, the session's, or by the request; ``served``;
    ``route``, None if there is but one upstream; ``price``, the upstream's charge; ``root``, the
    session that the exchange's own works for.
    """
    session, received, failed = exchange.session, exchange.received, exchange.went_wrong
    verdict = None if failed else exchange.verdict
    model = exchange.model if (exchange.sent or received).dialect is not None else None
    fired = [rule for rule, _, _ in exchange.edits if rule != NAME]
    sources = SimpleNamespace(
        exchange=exchange,
        served=served,
        verdict=verdict or _NOTHING,
        spared=(None if failed else exchange.spared) or _NOTHING,
        parts=(None if failed else exchange.parts) or _NOTHING,
    )
    record = {
        **dict(zip(_FIELD_NAMES, _read(sources), strict=True)),
        "route": exchange.route if exchange.server else None,
        "price": exchange.price or 0.0,
        "root": exchange.place and exchange.place.root,
        "session": session and session.id,
        "dialect": received.dialect and received.dialect.name,
        "model": model and model[:LONGEST_NAME],
        "shape": None,
        "rules": ",".join(fired)[: 4 * LONGEST_NAME] or None,
        "turn": 0 if failed else exchange.turn,
        "waited": exchange.waited if exchange.outcome is Outcome.CLIENT_LEFT else None,
        "failed": failed,
        "lost": None,
        "up": len(received.body),
        "place": None,
        "equal": None,
    }
    known = [*map(IS_SOME, values := _of_scaled(record))]
    scaled = map(mul, compress(values, known), compress(_SCALES.values(), known))
    record |= zip(compress(_SCALES, known), map(round, scaled), strict=True)
    if verdict is not None and (verdict.reason or verdict.where or verdict.rewrite):
        where, lost, equal = verdict.where, verdict.lost, verdict.expected  # to the turn before
        record["shape"] = verdict.rewrite or (where and where.kind)
        if where is not None:
            record["place"], equal = where.path[:LONGEST_PLACE], where.position
        if verdict.reason is not None:
            record["lost"] = lost and lost.tokens
            record["equal"] = equal and equal.tokens
    return record
