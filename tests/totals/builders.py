"""Records for tests, built by function."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.record.exchange import Outcome
from cacheproxy.totals.file import open_file
from cacheproxy.totals.store import TotalsStore

URL = "http://localhost:8080"
NOW = 1_700_000_000.0
MS = round(NOW * 1000)

_PLAIN = {
    "route": None,
    "price": 0.0,
    "root": None,
    "client": "agent",
    "served": None,
    "at": MS,
    "number": 1,
    "upstream": URL,
    "session": "3f9a",
    "model": "asked-for",
    "dialect": "anthropic",
    "outcome": Outcome.COMPLETE,
    "verdict": Judgement.OK,
    "reason": None,
    "shape": None,
    "rules": None,
    "turn": 2,
    "side": False,
    "waited": None,
    "failed": False,
    "status": 200,
    "prompt": 1000,
    "reused": 900,
    "evaluated": 100,
    "output": 50,
    "prompt_ms": 500,
    "output_ms": 2000,
    "first_ms": 600,
    "total_ms": 3000,
    "added_us": 2000,
    "lost": None,
    "lost_ms": None,
    "spared": 0,
    "spared_ms": 0,
    "up": 4000,
    "down": 700,
    "place": None,
    "tools": 100,
    "system": 200,
    "history": 400,
    "thinking": 50,
    "newest": 250,
    "rendered": "tools first",
    "equal": None,
}


def record(*, wall=NOW, **changes) -> dict[str, Any]:
    """A turn that went well, 900 of its 1,000 prompt tokens reused; ``wall`` in seconds."""
    return _PLAIN | {"at": round(wall * 1000)} | changes


def store_in(folder) -> TotalsStore:
    """An open store; nobody commits but sqlite, statement by statement."""
    return TotalsStore(open_file(folder)[0])


def keep(store, *records) -> None:
    for each in records:
        store.record(each)
    store.flush()
