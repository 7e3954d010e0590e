"""What keeper and workers say to each other: plain values, which go as MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec

from cacheproxy.core.prompt.request import Headers

Text = bytes
"""A text as it is sent; see ``wire.text_out``."""
Lane = tuple[Text, ...]


class _Message(msgspec.Struct, array_like=True, tag=True):
    """Anything that is said. A question has an ``id``, which its answer repeats."""


# The keeper says


class Begin(_Message):
    """What a worker is: its ``number`` (from 1), the settings as JSON, our token in Via."""

    number: int
    config: bytes
    via: bytes


class Prepare(_Message):
    """Question: can you work with these settings? Answered with what speaks against it, or ""."""

    config: bytes
    id: int = 0


class Adopt(_Message):
    """Work with these settings from now on."""

    config: bytes


class Stop(_Message):
    """Listen no more, let open answers finish within ``grace`` seconds, and end."""

    grace: float


class Hurry(_Message):
    """Wait no longer."""


class Forget(_Message):
    """The upstream was down: another server may have taken its place. Both sides say it."""


class Fewest(_Message):
    """The worker with the fewest connections has so many."""

    connections: int


class Answer(_Message):
    """The answer to the question ``id``."""

    id: int
    value: Any = None


# A worker says


class Ready(_Message):
    """It listens."""


class Unfit(_Message):
    """It cannot begin, and ends; for people, one line."""

    why: Text


class Finished(_Message):
    """An exchange is over; its bodies are the load.

    First the one that came, then the one that was sent if it is another, then the answer's.
    ``received`` is method, target and headers, ``body`` the length of its body. ``sent``: whether
    it went up; ``other``: as what, if not the same; ``other_body``: the length of its body, None if
    that is the same. ``kept``: of the answer's body, None for none. ``lane``: whose turn it
    is, None if it is none.
    """

    received: tuple[Text, Text, Headers]
    body: int
    sent: bool
    other: tuple[Text, Text, Headers] | None
    other_body: int | None
    reports: list[Any]
    session: tuple[Text, Text] | None
    lane: Lane | None
    turn: int
    upstream: Text
    status: int | None
    outcome: str
    usage: tuple[int | None, int | None, int | None, float | None, float | None, int | None]
    wall: float
    times: tuple[float | None, float, float | None, float | None, float | None]
    bytes_down: int
    error: Text | None
    headers: Headers
    kept: int | None


class Said(_Message):
    """A line for the log: Twisted's name of the level, whose it is, and what it says."""

    level: str
    namespace: str
    text: Text


class Standing(_Message):
    """How it stands with a worker.

    ``connections`` are open, ``streams`` of them with an exchange under way. ``failures``: as
    ``Failures.as_dict`` has them. ``dropped``: exchanges that the keeper was too slow for.
    """

    connections: int
    streams: int
    failures: dict[Text, dict[str, int | bool]]
    dropped: int


class Page(_Message):
    """Somebody asks for one of our own pages: a descriptor comes with it."""


class Sent(_Message):
    """A turn goes up, which the rules of the next one will look at; its body is the load."""

    lane: Lane
    version: str
    request: tuple[Text, Text, Headers]


class Recall(_Message):
    """Question: the last turn of a lane, unless it is the one with this ``version``.

    Answered with its version and (method, target, headers), its body being the load; or None.
    """

    lane: Lane
    version: str
    id: int = 0


class Spelled(_Message):
    """The model has called a tool with arguments in this spelling."""

    call: Text
    arguments: Text


class HowSpelled(_Message):
    """Question: how were the arguments of these calls spelled? Answered with texts, or None."""

    calls: list[Text]
    id: int = 0


class Stopping(_Message):
    """It listens no more; so many answers are open."""

    waiting: int


class Ended(_Message):
    """No answer is open any more; so many were broken off. What waits is still said."""

    broken_off: int


FromKeeper = Begin | Prepare | Adopt | Stop | Hurry | Forget | Fewest | Answer
FromWorker = (
    Ready
    | Unfit
    | Finished
    | Said
    | Standing
    | Page
    | Sent
    | Recall
    | Forget
    | Spelled
    | HowSpelled
    | Stopping
    | Ended
    | Answer
)
