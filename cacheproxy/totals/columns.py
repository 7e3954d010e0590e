"""What is kept of exchanges and of conversations, column by column: written, added up, shown.

From these tables follow those of the file, what is written into them, and the rows that pages and
downloads select. A new column is one row here; what shows it on the page has one, too.
"""

from __future__ import annotations

from enum import Flag, auto
from operator import attrgetter
from typing import Any, NamedTuple

Json = dict[str, Any]


class Kind(NamedTuple):
    """How a column is kept."""

    type: str  #: in SQL; "": it is not kept, but found for those who ask
    scale: float = 1  #: by which its field is multiplied, and rounded
    shown: str = "{}"  #: how pages select what is kept


FOUND = Kind("")
NUMBER = Kind("INTEGER")
TEXT = Kind("TEXT")
WORD = Kind("INTEGER", shown="(SELECT text FROM words WHERE id = {})")
"""A short text that comes again and again, by its number."""
MS = Kind("INTEGER", 1e3, "{} / 1e3")
"""Milliseconds; pages have seconds."""
US = Kind("INTEGER", 1e6, "{} / 1e6")
"""Microseconds, likewise."""
SUM = Kind("INTEGER NOT NULL DEFAULT 0")
SUM_MS = Kind(SUM.type, MS.scale, MS.shown)


class Shown(Flag):
    """Where a column is shown."""

    NOWHERE = 0
    REQUESTS = auto()  #: the list of requests
    TURNS = auto()  #: those of one conversation
    CONVERSATIONS = auto()  #: the list of them
    LATEST = auto()  #: the few on the overview
    DOWNLOAD = auto()  #: requests.csv and conversations.csv


_R, _T, _C, _L, _D = list(Shown)


class Column(NamedTuple):
    """One column."""

    name: str  #: in the file, and in a record
    kind: Kind = NUMBER  #: how it is kept
    source: str = ""
    """Of exchanges: the field, in what ``record_of`` has; "": it finds the value itself. Of
    conversations, as SQL of a record: what a request adds to a SUM, else what it sets; "": nothing
    does."""
    on: Shown = Shown.NOWHERE  #: the pages that show it
    key: str = ""  #: what these call it; "": ``name``, with seconds for milliseconds
    sql: str = ""  #: what they select of the row ``e``; "": what is kept
    sums: bool = False  #: of exchanges: it is added up, by the minute, the hour and for ever

    @property
    def selected(self) -> str:
        """What pages select."""
        key = self.key or self.name.replace("_ms", "_seconds")
        return f'{self.kind.shown.format(self.sql or f"e.{self.name}")} AS "{key}"'


NUMBER_OF_RUN = "iif(e.id >= :first_row, e.number, NULL)"
"""A number, by which others may ask for it; None for those of another run."""
_URL = "(SELECT url FROM upstreams WHERE id = e.upstream)"
_SERVED = "(SELECT served FROM upstreams WHERE id = e.upstream)"
_CLIENT = "(SELECT client FROM sessions WHERE id = e.session)"
_SESSION = "(SELECT name FROM sessions WHERE id = e.session)"
EXCHANGES = (
    Column("id", FOUND, "", _R),
    Column("id", FOUND, "", _T, "row"),
    Column("number", NUMBER, "exchange.number", _R | _T, "", NUMBER_OF_RUN),
    Column("at", MS, "exchange.wall", _R | _T | _D),
    Column("client", FOUND, "", _R | _D, "", _CLIENT),
    Column("session", NUMBER, "", _R | _D, "", _SESSION),
    Column("model", WORD, "", _R, "asked"),
    Column("model", FOUND, "", _R, "", _SERVED),
    Column("turn", NUMBER, "", _R | _T | _D),
    Column("side", NUMBER, "exchange.side", _R | _T | _D),
    Column("upstream", NUMBER, "exchange.upstream", _D, "", _URL),
    Column("model", FOUND, "", _D, "", WORD.shown.format("e.model")),
    Column("status", NUMBER, "exchange.status", _R | _T | _D),
    Column("dialect", WORD, "exchange.received.dialect"),
    Column("outcome", WORD, "exchange.outcome", _R | _D),
    Column("failed", NUMBER, "", _R | _T | _D),
    Column("prompt", NUMBER, "usage.prompt", _R | _T | _D, sums=True),
    Column("reused", NUMBER, "usage.reused", _R | _T | _D, sums=True),
    Column("evaluated", NUMBER, "usage.evaluated", _R | _T | _D, sums=True),
    Column("output", NUMBER, "usage.output", _R | _T | _D, sums=True),
    Column("tools", NUMBER, "parts.tools", _T | _D),
    Column("system", NUMBER, "parts.system", _T | _D),
    Column("history", NUMBER, "parts.history", _T | _D),
    Column("thinking", NUMBER, "parts.thinking", _T | _D),
    Column("newest", NUMBER, "parts.newest", _T | _D, "last"),
    Column("prompt_ms", MS, "usage.prompt_seconds", _D),
    Column("output_ms", MS, "usage.output_seconds", _R | _D),
    Column("first_ms", MS, "exchange.first_byte", _R | _T | _D),
    Column("total_ms", MS, "exchange.seconds", _R | _D),
    Column("rest", FOUND, "", _R, "", "(e.total_ms - e.first_ms) / 1e3"),
    Column("added_us", US, "exchange.sent_after", _R, "added", sums=True),
    Column("equal", NUMBER, "", _T, "breaks_at"),
    Column("verdict", WORD, "verdict.judgement", _R | _T | _D),
    Column("reason", WORD, "verdict.reason", _R | _T | _D),
    Column("shape", WORD, "", _R | _D),
    Column("lost", NUMBER, "", _R | _T | _D, sums=True),
    Column("lost_ms", MS, "verdict.seconds_lost", _R | _T | _D),
    Column("spared", NUMBER, "spared.tokens", _D, "saved", sums=True),
    Column("spared_ms", MS, "spared.seconds", _D, "saved_seconds", sums=True),
    Column("rules", WORD, "", _R | _D),
    Column("rendered", WORD, "parts.order", _T, "order"),
    Column("place", TEXT),
    Column("up"),
    Column("down", NUMBER, "exchange.bytes_down"),
)

