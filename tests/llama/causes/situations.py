"""Situations on three memories: what happened is known, and so is what each memory makes of it.

They are causes as in ``causes.py``. Where memories differ, ``otherwise`` has the memory's name.
"""

from __future__ import annotations

import base64
import json
import random
import time
from typing import Any

from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.conversation.verdict import Judgement, Reason, Rewrite, Sign
from cacheproxy.core.diff.kind import ChangeKind

from .causes import OK, Cause, Setting, Step, broken, evicted
from .reading import Named
from .stage import Conversation
from .talk import assistant, result, user, words

MEMORIES: dict[str, tuple[str, dict[str, Any]]] = {
    "one": ("llama", {}),
    "four": ("llama", {"n_parallel": 4, "kv_unified": True, "cache_ram_mib": 512}),
    "hybrid": ("qwen35", {"cache_ram_mib": 512}),
}
"""By name, a family of models and the server's settings: one slot without a RAM cache; four slots
that share one memory, with it; one slot of a hybrid model, with it."""
_COLD = Named(Judgement.COLD)
_EFFORT, _SWITCH = (
    broken(Reason.PARAMETERS_CHANGED, path)
    for path in ("/reasoning_effort", "/chat_template_kwargs/enable_thinking")
)
_TAKEN = evicted(Sign.OTHERS)


def _beneath(found: Named, **more: Any) -> tuple[Named, ...]:
    """What is named where the server goes back to a checkpoint before the change."""
    return (
        broken(Reason.CHECKPOINT, found.path, beneath=found.reason, kind=found.kind, **more),
        found,
    )


def _hybrid(found: Named) -> dict[str, tuple[Named, ...]]:
    return {"hybrid": _beneath(found)}


def _fields(**fields: Any) -> Step:
    return lambda one: one.talk.fields.update(fields)


def _edit(number: int, change: Any) -> Step:
    def step(one: Conversation) -> None:
        message = one.talk.messages[number]
        one.talk.messages[number] = {**message, "content": change(message["content"])}

    return step


def _put(start: int, end: int, *messages: Any) -> Step:
    def step(one: Conversation) -> None:
        one.talk.messages[start:end] = messages

    return step


def _parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def _blob(change: bool = False) -> str:
    """A small picture as base64; ``change``: one byte of it is another."""
    data = bytearray(random.Random(5).randbytes(300))
    data[150] ^= change
    return f"data:image/png;base64,{base64.b64encode(data).decode()} {words(100, 42)}"


def _dense(one: Conversation) -> None:
    """A system text of which each character is a token or more."""
    letters = random.Random(7).choices("的一是不了人我在有他这中大来上国", k=250)
    one.talk.system = f"{one.name} {''.join(letters)}"


def _review(one: Conversation, file: int, turns: int = 1) -> None:
    """Ask for the review of one of five files, under the conversation's own id."""
    asked = [one.talk.messages[0], user(f"Review file {file} of 5. {words(1500, 30)}")]
    for turn in range(1, turns):
        asked += [assistant(words(30, 200 + 10 * file + turn)), user(words(40, 300 + turn))]
    status, answer = one.post({**one.talk.body(0), "messages": asked})
    assert status == 200
    one.usages.append(usage_of(json.loads(answer)))


def _reviews(*files: tuple[int, int]) -> Step:
    def step(one: Conversation) -> None:
        for file, turns in files:
            _review(one, file, turns)

    return step


def _without_tools(one: Conversation) -> None:
    one.kept_tools, one.talk.tools = one.talk.tools, []


def _with_tools(one: Conversation) -> None:
    one.talk.tools = one.kept_tools


def _think(one: Conversation) -> None:
    one.talk.think()


def _wait(_: Conversation) -> None:
    time.sleep(1.1)


_EDITED, _RESULT = "/messages/3/content", "/messages/5/content"


def _changed(path: str, kind: ChangeKind) -> Named:
    return broken(Reason.MESSAGES_CHANGED, path, kind=kind)


