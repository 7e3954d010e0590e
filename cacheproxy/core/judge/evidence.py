"""All that is known of a turn when it is judged, as one value.

Who learns more of it replaces a field, and judges again: see ``cacheproxy.core.judge.judge``.
Also what a server repairs by itself: the prompt that it would have seen without our edits.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from cacheproxy.core.conversation.divergence import Parting, parting
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Break, Rewrite
from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.document.pointer import Path, to_pointer
from cacheproxy.core.kinds.kind import Repair
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.placement import Late
from cacheproxy.core.kinds.profile import UNKNOWN, UNKNOWN_KIND, Profile
from cacheproxy.core.kinds.status import Look, gain
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, hoisted, remade, reordered
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import Piece, PieceRun, piece_of


class Meanwhile(NamedTuple):
    """What happened at the upstream between two turns of a conversation, as far as we know."""

    others: int | None = None  #: conversations that had a turn; None where nobody watched
    alike: int | None = None
    """Tokens that this prompt shares with the last prompt of the one of them that fits what was
    reused best."""
    evaluated: int = 0  #: tokens by all of them
    restarted: bool | None = None  #: the server is another since; None where nobody watched
    emptied: bool = False  #: it was seen with slots, none of which held as much
    moved: bool = False  #: the turn before went to another upstream
    seen: Look | None = None  #: an earlier look from which on all that we sent is known
    read: tuple[int, ...] = ()
    """Tokens that our turns since then had evaluated, in all ways in which they may count."""
    alone: bool = False  #: the server read nothing else, and this turn got that very slot

    def closed(self, before: Before, usage: Usage, now: Look | None) -> Meanwhile:
        """Return this with what a look ``now``, behind the turn of ``usage``, shows.

        What ran beside it shows in the counters: they have gained this turn alone, or more. Which
        slot it got shows by what the slots hold.
        """
        then = self.seen
        if then is None or now is None or usage.evaluated is None or now.start != then.start:
            return self
        is_same = len(then.slots) == 1
        if not is_same:
            had = slot_of(then, before.tokens, before.generated)
            is_same = had is not None and had == slot_of(now, usage.prompt, usage.output)
        gained, _ = gain(then, now)
        expected = [read + usage.evaluated for read in self.read]
        return self._replace(alone=is_same and gained.evaluated in expected)


def slot_of(look: Look, prompt: int | None, output: int | None) -> int | None:
    """Return the one idle slot that holds a prompt of so many tokens with its answer, and no more.

    None where there is none, or more than one.
    """
    if prompt is None or output is None:
        return None
    whole = prompt + output  # the last token was told, and never read
    found = [one.id for one in look.slots if not one.busy and whole - 1 <= one.used <= whole]
    return found[0] if len(found) == 1 else None


NOTHING_SEEN = Meanwhile()


PARAMETERS = (
    *("chat_template_kwargs", "reasoning_effort", "reasoning", "thinking", "enable_thinking"),
    *("think", "thinking_budget_tokens", "output_config", "options", "tool_choice"),
    *("parallel_tool_calls", "response_format", "text", "documents", "chat_template"),
)
"""Members of requests that reach a template beside the messages, in one API or another."""


class Parameter(NamedTuple):
    """A parameter that differs between two requests."""

    path: str  #: JSON pointer
    was: str  #: as JSON, "" for none
    now: str  #: as JSON, "" for none


def parameter_of(was: Any, now: Any, path: Path = ()) -> Parameter | None:
    """Return the first parameter in which two bodies differ, None where none does."""
    for name in [*was, *(name for name in now if name not in was)] if path else PARAMETERS:
        one, other = was.get(name), now.get(name)
        if one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            return parameter_of(one, other, (*path, name))
        texts = ["" if each is None else json.dumps(each) for each in (one, other)]
        return Parameter(to_pointer((*path, name)), *texts)
    return None


class Proof(msgspec.Struct, frozen=True):
    """What a comparison of rendered prompts shows."""

    before: int  #: tokens of the turn before
    now: int  #: tokens of this one
    shared: int  #: tokens that are equal from the start
    fits: bool = False  #: they part where the requests do
    rewrite: Rewrite | None = None  #: else, what the template did
    where: Break | None = None  #: it did so, with an excerpt of both
    clock: int | None = None
    """Where the template prints a time that stands in no request; None: nowhere."""
    is_parameter: bool = False  #: they would not part had both requests the same parameters

    @property
    def lost(self) -> int:
        """What of the prompt before stands behind the place where they part."""
        return self.before - self.shared


class Parted(NamedTuple):
    """Two prompts in the order of a template, and where they part."""

    was: Prompt  #: of the turn before
    now: Prompt  #: of this turn
    left: Parting  #: where they part


class Evidence(msgspec.Struct, frozen=True, eq=False):
    """What a verdict on a turn rests on."""

    before: Before | None
    """The turn before; None where there is none (``is_first``), or it was forgotten."""
    sent: Prompt  #: the prompt, as it went upstream
    unedited: Prompt  #: the prompt, as it came; the same object where nobody edited it
    usage: Usage  #: what was counted: by the answer, else by the server's counters
    profile: Profile = UNKNOWN  #: of the upstream
    request: Request | None = None  #: as it went upstream; None where only its prompt is known
    meanwhile: Meanwhile = NOTHING_SEEN  #: what happened since the turn before
    proof: Proof | None = None  #: what the two rendered prompts show; None: the server showed none
    is_first: bool = False  #: it is the first turn of a session or of a side request
    is_known: bool = False  #: the first turn's conversation has had other turns that we have seen
    is_replaced: bool = False
    """The client wrote the history anew (see ``Place``): no break as long as what stands before the
    messages was reused."""
    is_whole: bool = True  #: the answer came whole, so that its counts are the last
    longest: int = 0  #: tokens of the longest prompt that this model has read there
    partings: dict[tuple[PromptOrder, bool], Parted] = msgspec.field(default_factory=dict)
    """The prompts, compared: by the order of their parts, and whether they are those that nobody
    edited. It is kept when a field is replaced, so each comparison is made once."""

    @property
    def had(self) -> int:
        """Tokens of the turn before; 0 where nobody counted them."""
        return (self.before.tokens or 0) if self.before is not None else 0

    @property
    def tokens(self) -> int | None:
        """Tokens of the prompt: as counted, else by the density of the turn before, if it was."""
        before = self.before
        if self.usage.prompt or before is None or before.tokens is None or not before.sent.chars:
            return self.usage.prompt or None
        return round(before.tokens * self.sent.chars / before.sent.chars)

    @property
    def api(self) -> Dialect | None:
        """The dialect that it went upstream in, if that is known."""
        return None if self.request is None else self.request.dialect

    @property
    def parameter(self) -> Parameter | None:
        """The first parameter for the template that is another than the turn before had it."""
        before = None if self.before is None else self.before.request
        if before is None or self.request is None:
            return None
        return parameter_of(before.json or {}, self.request.json or {})

    def with_its_parameters(self) -> Request | None:
        """Return the request before with the parameters of this one; None: they are equal."""
        if self.parameter is None or self.before is None or self.before.request is None:
            return None
        was, now = self.before.request.json or {}, (self.request and self.request.json) or {}
        kept = {name: value for name, value in was.items() if name not in PARAMETERS}
        ours = {name: value for name, value in now.items() if name in PARAMETERS}
        return self.before.request.with_body(json.dumps(kept | ours).encode())

    @property
    def caches(self) -> bool:
        """Whether the request leaves the server's cache on."""
        said = None if self.request is None else self.request.json
        return said is None or said.get("cache_prompt") is not False

    def parted(self, before: Before, order: PromptOrder, *, unaided: bool = False) -> Parted:
        """Return where this turn leaves the one ``before``, in ``order``.

        ``unaided``: had nobody edited a request. Servers mend some by themselves.
        """
        key = order, unaided
        found = self.partings.get(key)
        if found is None:
            was, now = (before.unedited, self.unedited) if unaided else (before.sent, self.sent)
            if not was.order is now.order is order:
                was, now = reordered(was, order), reordered(now, order)
            if unaided and _mends(self.profile):
                was, now = (as_unaided(one, self.api, self.profile) for one in (was, now))
            found = self.partings[key] = Parted(was, now, parting(was, now))
        return found


