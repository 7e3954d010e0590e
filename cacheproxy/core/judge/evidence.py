"""Evidence: everything known of a turn when it is judged, as one value.

New knowledge replaces a field, and the turn is judged again: see ``cacheproxy.core.judge.judge``.
Also the prompt that a server would have seen without our edits, after its own repairs.
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
    """Events at the upstream between two turns of a conversation, as far as they are known."""

    others: int | None = None  #: number of conversations with a turn; None: not watched
    alike: int | None = None
    """Tokens that this prompt shares with the last prompt of another conversation: of the one whose
    share is closest to the reused tokens."""
    evaluated: int = 0  #: tokens evaluated for the other conversations
    restarted: bool | None = None  #: whether the server was restarted; None: not watched
    emptied: bool = False  #: whether a look showed slots, none with as many tokens
    moved: bool = False  #: whether the turn before went to another upstream
    seen: Look | None = None  #: earlier look; all our requests since then are known
    read: tuple[int, ...] = ()
    """Tokens evaluated for our turns since ``seen``, in each way in which they may count."""
    alone: bool = False  #: whether the server evaluated nothing else, and this turn got that slot

    def closed(self, before: Before, usage: Usage, now: Look | None) -> Meanwhile:
        """Return these events completed by ``now``, a look after the turn of ``usage``.

        The counters show whether anything ran beside the turn; the sizes of the slots show which
        slot it got.
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
    """Return the id of the one idle slot with exactly the tokens of ``prompt`` and ``output``.

    None if there is none, or more than one.
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
"""Members of requests that reach a template besides the messages, in any API."""


class Parameter(NamedTuple):
    """A parameter that differs between two requests."""

    path: str  #: its JSON pointer
    was: str  #: its earlier value as JSON, "" for none
    now: str  #: its present value as JSON, "" for none


def parameter_of(was: Any, now: Any, path: Path = ()) -> Parameter | None:
    """Return the first parameter in which two bodies differ, None if none does."""
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
    """The result of a comparison of two rendered prompts."""

    before: int  #: tokens of the turn before
    now: int  #: tokens of this turn
    shared: int  #: tokens that are equal from the start
    fits: bool = False  #: whether they part where the requests do
    rewrite: Rewrite | None = None  #: otherwise, what the template rewrote
    where: Break | None = None  #: place of that, with an excerpt of both
    clock: int | None = None
    """Place where the template prints a time that stands in no request; None if it prints none."""
    is_parameter: bool = False  #: whether they part only because of a parameter

    @property
    def lost(self) -> int:
        """Tokens of the prompt before that stand behind the place where they part."""
        return self.before - self.shared


class Parted(NamedTuple):
    """Two prompts in the order of a template, and the place where they part."""

    was: Prompt  #: prompt of the turn before
    now: Prompt  #: prompt of this turn
    left: Parting  #: place where they part


class Evidence(msgspec.Struct, frozen=True, eq=False):
    """The facts that the verdict on a turn rests on."""

    before: Before | None
    """The turn before; None if there is none (``is_first``), or if it was forgotten."""
    sent: Prompt  #: prompt as it went upstream
    unedited: Prompt  #: prompt as it came; the same object if nothing was edited
    usage: Usage  #: counts of the answer, else of the server's counters
    profile: Profile = UNKNOWN  #: profile of the upstream
    request: Request | None = None  #: request as it went upstream; None if only its prompt is known
    meanwhile: Meanwhile = NOTHING_SEEN  #: events since the turn before
    proof: Proof | None = None  #: comparison of the rendered prompts; None: not rendered
    is_first: bool = False  #: whether it is the first turn of a session or of a side request
    is_known: bool = False  #: whether the conversation of a first turn has had other known turns
    is_replaced: bool = False
    """Whether the client wrote the history anew (see ``Place``): no break as long as the text
    before the messages was reused."""
    is_whole: bool = True  #: whether the answer came whole, so that its counts are final
    longest: int = 0  #: tokens of the longest prompt evaluated by this model there
    partings: dict[tuple[PromptOrder, bool], Parted] = msgspec.field(default_factory=dict)
    """Comparisons of the prompts, by the order of their parts and whether they are the unedited
    ones. Evidence with a replaced field shares it, so each comparison is made once."""

    @property
    def had(self) -> int:
        """Tokens of the turn before; 0 if they were not counted."""
        return (self.before.tokens or 0) if self.before is not None else 0

    @property
    def tokens(self) -> int | None:
        """Tokens of the prompt: counted, else by the density of the turn before, else None."""
        before = self.before
        if self.usage.prompt or before is None or before.tokens is None or not before.sent.chars:
            return self.usage.prompt or None
        return round(before.tokens * self.sent.chars / before.sent.chars)

    @property
    def api(self) -> Dialect | None:
        """The dialect of the request upstream, None if that is not known."""
        return None if self.request is None else self.request.dialect

    @property
    def parameter(self) -> Parameter | None:
        """The first parameter for the template that differs from that of the turn before."""
        before = None if self.before is None else self.before.request
        if before is None or self.request is None:
            return None
        return parameter_of(before.json or {}, self.request.json or {})

    def with_its_parameters(self) -> Request | None:
        """Return the request before with the parameters of this one; None if they are equal."""
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
        """Return the comparison with the turn ``before``, in ``order``.

        ``unaided``: without our edits, but with the server's own repairs.
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
    """Return the unedited ``prompt`` as its server would have seen it, itself if that is the same.

    Only reuse beyond that is due to us. A template that moves late system messages to the head
    would have moved those that we placed as user messages. Late messages that the server refuses or
    drops stay in place here, so nothing is claimed for placing them. ``api``: dialect upstream.
    """
    if profile.placement is not None and profile.placement.late is Late.HOISTED:
        made = hoisted(prompt.made)
        prompt = prompt if made is prompt.made else remade(prompt, made)
    return as_repaired(prompt, api, profile)


def as_repaired(prompt: Prompt, api: Dialect | None, profile: Profile) -> Prompt:
    """Return ``prompt``, edited or not, with the server's own repairs; mostly itself.

    Some servers remove a known beginning of system text (see ``Serving.repairs``). Older versions
    may not: then less is claimed than is due.
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
    """Whether the server of ``profile`` may repair prompts: most do not."""
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
