"""Earlier reasoning kept in the prompt: by a template's switch, and by sending it back.

Many templates drop the reasoning of a turn at the next user message, so that the server evaluates
the whole turn again. Some keep it if ``chat_template_kwargs`` say so and the reasoning is sent. The
proxy does both or neither; once begun, it does so in all later turns of a conversation: so the
rendered prompt only grows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from cacheproxy.core.adapt.adaptation import Edited, Learning, Need, Remembered
from cacheproxy.core.adapt.server import KnownServer
from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.thoughts import Thoughts, place_of
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.dialects.answer import said_in
from cacheproxy.core.dialects.content import blocks_of
from cacheproxy.core.dialects.reasoning import Putting, has_reasoning
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit, splice, splices_of
from cacheproxy.core.kinds.kind import as_object
from cacheproxy.core.kinds.profile import MemoryKind, Profile, Thinking
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request, messages_of
from cacheproxy.core.prompt.segments import Piece
from cacheproxy.core.template.rendering import KEEPERS

NAME = "kept-thinking"
"""Name under which its edits are reported and counted, among the rules."""
BY_TEMPLATE = "the template is asked to keep earlier reasoning"
GIVEN = "reasoning of the model that the client had dropped"
AUTO, YES, NO = "auto", "yes", "no"
"""Values of ``--keep-thinking``."""
_KWARGS = "chat_template_kwargs"
_SCANNED, _MOST_MESSAGES = 128 << 10, 64
"""Bytes and messages beyond which reasoning is put back in a thread."""

_SAID = attrgetter("role", "text")

Word = tuple[str, bool]
"""A member of chat_template_kwargs, and its value."""
KeepingWay = tuple[Word, ...]
"""The members that make the template keep reasoning; (): it keeps it without any."""
_WHOSE = "conversations keep it if the client sends it back"
_OFF = "the model reads its earlier reasoning (--keep-thinking no leaves it out)"


def may_keep(setting: str, profile: Profile) -> bool:
    """Whether conversations at this server may have their reasoning kept."""
    if setting == YES:
        return profile.thoughts.way in (Thinking.ON_REQUEST, Thinking.KEPT)
    on_request = profile.thoughts.way is Thinking.ON_REQUEST
    return setting == AUTO and on_request and profile.memory.kind is MemoryKind.CHECKPOINTED


def may_remember(setting: str, profile: Profile) -> bool:
    """Whether the reasoning of answers is to be stored; also if the template is not known yet."""
    untold = setting == YES and profile.thoughts.way is Thinking.UNKNOWN
    return untold or may_keep(setting, profile)


def way_of(
    setting: str, profile: Profile, request: Request, thoughts: Thoughts | None
) -> KeepingWay | None:
    """Return the way in which ``request`` has its reasoning kept, None if it is not kept.

    ``thoughts``: those of its conversation. With the setting "auto", keeping begins only if the
    memory cannot rewind and the client sends reasoning back, at a place where the template would
    have dropped some anyway. It ends with the conversation, or when the template changes.
    """
    thinking, word = profile.thoughts, profile.thoughts.asked_by
    if setting == NO or request.dialect is None or request.dialect.reasoning is None:
        return None
    begun = None if thoughts is None else thoughts.switch
    if (thinking.way is Thinking.UNKNOWN and begun is None) or not _leaves_it(request):
        return None
    if thinking.way is Thinking.UNKNOWN:  # the server was restarted, and has not told yet
        return None if begun is None else (begun,)
    if thinking.way is Thinking.KEPT and setting == YES:
        return ()
    if thinking.way is not Thinking.ON_REQUEST or word is None:
        return None
    if setting == YES or begun is not None:
        return (word,)
    begins = may_keep(setting, profile) and sends_back(request) and _may_begin(request)
    return (word,) if begins else None


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of kept reasoning in one conversation."""

    way: KeepingWay | None  #: way of keeping; None: not kept, but the answer's is stored
    thoughts: Thoughts  #: the model's earlier reasoning
    kin: Kinship | None = None
    """Kinship of the request before pins edit it. Pinned values and notes are no history: a client
    that sends its request again does not know them."""


