"""Placement: what a server does with a system message that comes late, and what follows from it.

The head is the first system text of a request: ``system`` (Messages), ``instructions``
(Responses), or the first message if its role is system or developer. Each later message of these
roles is late. A template takes one where it stands, renders it as a user message, moves it to the
head ("hoists" it), refuses the request, or drops the message. The last three cost the whole
history, the request, or the text. In these cases the proxy sends the message as a user message, in
its place; or it joins the message beside it, where a user message would be refused, or would cost
the reasoning of the running turn.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
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
    """How one role fares."""

    late: Late = Late.UNKNOWN  #: after other messages
    lead: Late = Late.UNKNOWN  #: as a second text at the head
    costs: bool = False  #: as it is sent, behind a tool's result, it costs more than placed


@dataclass(frozen=True, slots=True)
class Placement:
    """What one server does with late messages of each role, and what else it cannot take."""

    system: Treatment  #: late messages of this role
    developer: Treatment  #: late messages of this role
    joins_user: bool = False  #: it refuses two user messages in a row, which become one
    joins_tool: bool = False
    """A late message joins the tool's result before it: as a user message there it would be
    refused, or cost what was rendered before it (the reasoning of the running turn)."""
    told_by: str = ""  #: how this is known, for people
    short_ids: bool = False  #: it refuses ids of calls unless they are nine letters or digits
    refuses: tuple[str, ...] = ()  #: what it refuses and nobody can mend, for people

    @property
    def late(self) -> Late:
        """What becomes of a late message of role system, the usual one."""
        return self.system.late

    @property
    def places(self) -> bool:
        """Whether any late message has to be placed."""
        of_all = (self.system, self.developer)
        return any(each.late.harms or each.lead.harms or each.costs for each in of_all)

    @property
    def mends(self) -> bool:
        """Whether requests without late messages may have to be edited, too."""
        return self.joins_user or self.short_ids

    def moves(self, role: str, *, leads: bool, behind: bool = False) -> bool:
        """Return whether a late message of ``role`` is placed.

        ``leads``: only system text stands before it. ``behind``: a tool's result does.
        """
        treatment = self.developer if role == "developer" else self.system
        return (treatment.lead if leads else treatment.late).harms or (behind and treatment.costs)

    @property
    def says(self) -> str:
        """One line for people: what the server does, what is done about it, and what cannot be."""
        refused = (f"it refuses {what}, which nothing can mend" for what in self.refuses)
        return "; ".join([self.mended, *refused])

    @property
    def mended(self) -> str:
        """What the server does, and what is done about it."""
        if self.told_by == BY_OPTION:
            return f"was not asked where late system messages stand: {_DONE}{self._joins}"
        does = DOES[self.late]
        if self.late.harms:
            does += f": {_DONE}{self._joins}"
        elif self.system.costs:
            does += f", but behind a tool's result that costs what stands before: {_JOINED}"
        if self.joins_user:
            does += "; two user messages in a row become one, since it refuses them"
        if self.short_ids:
            does += "; ids of calls become nine letters, since it refuses others"
        return does

    @property
    def _joins(self) -> str:
        if self.joins_user:
            return ", joined to the message beside them"
        if self.joins_tool:
            return f"; {_JOINED}, since a user message there can cost the reasoning before it"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a page."""
        return asdict(self) | {"late": str(self.late), "mended": self.mended, "says": self.says}


def alike(late: Late, told_by: str, *, joins: bool = False) -> Placement:
    """Return the placement of a server that treats all late messages alike."""
    treatment = Treatment(late, late)
    return Placement(treatment, treatment, joins, joins, told_by)


def guessed(late: Late, told_by: str, *, joins: bool = False) -> Placement:
    """Return the placement of a server that cannot be asked what it renders.

    Behind a tool's result a late message joins it: no template is known that refuses this or drops
    reasoning for it, as some do for a user message.
    """
    return replace(alike(late, told_by, joins=joins), joins_tool=True)


BY_OPTION = "the option --placement user"
"""``Placement.told_by`` where nobody asked the server."""
_DONE = "the proxy sends them as user messages, in their place"
_JOINED = "the proxy adds those behind a tool's result to it"
DOES: dict[str, str] = {
    Late.INLINE: "takes late system messages where they stand",
    Late.USER: "renders late system messages as user messages",
    Late.HOISTED: "moves late system messages to the head of the prompt",
    Late.REFUSED: "refuses late system messages",
    Late.DROPPED: "drops late system messages",
    Late.UNKNOWN: "does not show what it does with late system messages",
}
"""What a server does, for people: behind its name."""
