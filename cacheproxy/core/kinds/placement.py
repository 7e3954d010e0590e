"""Placement: a server's treatment of late system messages, and where the proxy puts them.

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
    """A server's treatment of late messages of one role."""

    late: Late = Late.UNKNOWN  #: treatment after other messages
    lead: Late = Late.UNKNOWN  #: treatment of a second text at the head
    costs: bool = False  #: whether one behind a tool's result costs more unplaced than placed


@dataclass(frozen=True, slots=True)
class Placement:
    """One server's treatment of late messages of each role, and what else it refuses."""

    system: Treatment  #: treatment of late messages of role system
    developer: Treatment  #: treatment of late messages of role developer
    joins_user: bool = False  #: whether user messages in a row are joined: the server refuses them
    joins_tool: bool = False
    """Whether a late message joins the tool's result before it: a user message there would be
    refused, or cost what was rendered before it (the reasoning of the running turn)."""
    told_by: str = ""  #: source of this knowledge, for people
    short_ids: bool = False  #: whether ids of calls must be nine letters or digits
    refuses: tuple[str, ...] = ()  #: refused features that no edit can mend, for people

    @property
    def late(self) -> Late:
        """The treatment of late messages of role system, the usual one."""
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
    def text(self) -> str:
        """One line for people: the treatment, its remedy, and what has no remedy."""
        refused = (f"it refuses {what}, which nothing can mend" for what in self.refuses)
        return "; ".join([self.mended, *refused])

    @property
    def mended(self) -> str:
        """The server's treatment and the proxy's remedy, for people."""
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
        return asdict(self) | {"late": str(self.late), "mended": self.mended, "says": self.text}


def alike(late: Late, told_by: str, *, joins: bool = False) -> Placement:
    """Return the placement of a server with one treatment for all late messages."""
    treatment = Treatment(late, late)
    return Placement(treatment, treatment, joins, joins, told_by)


def guessed(late: Late, told_by: str, *, joins: bool = False) -> Placement:
    """Return the placement of a server that cannot be asked what it renders.

    Behind a tool's result a late message joins it: no template is known that refuses this or drops
    reasoning for it, as some do for a user message.
    """
    return replace(alike(late, told_by, joins=joins), joins_tool=True)


BY_OPTION = "the option --placement user"
"""``Placement.told_by`` if the server was sent no question."""
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
"""Words for each treatment; they follow the server's name."""
