"""Adaptation: one kind of thing that a server cannot take, and what it is sent instead.

An adaptation finds what a request needs by what is remembered of the server (``needed``) or by
the server's own refusal (``refused``), and makes the edits. These three are pure. What a refusal
taught is remembered once the server has taken the edited request. Of an adaptation of which
nothing is remembered, nobody asks whether it is ``needed``; ``given``, an attribute that it may
have, is remembered from the start. One that knows of the server by itself (``Learning``) is asked
about each request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.document.edits import Edit, splice, splices_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport, describe

Remembered = Mapping[Hashable, Any]
"""What one adaptation knows of one server, by the key that it depends on."""
NOTHING: Remembered = {}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer to a request, before any byte of it reached the client."""

    status: int  #: of the HTTP response
    words: str  #: the server's message, at most 8 KiB; it may quote the request, so never logged
    code: str = ""  #: ``error.type`` or ``error.code`` in lower case, "" for none
    path: tuple[str | int, ...] = ()  #: the member it names (pydantic's ``loc``, without "body")


@dataclass(frozen=True, slots=True)
class AdaptationNeed:
    """What one request needs of one adaptation."""

    facts: Remembered = field(default_factory=dict)
    """By the key that each depends on (the server and its model: ``()``; a tool's or a message's
    digest; a session), what is remembered under it once the server took the request."""


Need = AdaptationNeed
"""As the modules here call it; plugins have another ``Need``."""


class Edited(NamedTuple):
    """A request that an adaptation has edited itself: for splices that no Edit describes."""

    request: Request  #: as it goes on; the same object if nothing was edited
    edits: Sequence[Edit] = ()  #: what was done, for the report


class Step(NamedTuple):
    """What one adaptation came to, for one request."""

    request: Request  #: as it goes on; the same object if nothing was edited
    need: Need | None = None  #: what it needed, None for nothing
    report: RuleReport | None = None  #: what was edited, or why it failed


class Adaptation(Protocol):
    """One kind of thing that servers refuse."""

    @property
    def name(self) -> str:
        """As a rule's: counted, shown, switched off by ``--disable``."""

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return what ``request`` needs by what is ``remembered``; None for nothing. No I/O."""

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:  # noqa: ARG002
        """Return what ``request`` needs after ``refusal``, None where this is not its kind.

        ``need``: what it was sent with; a Need that is the same heals nothing.
        """
        return None

    def edits(self, request: Request, need: Need) -> Sequence[Edit] | Edited:
        """Return the edits, the same for equal arguments; no two of them overlap."""


class Learning(Adaptation, Protocol):
    """An adaptation that is asked about each request: it knows of the server by itself."""

    title: str  #: under which pages have what ``as_dict`` returns, and what it ``says``
    fails: str  #: what it means that it failed, in the log: "reasoning is not kept"
    whose: str  #: who needed it first, in the log; ``{client}`` is the client's name

    async def learn(
        self, request: Request, turn: Turn | None, *, begins: bool
    ) -> Remembered | None:
        """Return what is known that concerns ``request``, None for nothing; it may ask the server.

        ``begins``: whether it is a turn, so that its answer is to be remembered.
        """

    async def learn_again(self, request: Request, need: Need | None) -> Need | None:  # noqa: ARG002
        """Return what ``request`` needs by what is known now, since it was refused with ``need``.

        Another server may have taken the place of the one that was known.
        """
        return need

    def remember(self, request: Request, need: Need) -> None:  # noqa: ARG002
        """Take note that the server took ``request`` with what a refusal taught."""
        return

    def is_quick(self, request: Request, remembered: Remembered) -> bool:
        """Whether the request may be edited on the reactor: that takes less than 5 ms."""

    def says(self, remembered: Remembered) -> str:
        """Return what such a server does, and what is done about it: one line for people.

        Others may have it, too: pages show it, and the log has it once.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return what it knows as plain values for a page."""


def made(
    name: str, request: Request, found: Sequence[Edit] | Edited, need: Need | None = None
) -> Step:
    """Return ``request`` with what the adaptation ``name`` has ``found``.

    Raises EditError and PathError.
    """
    if isinstance(found, Edited):
        after, edits = found
    elif not found or (document := request.document) is None:
        return Step(request, need)
    else:
        edits, splices = found, splices_of(document, found)
        body = splice(request.body, splices)
        after = request if body is request.body else request.with_body(body, splices)
    return Step(after, need, None if after is request else RuleReport(name, tuple(edits)))


def guarded(name: str, request: Request, work: Callable[[], Step]) -> Step:
    """Return what ``work`` comes to; it never raises.

    Where the adaptation ``name`` fails, ``request`` goes on without it, and the report says why
    (law 4).
    """
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's may raise whatever it likes
        return Step(request, None, RuleReport(name, error=describe(error)))
