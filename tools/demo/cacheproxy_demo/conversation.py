"""The recorded conversations that the demo replays, each with turns of one Claude Code session.

Their prose was replaced word for word by meaningless words of the same length; structure, lengths,
order and every volatile field are as recorded. Each request repeats the whole history, so a
fixture has the last request as a whole, and of each turn only the differences from it.
"""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

CCH = "claude-code-2.1.114"
"""Recording with another ``cch`` in each request, at the head of the prompt."""
LATE = "claude-code-2.1.280"
"""Recording with another system message in each request, at the end of the prompt."""


@dataclass(frozen=True, slots=True)
class DemoTurn:
    """The differences of one request from the last one."""

    billing_header: str
    """Text of ``$.system[0]``; in CCH it differs in every request."""

    history: int
    """Number of the last request's messages that come before ``message``."""

    message: dict[str, Any]
    """The request's last message, with the cache breakpoint that later requests have elsewhere."""


@dataclass(frozen=True, slots=True)
class RecordedConversation:
    """Several requests of one session, in order."""

    client: str
    """Name and version of the client, for people."""

    headers: dict[str, str]
    """Request headers that identify the client; none about the connection."""

    last: dict[str, Any]
    """The body of the last request."""

    turns: tuple[DemoTurn, ...]  #: differences of each request from the last one

    def body(self, number: int) -> dict[str, Any]:
        """Return turn ``number``'s request body (Anthropic messages); the first turn is 1.

        Key order is as recorded: written compactly, it is the recorded body byte for byte.
        Raises IndexError when there are fewer turns.
        """
        turn = self.turns[number - 1]
        body = copy.deepcopy(self.last)
        body["system"][0]["text"] = turn.billing_header
        body["messages"][turn.history :] = [copy.deepcopy(turn.message)]
        return body


def load(name: str = CCH) -> RecordedConversation:
    """Return a conversation of this package, by its name: CCH or LATE."""
    packed = files(__package__).joinpath(f"{name}.json.gz").read_bytes()
    content = json.loads(gzip.decompress(packed))
    return RecordedConversation(
        client=content["client"],
        headers=content["headers"],
        last=content["last"],
        turns=tuple(DemoTurn(**turn) for turn in content["turns"]),
    )


def marked(body: dict[str, Any], mark: str) -> dict[str, Any]:
    """Return ``body`` with ``mark`` at the start of its prompt, so that no earlier pass helps.

    Templates begin with the system text or with the tools. The billing header stays at the head
    of the system text, where clients put it and rules look for it; the mark follows it.
    """
    body = copy.deepcopy(body)
    for place, key in (body["system"][1], "text"), (body["tools"][0], "description"):
        place[key] = f"{mark}\n{place[key]}"
    return body
