"""Adaptation: one kind of content that a server cannot take, and its replacement.

An adaptation finds what a request needs from the remembered facts of the server (``needed``) or
from the server's refusal (``refused``), and makes the edits. These three methods are pure. The
facts of a refusal are remembered once the server has taken the edited request. ``needed`` is
called only if facts are remembered; ``given``, an optional attribute, has facts from the start.
An adaptation that learns by itself (``Learning``) is called for each request.
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
"""Remembered facts of one adaptation about one server, by the key that each depends on."""
NOTHING: Remembered = {}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer to a request, before any byte of it reached the client."""

    status: int  #: of the HTTP response
    words: str  #: the server's message, at most 8 KiB; never logged, it may quote the request
    code: str = ""  #: ``error.type`` or ``error.code`` in lower case, "" for none
    path: tuple[str | int, ...] = ()  #: path of the refused member (pydantic's ``loc``), or ()


@dataclass(frozen=True, slots=True)
class AdaptationNeed:
    """The need that one request has of one adaptation."""

    facts: Remembered = field(default_factory=dict)
    """Facts to remember once the server has taken the request, by the key that each depends on
    (``()``: the server and its model; a tool's or a message's digest; a session)."""


Need = AdaptationNeed
"""Short name for the modules of this package; plugins have another ``Need``."""


class Edited(NamedTuple):
    """A request that an adaptation has edited itself, with splices that no Edit describes."""

    request: Request  #: the edited request; the same object if nothing was edited
    edits: Sequence[Edit] = ()  #: the edits, for the report


class Step(NamedTuple):
    """The result of one adaptation for one request."""

    request: Request  #: the edited request; the same object if nothing was edited
    need: Need | None = None  #: its need, None for none
    report: RuleReport | None = None  #: the edits, or the reason of a failure; None for neither


class Adaptation(Protocol):
    """One kind of content that servers refuse, and its replacement."""

    @property
    def name(self) -> str:
        """Its name among those of rules: counted, shown, and taken by ``--disable``."""

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need of ``request`` by the ``remembered`` facts, None for none. No I/O."""

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:  # noqa: ARG002
        """Return the need of ``request`` after ``refusal``, None if it is of another kind.

        ``need``: the need that it was sent with; to return an equal one changes nothing.
        """
        return None

    def edits(self, request: Request, need: Need) -> Sequence[Edit] | Edited:
        """Return the edits, the same for equal arguments; no two of them overlap."""


class Learning(Adaptation, Protocol):
    """An adaptation that learns about the server by itself, and is called for each request."""

    title: str  #: key on pages for the results of ``as_dict`` and ``says``
    fails: str  #: words in the log for its failure: "reasoning is not kept"
    whose: str  #: words in the log for the first to need it; ``{client}``, ``{request}``: its names

    async def learn(
        self, request: Request, turn: Turn | None, *, begins: bool
    ) -> Remembered | None:
        """Return the known facts that concern ``request``, None for none; may ask the server.

        ``begins``: whether it begins a turn, so that its answer is remembered.
        """

    async def learn_again(self, request: Request, need: Need | None) -> Need | None:  # noqa: ARG002
        """Return the need of ``request``, learned anew after it was refused with ``need``.

        Another server may have taken the place of the known one.
        """
        return need

    def remember(self, request: Request, need: Need) -> None:  # noqa: ARG002
        """Remember that the server took ``request`` with ``need``, learned from a refusal."""
        return

    def is_quick(self, request: Request, remembered: Remembered) -> bool:
        """Whether the request may be edited on the reactor: that takes less than 5 ms."""

    def says(self, remembered: Remembered) -> str:
        """Return one line for people: the server's treatment, and the remedy.

        Pages show it, and the log has it once; it contains nothing private.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return its knowledge as plain values for a page."""


def made(
    name: str, request: Request, found: Sequence[Edit] | Edited, need: Need | None = None
) -> Step:
    """Return the step of ``request`` after the edits ``found``; raises EditError and PathError."""
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
    """Return the result of ``work``; raises nothing but KeyboardInterrupt.

    If the adaptation ``name`` fails, ``request`` goes on without it, and the report has the
    reason (law 4).
    """
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's may raise whatever it likes
        return Step(request, None, RuleReport(name, error=describe(error)))
