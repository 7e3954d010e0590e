"""Adaptation: one kind of thing that a server cannot take, and what it is sent instead.

An adaptation is pure: it neither asks the server nor remembers anything. It finds what a request
needs by what is remembered of the server (``needed``) or by the server's own refusal
(``refused``), and makes the edits. What it found is remembered once the server has taken the
edited request.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request

Remembered = Mapping[Hashable, Any]
"""What one adaptation knows of one server, by the key that it depends on."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer to a request, before any byte of it reached the client."""

    status: int  #: of the HTTP response
    words: str  #: the server's message, at most 8 KiB; it may quote the request, so never logged
    code: str = ""  #: ``error.type`` or ``error.code`` in lower case, "" for none
    path: tuple[str | int, ...] = ()  #: the member it names (pydantic's ``loc``, without "body")


@dataclass(frozen=True, slots=True)
class Need:
    """What one request needs of one adaptation.

    ``facts``: by the key that each depends on (the server and its model: ``()``; a tool's or a
    message's digest; a session), what is remembered under it once the server took the request.
    """

    facts: Remembered = field(default_factory=dict)


class Adaptation(Protocol):
    """One kind of thing that servers refuse."""

    name: str  #: as a rule's: counted, shown, switched off by ``--disable``

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return what ``request`` needs by what is ``remembered``; None for nothing. No I/O."""

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return what ``request`` needs after ``refusal``, None where this is not its kind.

        ``need``: what it was sent with; a Need that is the same heals nothing.
        """

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edits, the same for equal arguments; no two of them overlap."""