_CLOCK = broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.CLOCK)
_CLOCK_BENEATH = broken(Reason.CHECKPOINT, beneath=Reason.TEMPLATE_CHANGED, rewrite=Rewrite.CLOCK)
_ALL = (
    Cause(
        "effort-raised",
        "reasoning_effort is another, and the template prints it",
        (_fields(reasoning_effort="low"), 4, 8, _fields(reasoning_effort="high"), 10),
        (_EFFORT,),
        otherwise=_hybrid(_EFFORT),
        setting=Setting("effort"),
    ),
    Cause(
        "thinking-switched",
        "chat_template_kwargs switch thinking, which the template prints at the head",
        (
            *(_fields(chat_template_kwargs={"enable_thinking": True}), 4, 8),
            *(_fields(chat_template_kwargs={"enable_thinking": False}), 10),
        ),
        (_SWITCH,),
        otherwise=_hybrid(_SWITCH),
        setting=Setting("effort"),
    ),
    Cause(
        "thinking-switched-at-the-end",
        "chat_template_kwargs change what the template does not print",
        (
            *(_fields(chat_template_kwargs={"enable_thinking": True}), 4, 8),
            *(_fields(chat_template_kwargs={"enable_thinking": False}), 10),
        ),
    ),
    Cause(
        "effort-beside-the-template",
        "reasoning_effort is another, but it is the template that drops reasoning",
        (_think, _fields(reasoning_effort="low"), 4, 6, 8, _fields(reasoning_effort="high"), 10),
        (broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING),),
        setting=Setting("think"),
    ),
    Cause(
        "tools-not-to-be-chosen",
        "tool_choice is none for one turn",
        (4, 8, _fields(tool_choice="none"), 10),
        # this server offers its template the tools all the same
    ),
    Cause(
        "siblings-begin",
        "a second sibling begins, from one template, under one id",
        (_reviews((1, 1), (1, 2), (2, 1)),),
        (_COLD, OK),
    ),
    Cause(
        "siblings-begin-at-once",
        "siblings begin one after the other, before any has gone on",
        (_reviews((1, 1), (2, 1), (3, 1)),),
        (_COLD, OK),
    ),
    Cause(
        "sibling-goes-on",
        "a sibling goes on, when another has had its slot",
        (_reviews((1, 1), (1, 2), (2, 1), (2, 2), (1, 3)),),
        (_TAKEN,),
        # another slot, or the RAM cache, still has it
        otherwise={"four": (OK,), "hybrid": (OK,)},
    ),
    Cause(
        "tools-left-out",
        "the tools are left out for a turn",
        (4, 8, _without_tools, 10),
        (broken(Reason.TOOLS_CHANGED, "/tools"),),
        otherwise=_hybrid(broken(Reason.TOOLS_CHANGED, "/tools")),
    ),
    Cause(
        "tools-come-back",
        "the tools were left out for a turn, and come back",
        (4, 6, _without_tools, 8, _with_tools, 10),
        (broken(Reason.TOOLS_CHANGED, "/tools"),),
        # a slot, or the RAM cache, still has the turn with the tools
        otherwise={"four": (OK,), "hybrid": (OK,)},
    ),
    Cause(
        "name-there-and-back",
        "another name of the model for a turn, then the first again",
        (4, 6, _fields(model="another-name"), 8, _fields(model="random"), 10),
    ),
    Cause(
        "clock-behind-the-head",
        "the template prints the time behind the system text",
        (4, _wait, 6, _wait, 8),
        (_CLOCK,),
        otherwise={"hybrid": (_CLOCK_BENEATH,)},
        setting=Setting("clock-behind"),
    ),
    Cause(
        "clock-behind-dense-text",
        "the template prints the time behind a Chinese text",
        (_dense, 4, _wait, 6, _wait, 8),
        (_CLOCK,),
        otherwise={"hybrid": (_CLOCK_BENEATH,)},
        setting=Setting("clock-behind"),
    ),
    Cause(
        "clock-in-the-middle",
        "a clock in a message of the user's moves on",
        (
            *(_edit(3, lambda text: f"At 12:00:01 I said: {text}"), 4, 8),
            *(_edit(3, lambda text: text.replace("12:00:01", "12:04:09")), 10),
        ),
        (_changed(_EDITED, ChangeKind.CLOCK),),
        otherwise=_hybrid(_changed(_EDITED, ChangeKind.CLOCK)),
    ),
    Cause(
        "blob-exchanged",
        "a picture in a tool's result is another by one byte",
        (
            *(_edit(5, lambda text: _blob() + text), 4, 8),
            *(_edit(5, lambda text: _blob(change=True) + text.removeprefix(_blob())), 10),
        ),
        (_changed(_RESULT, ChangeKind.BLOB),),
        otherwise=_hybrid(_changed(_RESULT, ChangeKind.BLOB)),
    ),
    Cause(
        "part-dropped",
        "a part of an earlier message is left out",
        (
            *(_edit(3, lambda text: _parts(text, _blob())), 4, 8),
            *(_edit(3, lambda parts: parts[:1]), 10),
        ),
        (_changed(f"{_EDITED}/1", ChangeKind.REMOVED),),
        otherwise=_hybrid(_changed(f"{_EDITED}/1", ChangeKind.REMOVED)),
    ),
    Cause(
        "part-added",
        "an earlier message gets another part",
        (
            *(_edit(3, _parts), 4, 8),
            *(_edit(3, lambda parts: [*parts, *_parts(words(20, 44))]), 10),
        ),
        (_changed(f"{_EDITED}/1", ChangeKind.ADDED),),
        otherwise=_hybrid(_changed(f"{_EDITED}/1", ChangeKind.ADDED)),
    ),
    Cause(
        "newline-added",
        "an earlier answer gets a newline at its end",
        (4, 8, _edit(2, "{}\n".format), 10),
        (_changed("/messages/2/content", ChangeKind.ADDED),),
        otherwise=_hybrid(_changed("/messages/2/content", ChangeKind.ADDED)),
    ),
    Cause(
        "oldest-dropped",
        "the oldest messages are left out",
        (4, 8, _put(1, 3), 8),
        (_changed("/messages/1", ChangeKind.REMOVED),),
        otherwise=_hybrid(_changed("/messages/1", ChangeKind.REMOVED)),
    ),
    Cause(
        "message-put-in",
        "a message is put in between the earlier ones",
        (4, 8, _put(3, 3, user(words(30, 45)), assistant(words(20, 46))), 12),
        (_changed("/messages/3", ChangeKind.ADDED),),
        otherwise=_hybrid(_changed("/messages/3", ChangeKind.ADDED)),
    ),
    Cause(
        "result-cleared",
        "an old tool result is replaced by a short sign",
        (4, 8, _put(5, 6, result(1, "[old tool result cleared]")), 10),
        (_changed(_RESULT, ChangeKind.TEXT),),
        otherwise=_hybrid(_changed(_RESULT, ChangeKind.TEXT)),
    ),
    Cause(
        "cache-off-once",
        "one request asks not to use the cache",
        (4, 8, _fields(cache_prompt=False), 10),
        (broken(Reason.NOT_CACHED, evidence=frozenset({Sign.NOT_WANTED})),),
    ),
    Cause(
        "cache-on-again",
        "the request after one that asked not to use the cache",
        (4, 6, _fields(cache_prompt=False), 8, _fields(cache_prompt=True), 10),
    ),
)
SITUATIONS = {one.name: one for one in _ALL}