@dataclass(frozen=True, slots=True)
class KeptNeed(Need):
    """The need of earlier reasoning."""

    sources: Sources | None = None  #: sources of the reasoning
    places: Mapping[int, int] = field(default_factory=dict)  #: places of it, by message index
    thought_key: int | None = None
    """Place of the coming answer, see ``place_of``; None if none is expected."""


class KeptThinking(Learning):
    """The adaptation that keeps earlier reasoning; ``setting``: value of ``--keep-thinking``.

    ``in_thread``: calls a function with arguments in a thread.
    """

    name, title = NAME, "thinking"
    fails, whose = "earlier reasoning is not kept", "first for {request}"

    def __init__(
        self,
        setting: str,
        server: KnownServer,
        store: Store,
        in_thread: Callable[..., Awaitable[None]],
    ) -> None:
        self._setting = setting
        self._server = server
        self._store = store
        self._in_thread = in_thread

    async def learn(
        self, request: Request, turn: Turn | None, *, begins: bool
    ) -> Remembered | None:
        """Return the conversation's sources of reasoning, None for none; keeping may begin here."""
        setting = self._setting
        if turn is None or setting == NO:
            return None
        profile, known = self._server.profile, self._store.conversation(turn.session)
        may = may_remember(setting, profile)
        if not may and (known is None or known.thoughts.switch is None):
            return None
        if not self._server.is_rendered(request):
            return None
        if self._store.readers:  # the next request comes in an instant
            await self._in_thread(self._store.read_on, turn.session)
        known = self._store.conversation(turn.session)
        thoughts = Thoughts() if known is None else known.thoughts
        way = way_of(setting, profile, request, thoughts)
        if way is None and not (begins and may):
            return None
        if way is not None and begins:
            thoughts.switch = next(iter(way), None)
        return {(): Sources(way, thoughts, turn.kin)}

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need: places of reasoning in ``request``, and that of its answer."""
        sources: Sources = remembered[()]
        if request.document is None:
            return None
        places, thought_key = _places(request, sources.thoughts, sources.kin)
        return KeptNeed({}, sources, places, thought_key)

    def edits(self, request: Request, need: Need) -> Edited:
        """Return ``request`` with its reasoning put back, and the template's switch set."""
        assert isinstance(need, KeptNeed)
        sources, document = need.sources, request.document
        if sources is None or sources.way is None or document is None:
            return Edited(request)
        edits = [*_switched(request, sources.way)]
        splices = splices_of(document, edits)
        for edit, more in _given(request, document, need.places, sources.thoughts):
            edits.append(edit)
            splices.extend(more)
        body = splice(document.body, splices)
        if body is request.body:
            return Edited(request)
        return Edited(request.with_body(body, splices), edits)

    def is_quick(self, request: Request, remembered: Remembered) -> bool:
        """Whether the request may be edited on the reactor: its history is read."""
        sources: Sources = remembered[()]
        is_short = request.is_quick(_SCANNED) and sources.thoughts.cost <= _SCANNED
        return is_short and len(messages_of(request)[1]) <= _MOST_MESSAGES

    def says(self, remembered: Remembered) -> str:  # noqa: ARG002
        """Return the template's treatment of reasoning and the remedy, for people."""
        does = described(self._setting, self._server.profile)
        return f"template {does}" if does else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the treatment of earlier reasoning, as plain values for a page."""
        setting, profile = self._setting, self._server.profile
        is_on = may_keep(setting, profile)
        return {"setting": setting, "on": is_on, "says": described(setting, profile)}


def _places(
    request: Request, thoughts: Thoughts, kin: Kinship | None
) -> tuple[dict[int, int], int | None]:
    """Return the places of assistant messages, by index, and the place of the next one.

    None instead of that place if the client has begun the answer itself.
    """
    prompt, (_, messages) = prompt_of(request), messages_of(request)
    places: dict[int, int] = {}
    if prompt is None or _reasoning(request) is None:
        return places, None
    pieces = prompt.made.run.pieces
    kin = kin or Kinship(request, prompt)
    plain = kin.prompt.made
    if not messages or len(messages) != len(pieces):
        return places, None
    history = kin.system()
    for number, (item, piece, before) in enumerate(
        zip(messages, pieces, plain.run.pieces, strict=False)
    ):
        if number < plain.heads:
            continue
        is_noted = piece is not before and _text(piece).startswith(_text(before))
        said = hash(tuple(map(_SAID, (before if is_noted else piece).segments)))
        if _is_answer(item):  # with its reasoning or without
            said = thoughts.said(said, partial(said_in, (item,)))
            if history not in thoughts.unread:
                places[number] = place_of(history, said)
        history = place_of(history, said)
    return places, None if _is_answer(messages[-1]) else history


def _text(piece: Piece) -> str:
    return "".join([segment.text for segment in piece.segments])


def sends_back(request: Request) -> bool:
    """Whether the client itself sends reasoning back, other than a vendor's signed one."""
    return any(_has_own(item, signed=False) for item in messages_of(request)[1])


