"""What a proxy tells, as its pages do."""

from cacheproxy.top.screen import ScreenPlace
from cacheproxy.top.watch import Watched

NOW = 1_700_000_000.0
DATA = {
    "now": NOW,
    "upstream": {
        "url": "http://localhost:8080",
        "state": "ready",
        "server": {"summary": "llama-server b9724"},
    },
    "headline": {"title": "Cache works, with breaks", "standing": "hitches", "share": 0.971},
    "without": 0.412,
    "overview": {"start": NOW - 3600, "sums": {"breaks": 3, "lost": 12_400}},
    "prefills": [],
}
BREAK = {
    "number": 15,
    "at": NOW - 40,
    "client": "claude",
    "session": "3f9a77",
    "turn": 15,
    "reason": "system_changed",
    "shape": "date",
    "lost": 16_293,
    "lost_seconds": 38.1,
    "known": {
        "phrase": "The system text changed (date)",
        "cure": {
            "rule": "date-1",
            "command": "cacheproxy diagnose 15 --propose --apply",
            "applicable": True,
            "applied": False,
        },
    },
}


def conversation(name="claude/3f9a77", **changes):
    client, _, session = name.partition("/")
    return {
        "id": name,
        "client": client,
        "session": session,
        "model": "qwen",
        "upstream": "http://localhost:8080",
        "last": NOW - 60,
        "turns": 18,
        "reused": 970,
        "evaluated": 30,
        "saved_seconds": 840.0,
        "breaks": 0,
        "lost": 0,
        "root": None,
        "context": 20_702,
        "recent": [1, 5, 8],
        **changes,
    }


def turn(number, **changes):
    return {
        "turn": number,
        "at": NOW,
        "kind": "turn",
        "prompt": 18_211,
        "reused": 18_000,
        "evaluated": 211,
        "output": 7,
        "first_seconds": 0.9,
        "verdict": "ok",
        "reason": None,
        "status": 200,
        "waited": None,
        **changes,
    }


def told(*conversations, data=None, **more):
    page = {"conversations": list(conversations), "count": more.pop("count", len(conversations))}
    return Watched(DATA | (data or {}), page, **more)


def place(width=80, height=24):
    return ScreenPlace(width, height, "http://127.0.0.1:8081", "1h")
