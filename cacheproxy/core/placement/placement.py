"""Placement: what a server does with a system message that comes late, and what follows from it.

The head is the first system text of a request: ``system`` (Messages), ``instructions``
(Responses), or the first message if its role is system or developer. Each later message of these
roles is late. A template takes one where it stands, renders it as a user message, moves it to the
head ("hoists" it), refuses the request, or drops the message. The last three cost the whole
history, the request, or the text. In these cases the proxy sends the message as a user message, in
its place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

ROLES = ("system", "developer")
"""The roles of system text. OpenAI's newer models call it developer."""


class Late(StrEnum):
    """What a server does with a late system message."""

    INLINE = "inline"
    USER = "user"
    HOISTED = "hoisted"
    REFUSED = "refused"
    DROPPED = "dropped"
    UNKNOWN = "unknown"

    @property
    def harms(self) -> bool:
        """Whether the message has to go on as the user's."""
        return self in (Late.HOISTED, Late.REFUSED, Late.DROPPED)


@dataclass(frozen=True, slots=True)
class Treatment:
    """How one role fares: after other messages (``late``), and as a second text at the head."""

    late: Late = Late.UNKNOWN
    lead: Late = Late.UNKNOWN


@dataclass(frozen=True, slots=True)
class Placement:
    """What one server does with late messages of each role.

    ``joins_user``: it refuses two user messages in a row, ``joins_tool``: a user message behind
    a tool's result; the placed text is joined to its neighbour there. ``told_by``: how this is
    known, for people.
    """

    system: Treatment
    developer: Treatment
    joins_user: bool = False
    joins_tool: bool = False
    told_by: str = ""

    @property
    def late(self) -> Late:
        """What becomes of a late message of role system, the usual one."""
        return self.system.late

    @property
    def places(self) -> bool:
        """Whether any late message has to go on as the user's."""
        of_all = (self.system, self.developer)
        return any(each.late.harms or each.lead.harms for each in of_all)

    def moves(self, role: str, *, leads: bool) -> bool:
        """Return whether a late message of ``role`` goes on as the user's.

        ``leads``: only system text stands before it.
        """
        treatment = self.developer if role == "developer" else self.system
        return (treatment.lead if leads else treatment.late).harms

    @property
    def says(self) -> str:
        """One line for people: what the server does, and what is done about it."""
        if self.told_by == BY_OPTION:
            return f"was not asked where late system messages stand: {_DONE}"
        does = DOES[self.late]
        return f"{does}: {_DONE}" if self.late.harms else does

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a page."""
        return asdict(self) | {"late": str(self.late), "says": self.says}


def alike(late: Late, told_by: str, *, joins: bool = False) -> Placement:
    """Return the placement of a server that treats all late messages alike."""
    treatment = Treatment(late, late)
    return Placement(treatment, treatment, joins, joins, told_by)


BY_OPTION = "the option --placement user"
"""``Placement.told_by`` where nobody asked the server."""
_DONE = "the proxy sends them as user messages, in their place"
DOES: dict[str, str] = {
    Late.INLINE: "takes late system messages where they stand",
    Late.USER: "renders late system messages as user messages",
    Late.HOISTED: "moves late system messages to the head of the prompt",
    Late.REFUSED: "refuses late system messages",
    Late.DROPPED: "drops late system messages",
    Late.UNKNOWN: "does not show what it does with late system messages",
}
"""What a server does, for people: behind its name."""