def _leaves_it(request: Request) -> bool:
    """Whether no member of KEEPERS is set otherwise: a client's choice is never overruled."""
    given = (request.json or {}).get(_KWARGS)
    if given is None:
        return _KWARGS not in (request.json or {})
    return isinstance(given, dict) and all(
        given.get(name, value) is value for name, value in KEEPERS
    )


def _may_begin(request: Request) -> bool:
    """Whether keeping may begin here without evaluating more than would be evaluated anyway.

    So it is in the first turn, where nothing is dropped yet, and at a user message, where the
    template drops the reasoning of the turn before.
    """
    _, messages = messages_of(request)
    spoken = [number for number, item in enumerate(messages) if _is_spoken(item)]
    return len(spoken) <= 1 or spoken[-1] == len(messages) - 1


def _is_spoken(item: dict[str, Any]) -> bool:
    """Whether the user speaks in ``item``; results of tools stand in user messages, too."""
    blocks = [block for block in blocks_of(item.get("content")) if isinstance(block, dict)]
    return item.get("role") == "user" and (not blocks or blocks[-1].get("type") != "tool_result")


def _switched(request: Request, way: KeepingWay) -> Iterator[Edit]:
    """Yield the edits that add the members of ``way`` which the request lacks."""
    body = request.json or {}
    for name, value in way:
        if _KWARGS not in body:
            yield Edit(f"/{_KWARGS}", {name: value}, BY_TEMPLATE, adds=True)
        elif name not in body[_KWARGS]:
            yield Edit(f"/{_KWARGS}/{name}", value, BY_TEMPLATE, adds=True)


def _given(
    request: Request, document: Document, places: Mapping[int, int], thoughts: Thoughts
) -> Iterator[tuple[Edit, list[Splice]]]:
    """Yield the edits that put reasoning back, each with its splices of the body."""
    reasoning, (_, messages) = _reasoning(request), messages_of(request)
    for number, where in places.items():
        item = messages[number]
        thought = None if _has_own(item) else thoughts.find(where)
        if thought is not None and reasoning is not None:
            put = reasoning(document, number, thought.name, thought.spelled, GIVEN)
            if put is not None:
                yield put


def _reasoning(request: Request) -> Putting | None:
    """Return the function by which reasoning is put into a message, None if there is none."""
    return None if request.dialect is None else request.dialect.reasoning


def _has_own(item: dict[str, Any], *, signed: bool = True) -> bool:
    """Whether an assistant message has reasoning; ``signed``: a vendor's signed one counts."""
    return _is_answer(item) and has_reasoning(item, signed=signed)


def _is_answer(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant"


def described(setting: str, profile: Profile) -> str:
    """Return one line on the effect of ``--keep-thinking setting`` at this server; "" for none."""
    if not may_keep(setting, profile):
        return ""
    whose = "all conversations keep it" if setting == YES else _WHOSE
    word = profile.thoughts.asked_by
    if word is None:
        return f"keeps the thinking of earlier turns: {whose}; {_OFF}"
    asked = f"asked for by chat_template_kwargs {as_object(word)}"
    return f"drops the thinking of earlier turns unless asked: {whose}, {asked}; {_OFF}"
