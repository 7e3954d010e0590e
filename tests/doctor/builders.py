"""What the checks look at, built by function."""

from __future__ import annotations

from cacheproxy.client_setup.checkup import Checkup, Volatile
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.servers.counters import Sample, ServerFigures
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.core.servers.status import Look, UpstreamState
from cacheproxy.doctor.clients import CheckedClient
from cacheproxy.doctor.record import Record, SeenExchange
from cacheproxy.doctor.reuse import Shot, Trial

RULE = "claude-billing-header"


def head(version, cch):
    return (
        f"x-anthropic-billing-header: cc_version=2.1.285.{version}; cc_entrypoint=cli; cch={cch};"
    )


HEADS = Volatile(
    "billing header",
    (RULE,),
    (head("1a2", "a1b2c"), head("3b4", "d3e4f"), head("5c6", "0a9b8")),
    head("5c6", "7c6d5"),
    "repairs the header's cch itself, but a new conversation has another cc_version",
)
"""What Claude Code's package says of its header, in short."""
CLIENT = Client("claude", title="Claude Code", sends_late="Claude Code sends one in each turn")
CHECKED = CheckedClient(CLIENT, (RULE,), Checkup(volatile=HEADS))


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


def trial(second, without, next_turn=None, path="/v1/chat/completions"):
    """A trial of prompts of 640 tokens, by how many were reused of each."""
    return Trial(
        path,
        through_proxy=True,
        first=shot(0),
        second=shot(second),
        without=shot(without),
        next_turn=None if next_turn is None else shot(next_turn),
    )


def server_look(kind="llama-server", evaluated=None, slots=()):
    """A look at a server that has evaluated so many tokens, and has these slots."""
    sample = None if evaluated is None else Sample(ServerFigures(evaluated=evaluated))
    tasks = max((slot.task for slot in slots if slot.task is not None), default=None)
    more = {"sample": sample, "slots": tuple(slots), "tasks": tasks}
    return Look(
        "http://localhost:8080", 0.0, 0.0, UpstreamState.UP, server=ServerFacts(kind), **more
    )