_TURN = ":turn > 0 AND NOT :side"
_BREAK = ":reason IS NOT NULL AND NOT :side"
_SAYS_BOTH = ":prompt + :reused IS NOT NULL"
_ROOT = "(SELECT {} FROM sessions WHERE id = e.root)"
CONVERSATIONS = (
    Column("id", FOUND, "", _C, "row"),
    Column("id", FOUND, "", _C, "", "e.client || '/' || e.name"),
    Column("client", TEXT, "", _C | _L | _D),
    Column("name", TEXT, "", _C | _L | _D, "session"),
    Column("root", NUMBER, "ifnull(:root, root)", _C, "", _ROOT.format("client || '/' || name")),
    Column("root", FOUND, "", _D, "", _ROOT.format("name")),
    Column("model", TEXT, "ifnull((SELECT text FROM words WHERE id = :model), model)", _C | _D),
    Column("upstream", NUMBER, ":upstream", _C | _D, "", _URL),
    Column("first", MS, "", _C | _D),
    Column("last", MS, ":at", _C | _D),
    Column("requests", SUM, "1", _D),
    Column("turns", SUM, _TURN, _C | _L | _D),
    Column("side", SUM, ":side", _C | _D),
    Column("prompt", SUM, f"CASE WHEN {_SAYS_BOTH} THEN :prompt END", _L | _D),
    Column("reused", SUM, f"CASE WHEN {_SAYS_BOTH} THEN :reused END", _C | _L | _D),
    Column(
        "evaluated", SUM, "CASE WHEN :prompt + :reused IS NOT NULL THEN :evaluated END", _C | _D
    ),
    Column("output", SUM, ":output", _D),
    Column(
        "context",
        NUMBER,
        f"ifnull(CASE WHEN {_TURN} THEN :prompt + ifnull(:output, 0) END, context)",
        _L | _D,
    ),
    Column("breaks", SUM, _BREAK, _C | _D),
    Column("lost", SUM, f"CASE WHEN {_BREAK} THEN :lost END", _C | _D),
    Column("lost_ms", SUM_MS, f"CASE WHEN {_BREAK} THEN :lost_ms END", _C | _D),
    Column("spared", SUM, ":spared", _C | _D, "saved"),
    Column("spared_ms", SUM_MS, ":spared_ms", _C | _D, "saved_seconds"),
    Column("unpriced", SUM, "CASE WHEN :spared_ms IS NULL THEN :spared END", _C),
    Column("branches", FOUND, "", _C, "", "(SELECT count(*) FROM sessions WHERE root = e.id)"),
)


def select(columns: tuple[Column, ...], on: Shown, rows: str, *, order: str, also: str = "") -> str:
    """Return the question for what the page ``on`` shows of ``rows``; ``also``: columns before."""
    chosen = ", ".join(each.selected for each in columns if on in each.on)
    return f"SELECT {also}{chosen} FROM ({rows}) AS e ORDER BY {order}"  # noqa: S608 - our own


KEPT = tuple(each for each in EXCHANGES if each.kind.type)
WORDS = tuple(each.name for each in KEPT if each.kind is WORD)
_NAMES = [each.name for each in KEPT]
INSERT = f"INSERT INTO exchanges ({', '.join(_NAMES)}) VALUES (:{', :'.join(_NAMES)})"  # noqa: S608
_CHANGES = [
    f"{each.name} = {each.name} + ifnull({each.source}, 0)"
    if each.kind in (SUM, SUM_MS)
    else f"{each.name} = {each.source}"
    for each in CONVERSATIONS
    if each.source
]
ADD_TO_CONVERSATION = f"UPDATE sessions SET {', '.join(_CHANGES)} WHERE id = :session"  # noqa: S608


def _fields() -> dict[str, tuple[list[Column], attrgetter[Any]]]:
    """Return the columns that are fields of each source, and what reads all of these at once."""
    found: dict[str, list[Column]] = {}
    for each in KEPT:
        if each.source:
            found.setdefault(each.source.partition(".")[0], []).append(each)
    return {
        source: (columns, attrgetter(*(each.source.partition(".")[2] for each in columns)))
        for source, columns in found.items()
    }


_FIELDS = _fields()


def columns_of(**sources: Any) -> Json:
    """Return the columns that are fields of the ``sources``; None for all of one that is None."""
    record: Json = {}
    for name, (columns, read) in _FIELDS.items():
        source = sources[name]
        fields = [None] * len(columns) if source is None else read(source)
        for column, field in zip(columns, fields, strict=True):
            scale = column.kind.scale
            record[column.name] = field if field is None or scale == 1 else round(field * scale)
    return record
