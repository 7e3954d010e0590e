"""What the checks look at, built by function."""

from __future__ import annotations

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.servers.counters import ServerFigures
from cacheproxy.core.servers.identify import ServerFacts
from cacheproxy.core.servers.metrics_page import Sample
from cacheproxy.core.servers.status import Look, UpstreamState
from cacheproxy.doctor.record import Record, SeenExchange
from cacheproxy.doctor.reuse import Shot, Trial


def seen(number=1, turn=1, prompt=18_000, reused=0, verdict="ok", **more):
    """One exchange of a conversation of Claude Code, begun at second ``number``."""
    usual = {"client": "claude", "session": "3f9a", "status": 200}
    usual |= {"number": number, "turn": turn, "prompt": prompt, "reused": reused}
    return SeenExchange(**(usual | {"verdict": verdict, "wall": float(number)} | more))


def record(*turns):
    """A conversation of these turns: number of the turn, tokens reused, verdict."""
    return Record(tuple(seen(n, *turn[:1], 18_000, *turn[1:]) for n, turn in enumerate(turns)))


def shot(reused):
    return Shot(Usage(prompt=640, reused=reused), 1.0)


def trial(second, without, cch_only=None, path="/v1/chat/completions"):
    """A trial of prompts of 640 tokens, by how many were reused of each."""
    return Trial(
        path,
        through_proxy=True,
        first=shot(0),
        second=shot(second),
        without=shot(without),
        cch_only=None if cch_only is None else shot(cch_only),
    )


def server_look(kind="llama-server", evaluated=None, slots=()):
    """A look at a server that has evaluated so many tokens, and has these slots."""
    sample = None if evaluated is None else Sample(ServerFigures(evaluated=evaluated))
    tasks = max((slot.task for slot in slots if slot.task is not None), default=None)
    more = {"sample": sample, "slots": tuple(slots), "tasks": tasks}
    return Look(
        "http://localhost:8080", 0.0, 0.0, UpstreamState.UP, server=ServerFacts(kind), **more
    )
