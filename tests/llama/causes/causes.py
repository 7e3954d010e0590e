"""The causes: each a conversation that makes it true, and what should be named."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cacheproxy.core.conversation.verdict import Judgement, Reason, Rewrite, Sign

from .reading import Named
from .stage import Conversation, Readings, Stage
from .talk import LATE, Json, assistant, user, words

OK = Named(Judgement.OK)
_UNSEEN = "mlx"
"""It renders no prompt for us and does not say when it was started: nothing is proven there."""
ANYWHERE = frozenset({"rewindable", "checkpointed", "blocks"})
LLAMA = frozenset({"llama", "gemma3", "gpt-oss", "qwen35", "qwen3next", "lfm2"})
VLLM = frozenset({"vllm"})
Step = int | Callable[[Conversation], object]
"""A turn of so many messages is said, or something happens."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a cause needs: template, server settings, proxy options, whether two servers."""

    template: str = "inline"
    server: tuple[tuple[str, Any], ...] = ()
    options: tuple[str, ...] = ()
    servers: int = 1


PLAIN, VERBOSE = Setting(), Setting(options=("--verbose",))


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: after its ``steps`` the last turn is judged; ``fields``: of all its bodies.

    ``expected``: what may be named, as a rule one thing; ``otherwise``: by the name or the kind
    of a server, where it is another. ``where``: the servers it can be seeded at, by name or kind.
    """

    name: str
    title: str
    steps: tuple[Step, ...]
    expected: tuple[Named, ...] = (OK,)
    otherwise: dict[str, tuple[Named, ...]] = field(default_factory=dict)
    setting: Setting = PLAIN
    where: frozenset[str] = ANYWHERE
    fields: Json = field(default_factory=dict)

    def hold(self, stage: Stage) -> Conversation:
        """Hold the conversation up to the turn that is judged."""
        one = stage.begin(**self.fields)
        for step in self.steps:
            if isinstance(step, int):
                one.say(step)
            else:
                step(one)
        return one

    def applies(self, name: str, kind: str) -> bool:
        """Whether it can be seeded at the server ``name``."""
        return name in self.where or kind in self.where

    def truth(self, name: str, kind: str) -> tuple[Named, ...]:
        """What should be named there."""
        return self.otherwise.get(name, self.otherwise.get(kind, self.expected))


def broken(reason: Reason, path: str = "", **more: Any) -> Named:
    """A break for this reason."""
    return Named(Judgement.BREAK, reason, path, **more)


def evicted(sign: Sign) -> Named:
    """A break because the server had let go of it, and what shows that."""
    return broken(Reason.EVICTED, evidence=frozenset({sign}))


def checkpoint(beneath: Reason, path: str = "", **more: Any) -> dict[str, tuple[Named, ...]]:
    """What is named where the server can only go back to a checkpoint before the change."""
    return {"checkpointed": (broken(Reason.CHECKPOINT, path, beneath=beneath, **more),)}


def unproven(*named: Named) -> dict[str, tuple[Named, ...]]:
    """What may be named where the server shows no rendered prompt: ``named``, or no cause."""
    return {_UNSEEN: (*named, broken(Reason.UNKNOWN))}


def right(truth: tuple[Named, ...], readings: Readings) -> bool:
    """Whether all three name the cause."""
    three = (readings.live, readings.diagnosed, readings.captured)
    return readings.agree and any(
        all(
            found is not None and _names(wanted, found, live=not index)
            for index, found in enumerate(three)
        )
        for wanted in truth
    )


def _names(wanted: Named, found: Named, *, live: bool) -> bool:
    """A log line may leave out where; all else that is known has to be there."""
    is_there = f"{found.path}/".startswith(f"{wanted.path}/") or (live and not found.path)
    return (
        (found.judgement, found.reason) == (wanted.judgement, wanted.reason)
        and (found.rewrite, found.beneath) == (wanted.rewrite, wanted.beneath)
        and (is_there or not wanted.path)
        and wanted.evidence <= found.evidence
        and wanted.kind in ("", found.kind if not live else wanted.kind)
    )


# --- what happens between two turns


def _replaced(start: int, end: int, *messages: Json) -> Step:
    def step(one: Conversation) -> None:
        one.talk.messages[start:end] = messages

    return step


def _system(change: Callable[[str], str]) -> Step:
    def step(one: Conversation) -> None:
        one.talk.system = change(one.talk.system)

    return step


def _from_now_on(**fields: Any) -> Step:
    return lambda one: one.talk.fields.update(fields)


def _think(one: Conversation) -> None:
    one.talk.think()


def _reverse_tools(one: Conversation) -> None:
    one.talk.tools.reverse()


def _describe_twice(one: Conversation) -> None:
    described = one.talk.tools[1]["function"]
    described["description"] = f"Twice {described['description']}"


def _cut_result(one: Conversation) -> None:
    text = one.talk.messages[5]["content"]
    one.talk.messages[5] |= {"content": f"{text[: len(text) // 2]} [old tool result cleared]"}


def _ask(one: Conversation, messages: Any, **fields: Any) -> int:
    status, _ = one.post({**one.talk.body(0), "messages": messages, **fields})
    return status


def _ask_siblings(one: Conversation) -> None:
    for seed in (93, 94):
        assert _ask(one, [*one.talk.messages[:7], user(words(150, seed))]) == 200


def _fail(one: Conversation) -> None:
    assert _ask(one, "none") >= 400


def _ask_for_a_title(one: Conversation) -> None:
    title = [{"role": "system", "content": words(80, 63)}, user(f"A title for: {words(300, 64)}")]
    status, _ = one.post({**one.talk.fields, "messages": title})
    assert status == 200


def _hold_others(one: Conversation) -> None:
    for other in (one.stage.begin(), one.stage.begin()):
        other.say(4, 8)


def _go_on_by_turns(one: Conversation, **theirs: Any) -> None:
    """Two with one name and one beginning, as a client has them that forks a conversation."""
    other = one.talk.messages[:4]
    for seed, end in ((95, 6), (96, 8), (97, 10)):
        other += [assistant(words(150, seed)), user(words(120, seed + 10))]
        assert _ask(one, other, **theirs) == 200
        one.say(end)


def _short_turns(one: Conversation) -> None:
    one.talk.tools = []
    one.talk.messages[4:] = []
    for number in range(5):
        one.say(len(one.talk.messages))
        one.talk.messages += [assistant(words(8, 70 + number)), user(words(12, 80 + number))]


def _tell_the_time(one: Conversation) -> None:
    """The tools are the most of it: were they rendered first, little would be lost."""
    for tool in one.talk.tools:
        tool["function"]["description"] = words(300, 64)
    one.talk.messages[4:] = []
    for number in range(5):
        one.talk.system = f"It is 12:0{number}:47. You are an agent called {one.name}."
        one.say(len(one.talk.messages))
        one.talk.messages += [assistant(words(4, 70 + number)), user(words(6, 80 + number))]


def _wait(_: Conversation) -> None:
    time.sleep(1.1)


_LATE = {"role": "system", "content": LATE}
_SYSTEM, _RESULT = "/messages/0/content", "/messages/5/content"
_HOISTED: dict[str, Any] = {"rewrite": Rewrite.HOISTED}
_TOOLS: dict[str, Any] = {"rewrite": Rewrite.TOOLS}
_SUMMARY = f"This goes on from an earlier conversation. In short: {words(40, 61)}"
_NOTHING_LOST = (
    Cause("append", "each turn appends to the one before", (4, 6, 8, 10)),
    Cause(
        "blocks-of-32",
        "short turns on blocks of 32 tokens",
        (_short_turns,),
        setting=Setting(server=(("block_size", 32),)),
        where=VLLM,
    ),
    Cause("blocks-of-128", "short turns on blocks of 128 tokens", (_short_turns,), where=VLLM),
    Cause(
        "blocks-of-1024",
        "short turns on blocks of 1,024 tokens",
        (_short_turns,),
        setting=Setting(server=(("block_size", 1_024),)),
        where=VLLM,
    ),
    Cause("taken-back", "the user went back a turn, and said the same", (4, 6, 8, 6)),
    Cause(
        "in-other-words",
        "the user put the last prompt in other words",
        (4, 6, 8, _replaced(7, 8, user(words(300, 91))), 8),
    ),
    Cause(
        "another-way",
        "the user went back two turns, and another way",
        (4, 6, 8, _replaced(5, 8, user(words(200, 92))), 6),
    ),
    Cause("sibling", "a sibling asked beside, with another end", (4, 6, _ask_siblings, 8)),
    Cause(
        "siblings-in-one-slot",
        "two siblings went on by turns, in one slot",
        (4, _go_on_by_turns),
        (evicted(Sign.OTHERS),),
        where=LLAMA,
    ),
    Cause(
        "siblings-in-two-slots",
        "two siblings went on by turns, each in its slot",
        (4, partial(_go_on_by_turns, id_slot=1)),
        setting=Setting(server=(("n_parallel", 2),)),
        where=LLAMA,
        fields={"id_slot": 0},
    ),
    Cause("failed-between", "a failed request came in between", (4, 6, _fail, 8)),
    Cause(
        "renamed",
        "the model's name changed, the server has but one",
        (4, 8, _from_now_on(model="another-name"), 10),
        where=LLAMA,
    ),
    Cause(
        "placed",
        "a late system message, placed as the user's",
        (6, 8, _replaced(8, 8, _LATE), 9, 11),
        setting=Setting("hoist"),
    ),
    Cause(
        "tools-put-back",
        "the tools came in another order, and were put back",
        (4, 8, _reverse_tools, 10),
    ),
    Cause(
        "thinking-kept",
        "reasoning kept, as chat_template_kwargs ask",
        (_think, 4, 6, 8, 10),
        setting=Setting("keep"),
        fields={"chat_template_kwargs": {"preserve_reasoning": True}},
    ),
    Cause(
        "kept-in-ram",
        "another conversation in between, where RAM keeps what leaves the slot",
        (4, 8, _hold_others, 10),
        setting=Setting(server=(("cache_ram_mib", 512),)),
        where=LLAMA,
    ),
    Cause(
        "compacted",
        "the client summarised the conversation and began it anew",
        (6, 8, 10, _replaced(1, 99, user(_SUMMARY)), 2),
        (Named(Judgement.COMPACTED),),
    ),
    Cause(
        "proxy-restarted",
        "the proxy was restarted in between",
        (4, 8, lambda one: one.stage.restart_proxy(), 10),
        (OK, Named(Judgement.UNKNOWN, Reason.PREVIOUS_NOT_FOUND)),
        setting=VERBOSE,
    ),
)
_BY_THE_CLIENT = (
    Cause(
        "clock-at-the-head",
        "a clock at the head of the system text",
        (
            *(_system("It is 12:00:01. {}".format), 4, 8),
            *(_system(lambda text: text.replace("12:00:01", "12:05:47")), 10),
        ),
        (broken(Reason.SYSTEM_CHANGED, _SYSTEM),),
    ),
    Cause(
        "date-at-the-end",
        "a date at the end of the system text",
        (
            *(_system("{}\nToday is 2026-11-21.".format), 4, 8),
            *(_system(lambda text: text.replace("2026-11-21", "2026-11-22")), 10),
        ),
        (broken(Reason.SYSTEM_CHANGED, _SYSTEM),),
        otherwise=checkpoint(Reason.SYSTEM_CHANGED, _SYSTEM),
    ),
    Cause(
        "tool-changed",
        "a tool's description changed",
        (4, 8, _describe_twice, 10),
        (broken(Reason.TOOLS_CHANGED, "/tools/1"),),
        otherwise=checkpoint(Reason.TOOLS_CHANGED, "/tools/1"),
    ),
    Cause(
        "tools-reordered",
        "the tools came in another order, and that was left",
        (4, 8, _reverse_tools, 10),
        (broken(Reason.TOOLS_CHANGED),),
        otherwise=checkpoint(Reason.TOOLS_CHANGED),
        setting=Setting(options=("--disable", "tools-as-before")),
    ),
    Cause(
        "message-edited",
        "an earlier message of the user's was edited",
        (4, 8, _replaced(3, 4, user(words(120, 62))), 10),
        (broken(Reason.MESSAGES_CHANGED, "/messages/3/content"),),
    ),
    Cause(
        "result-cut",
        "a tool's result in the history was cut",
        (4, 8, _cut_result, 10),
        (broken(Reason.MESSAGES_CHANGED, _RESULT),),
        otherwise=checkpoint(Reason.MESSAGES_CHANGED, _RESULT)
        # its window is short, and llama.cpp keeps a batch of 512 tokens more than that
        | {"gpt-oss": (broken(Reason.MESSAGES_CHANGED, _RESULT),)},
    ),
)
_BY_THE_TEMPLATE = (
    Cause(
        "thinking-dropped",
        "the template drops the reasoning of the turn before",
        (_think, 4, 6, 8, 10),
        (broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING),),
        otherwise=unproven(),
        setting=Setting("think"),
    ),
    Cause(
        "hoisted",
        "the template moves a late system message to the head",
        (6, 8, _replaced(9, 9, _LATE), 11),
        (broken(Reason.TEMPLATE_CHANGED, **_HOISTED),),
        otherwise=unproven() | checkpoint(Reason.TEMPLATE_CHANGED, **_HOISTED),
        setting=Setting("hoist", options=("--placement", "off")),
    ),
    Cause(
        "tools-moved",
        "the template puts the tools before the last user message",
        (4, 6, 8, 10),
        (broken(Reason.TEMPLATE_CHANGED, **_TOOLS),),
        otherwise=unproven() | checkpoint(Reason.TEMPLATE_CHANGED, **_TOOLS),
        setting=Setting("tools"),
    ),
    Cause(
        "template-clock",
        "the template prints the time",
        (4, _wait, 6, _wait, 8),
        (broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.CLOCK),),
        otherwise=unproven(),
        setting=Setting("clock"),
    ),
)
_BY_THE_SERVER = (
    Cause(
        "evicted",
        "other conversations took its place, there is room for one",
        (4, 8, _hold_others, 10),
        (evicted(Sign.OTHERS),),
        # what mlx keeps, and for whom, nobody is told
        otherwise={"vllm": (evicted(Sign.FULL),), **unproven(evicted(Sign.OTHERS))},
        setting=Setting(server=(("small", True),)),
    ),
    Cause(
        "evicted-by-a-title",
        "a request for a title took the only slot",
        (4, 8, _ask_for_a_title, 10),
        (evicted(Sign.OTHERS),),
        where=LLAMA,
    ),
    Cause(
        "restarted",
        "the server was restarted in between",
        (4, 8, lambda one: one.stage.server.restart(), 10),
        (evicted(Sign.RESTARTED),),
        otherwise=unproven(),
        setting=VERBOSE,
    ),
    Cause(
        "another-model",
        "another model was loaded, and asked for",
        (4, 8, lambda one: _from_now_on(model=one.stage.server.load_another())(one), 10),
        (broken(Reason.MODEL_CHANGED),),
        setting=VERBOSE,
        where=LLAMA | {"mlx"},
    ),
    Cause(
        "moved",
        "the proxy was given another upstream",
        (4, 8, lambda one: one.stage.change_over(), 10),
        (broken(Reason.MOVED),),
        setting=Setting(servers=2),
        where=LLAMA | {"mlx"},
    ),
    Cause(
        "not-cached",
        "the requests ask not to use the cache",
        (4, 6, 8, 10),
        (broken(Reason.NOT_CACHED),),
        where=LLAMA,
        fields={"cache_prompt": False},
    ),
    Cause(
        "cache-off",
        "the server was started without its cache",
        (4, 6, 8, 10),
        (broken(Reason.NOT_CACHED),),
        setting=Setting(server=(("uncached", True),)),
        where=VLLM,
    ),
    Cause(
        "unreported",
        "a clock at the head, and the server does not say what it reused",
        (_tell_the_time,),
        (broken(Reason.SYSTEM_CHANGED, _SYSTEM), Named(Judgement.UNKNOWN)),
        setting=Setting(server=(("unflagged", True),)),
        where=VLLM,
    ),
    Cause(
        "context-shifted",
        "the server shifted its context to go on answering",
        (4, _from_now_on(max_tokens=1_200), 6, _from_now_on(max_tokens=4), 8),
        (broken(Reason.CONTEXT_SHIFTED),),
        setting=Setting(
            server=(("n_ctx", 2_304), ("ctx_shift", True), ("sampling__ignore_eos", True))
        ),
        where=frozenset({"llama"}),
    ),
    Cause(
        "erased",
        "the slot was erased behind our back",
        (4, 8, lambda one: one.stage.server.erase(), 10),
        (broken(Reason.UNKNOWN), evicted(Sign.SLOTS)),
        where=LLAMA,
    ),
)
CAUSES = {
    one.name: one for one in (*_NOTHING_LOST, *_BY_THE_CLIENT, *_BY_THE_TEMPLATE, *_BY_THE_SERVER)
}