def as_unaided(prompt: Prompt, api: Dialect | None, profile: Profile) -> Prompt:
    """Return the prompt of a request that nobody edited as its server would have seen it.

    Only reuse beyond that is due to us. A template that moves late system messages to the head
    would also have moved those that we placed as user messages.

    ``api``: the dialect it goes upstream in. It is ``prompt`` itself where that is the same.
    Late system messages that the server refuses or drops stay where they are: so nothing is
    claimed for having placed them.
    """
    if profile.placement is not None and profile.placement.late is Late.HOISTED:
        made = hoisted(prompt.made)
        prompt = prompt if made is prompt.made else remade(prompt, made)
    return as_repaired(prompt, api, profile)


def as_repaired(prompt: Prompt, api: Dialect | None, profile: Profile) -> Prompt:
    """Return ``prompt``, edited or not, without what its server mends in it: itself, as a rule.

    Some servers remove what a system text begins with, if they know it (see
    ``ServerKind.repairs``). Older versions may not: then we claim less than is due.
    """
    repair = kind_of(profile).repair_of(api)
    if repair is None:
        return prompt
    made, changed = prompt.made, {}
    for name, piece in made.texts.items():
        if piece.part is Part.SYSTEM and any(
            _begins(segment, repair) for segment in piece.segments
        ):
            changed[name] = _mended(piece, repair)
    if changed:
        made = made._replace(texts=made.texts | changed)
    heads = made.run.pieces[: made.heads]
    if any(_begins(segment, repair) for piece in heads for segment in piece.segments):
        mended = [_mended(piece, repair) for piece in heads]
        made = made._replace(run=PieceRun().then((*mended, *made.run.pieces[made.heads :])))
    return prompt if made is prompt.made else remade(prompt, made)


def _mends(profile: Profile) -> bool:
    """Whether the server of ``profile`` may mend prompts: most do not."""
    server, placement = profile.server, profile.placement
    if placement is not None and placement.late is Late.HOISTED:
        return True
    is_known = server is not None and server.kind != UNKNOWN_KIND
    return is_known and bool(kind_of(profile).serving.repairs)


def _mended(piece: Piece, repair: Repair) -> Piece:
    segments = [
        segment._replace(text=repair.text.sub(repair.becomes, segment.text, count=1))
        if _begins(segment, repair)
        else segment
        for segment in piece.segments
    ]
    return piece_of(piece.part, segments)


def _begins(segment: Segment, repair: Repair) -> bool:
    return segment.role != "developer" and repair.text.match(segment.text) is not None
