"""Late system messages, users in a row and ids of calls: where and how a server takes them.

The server's template, two short prompts or its refusal show its treatment of them. See
``core.kinds.placement`` for this knowledge, and ``placing`` for the edits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cacheproxy.core.adapt.adaptation import (
    Edited,
    Learning,
    Need,
    Refusal,
    Remembered,
    Step,
    guarded,
    made,
)
from cacheproxy.core.adapt.placing import LateMessage, late_messages, placed
from cacheproxy.core.adapt.refusal import LARGEST
from cacheproxy.core.adapt.server import KnownServer
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.kinds.placement import BY_OPTION, Late, Placement, guessed
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport

NAME = "late-system-messages"
"""Name under which placed messages are reported and counted, among the rules."""
AUTO, QUIET, USER, OFF = "auto", "quiet", "user", "off"
"""Values of ``--placement``."""
_SCANNED, _MOST_MESSAGES = 128 << 10, 64
"""Bytes and messages beyond which a request is edited in a thread: to look at one message, and to
put a block into it, takes up to 0.05 ms."""
_ALWAYS = guessed(Late.REFUSED, BY_OPTION)
_BY_ANSWER = "its answer to a request"
_UNKNOWN = guessed(Late.UNKNOWN, _BY_ANSWER)
_LATE = guessed(Late.REFUSED, _BY_ANSWER)
# Templates raise such errors while the prompt is rendered, before anything is evaluated. Words of:
# Qwen3.5 and Ministral ("System message must be at the beginning."), Mistral and Gemma
# ("conversation roles must alternate user/assistant/…"), Mistral-Small ("Only user, assistant and
# tool roles are supported, got system."), Qwen and Apertus ("Unexpected message role.", "Invalid
# role: system"), Mistral's of September 2024 on ("Tool call IDs should be alphanumeric strings with
# length 9!"), pydantic's literal checks ("Input should be 'user' or 'assistant'").
_ORDER = re.compile(
    rb"system (?:message|role|prompt)s?\b.{0,80}"
    rb"\b(?:beginning|first|start|only|once|multiple|support|allow|expect)",
    re.IGNORECASE | re.DOTALL,
)
_ROLE = re.compile(
    rb"\b(?:only|unexpected|unknown|invalid|unsupported|unrecognized|expected)\b.{0,80}\brole"
    rb"|\broles?\b.{0,60}\b(?:not supported|unsupported|not allowed|invalid|unknown)"
    rb"|should be .{0,4}user.{0,12}assistant",
    re.IGNORECASE | re.DOTALL,
)
_ALTERNATE = re.compile(
    rb"\broles?\b.{0,20}\bmust alternate|\balternat\w+ .{0,40}\brole", re.IGNORECASE
)
_SHORT_IDS = re.compile(rb"\bids? should be alphanumeric\b.{0,40}\b9\b", re.IGNORECASE)


def refuses_late(body: bytes) -> bool:
    """Whether the error answer ``body`` may be about a late system message."""
    text = body[:LARGEST]
    return any(words.search(text) for words in (_ORDER, _ROLE, _ALTERNATE))


def wants_short_ids(body: bytes) -> bool:
    """Whether the error answer demands ids of calls of nine letters or digits."""
    return _SHORT_IDS.search(body[:LARGEST]) is not None


def wants_turns(body: bytes) -> bool:
    """Whether the error answer demands that user and assistant take turns."""
    return _ALTERNATE.search(body[:LARGEST]) is not None


class LateMessages(Learning):
    """The adaptation that places late system messages; ``setting``: value of ``--placement``."""

    name, title = NAME, "placement"
    fails, whose = "late system messages stay as they are", "{client} sends such messages"

    def __init__(self, setting: str, server: KnownServer) -> None:
        self._setting = setting
        self._server = server

    async def learn(
        self,
        request: Request,
        turn: Turn | None,  # noqa: ARG002
        *,
        begins: bool,  # noqa: ARG002
    ) -> Remembered | None:
        """Return the placement that ``request`` needs, {} while it is unknown; None for no need."""
        if self._setting == OFF:
            return None
        if late_messages(request):
            placement = await self._known(request)
            return {} if placement is None else {(): placement}
        if not self._server.beliefs.mends:
            return None
        placement = self._server.known(request, fresh=False)
        return None if placement is None or not _edits(placement) else {(): placement}

    def needed(self, request: Request, remembered: Remembered) -> Need | None:  # noqa: ARG002
        """Return the need of the placement that ``learn`` found, which may be unknown as yet."""
        return Need(remembered)

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return the need of what the refusal demands beside ``need``; None if of another kind."""
        if self._setting == OFF:
            return None
        words = refusal.words.encode("utf-8", "replace")
        joins, ids = wants_turns(words), wants_short_ids(words)
        is_late = refuses_late(words) and bool(late_messages(request))
        if not (joins or ids or is_late):
            return None
        unknown = _ALWAYS if self._setting == USER else _UNKNOWN
        guess: Placement = (need or Need()).facts.get((), unknown)
        if is_late and not (guess.places or ids):
            guess = replace(_LATE, joins_user=guess.joins_user, short_ids=guess.short_ids)
        if joins:
            guess = replace(guess, joins_user=True, joins_tool=True)
        return Need({(): replace(guess, short_ids=True) if ids else guess})

    def edits(self, request: Request, need: Need) -> Edited:
        """Return ``request`` with its late messages in places where the server takes them."""
        placement = need.facts.get(())
        if placement is None or not _edits(placement):
            return Edited(request)
        return placed(request, placement, late_messages(request))

    async def learn_again(self, request: Request, need: Need | None) -> Need | None:
        """Return the need of the known placement, learned anew if ``need`` was of that."""
        known = self._server.known(request)
        if known is not None and need is not None and known == need.facts.get(()):
            self._server.forget()
            known = await self._known(request, quietly=True)
        return None if known is None else Need({(): known})

    def remember(self, request: Request, need: Need) -> None:
        """Store the placement with which the server took ``request``."""
        if need.facts[()] != self._server.known(request):
            self._server.keep(self._server.key(request), need.facts[()])

    def is_quick(self, request: Request, remembered: Remembered) -> bool:
        """Whether to edit on the reactor: the request is short, or few messages are joined.

        Joining takes ten times as long as changing a role in place; mending reads each message.
        """
        placement = remembered.get(())
        if len(request.body) <= _SCANNED or placement is None or not _edits(placement):
            return True
        is_few = not placement.joins_tool or len(late_messages(request)) <= _MOST_MESSAGES
        return is_few and not placement.mends and request.is_quick(_SCANNED)

    def says(self, remembered: Remembered) -> str:
        """Return the server's treatment of late messages and the remedy, for people."""
        return f"upstream {remembered[()].text}" if () in remembered else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the placement learned last, as plain values for a page."""
        known = _ALWAYS if self._setting == USER else self._server.placement
        if self._setting == OFF or known is None:
            return {"setting": self._setting, "late": str(Late.UNKNOWN), "says": ""}
        return {"setting": self._setting} | known.as_dict()

    async def _known(self, request: Request, *, quietly: bool = False) -> Placement | None:
        """Return the placement for ``request``, learned if need be; None if it stays unknown."""
        known = self._server.known
        if self._setting == USER:
            return known(request) or _ALWAYS
        await self._server.learn_for(request, quietly=quietly or self._setting == QUIET)
        return known(request) or known(request, fresh=False)


def _edits(placement: Placement) -> bool:
    """Whether ``placement`` changes any request."""
    return placement.places or placement.mends


def place(
    request: Request, placement: Placement, late: Sequence[LateMessage] | None = None
) -> tuple[Request, RuleReport | None]:
    """Return ``request`` with its late messages placed, and the report; never raises (``guarded``).

    ``late``: its late messages, if they are known already.
    """

    def work() -> Step:
        found = late_messages(request) if late is None else late
        return made(NAME, request, placed(request, placement, found))

    step = guarded(NAME, request, work)
    return step.request, step.report
