"""The causes: each a conversation that makes it true, and what should be named."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Setting:
    """What a cause needs: template, server settings, proxy options, whether two servers."""

    template: str = "inline"
    server: tuple[tuple[str, Any], ...] = ()
    options: tuple[str, ...] = ()
    servers: int = 1


PLAIN = Setting()


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: ``hold`` holds the conversation up to the turn that is judged.

    ``expected``: what may be named, as a rule one thing; ``otherwise``: by the name or the kind
    of a server, where it is another. ``where``: the servers it can be seeded at, by name or kind.
    """

    name: str
    title: str
    hold: Callable[[Stage], Conversation]
    expected: tuple[Named, ...]
    otherwise: dict[str, tuple[Named, ...]] = field(default_factory=dict)
    setting: Setting = PLAIN
    where: frozenset[str] = ANYWHERE

    def applies(self, name: str, kind: str) -> bool:
        """Whether it can be seeded at the server ``name``."""
        return name in self.where or kind in self.where

    def truth(self, name: str, kind: str) -> tuple[Named, ...]:
        """What should be named there."""
        return self.otherwise.get(name, self.otherwise.get(kind, self.expected))


CAUSES: dict[str, Cause] = {}
_Hold = Callable[[Stage], Conversation]


def cause(title: str, *expected: Named, **more: Any) -> Callable[[_Hold], _Hold]:
    """Name the function that seeds a cause."""

    def add(hold: _Hold) -> _Hold:
        name = hold.__name__.replace("_", "-")
        CAUSES[name] = Cause(name, title, hold, expected, **more)
        return hold

    return add


def broken(reason: Reason, path: str = "", **more: Any) -> Named:
    """A break for this reason."""
    return Named(Judgement.BREAK, reason, path, **more)


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
    )


# --- nothing was lost


@cause("each turn appends to the one before", OK)
def append(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6, 8, 10)
    return one


@cause(
    "short turns on blocks of 32 tokens",
    OK,
    setting=Setting(server=(("block_size", 32),)),
    where=frozenset({"vllm"}),
)
def blocks_of_32(stage: Stage) -> Conversation:
    return _short_turns(stage)


@cause("short turns on blocks of 128 tokens", OK, where=frozenset({"vllm"}))
def blocks_of_128(stage: Stage) -> Conversation:
    return _short_turns(stage)


@cause(
    "short turns on blocks of 1,024 tokens",
    OK,
    setting=Setting(server=(("block_size", 1_024),)),
    where=frozenset({"vllm"}),
)
def blocks_of_1024(stage: Stage) -> Conversation:
    return _short_turns(stage)


@cause("the user went back a turn, and said the same", OK)
def taken_back(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6, 8, 6)
    return one


@cause("the user put the last prompt in other words", OK)
def in_other_words(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6, 8)
    one.talk.messages[7] = user(words(300, 91))
    one.say(8)
    return one


@cause("the user went back two turns, and another way", OK)
def another_way(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6, 8)
    one.talk.messages[5:8] = [user(words(200, 92))]
    one.say(6)
    return one


@cause("a sibling asked beside, with another end", OK)
def sibling(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6)
    body = one.talk.body(8)
    for seed in (93, 94):
        status, _ = one.post({**body, "messages": [*body["messages"][:-1], user(words(150, seed))]})
        assert status == 200
    one.say(8)
    return one


@cause(
    "two siblings went on by turns, in one slot",
    broken(Reason.EVICTED, evidence=frozenset({Sign.OTHERS})),
    where=LLAMA,
)
def siblings_in_one_slot(stage: Stage) -> Conversation:
    return _siblings(stage)


@cause(
    "two siblings went on by turns, each in its slot",
    OK,
    setting=Setting(server=(("n_parallel", 2),)),
    where=LLAMA,
)
def siblings_in_two_slots(stage: Stage) -> Conversation:
    return _siblings(stage, {"id_slot": 0}, {"id_slot": 1})


@cause("a failed request came in between", OK)
def failed_between(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6)
    status, _ = one.post({**one.talk.body(8), "messages": "none"})
    assert status >= 400
    one.say(8)
    return one


@cause("the model's name changed, the server has but one", OK, where=LLAMA)
def renamed(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    one.talk.fields["model"] = "another-name"
    one.say(10)
    return one


@cause("a late system message, placed as the user's", OK, setting=Setting("hoist"))
def placed(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(6, 8)
    one.talk.messages.insert(8, {"role": "system", "content": LATE})
    one.say(9, 11)
    return one


@cause("the tools came in another order, and were put back", OK)
def tools_put_back(stage: Stage) -> Conversation:
    return tools_reordered(stage)


@cause("reasoning kept, as chat_template_kwargs ask", OK, setting=Setting("keep"))
def thinking_kept(stage: Stage) -> Conversation:
    one = stage.begin(chat_template_kwargs={"preserve_reasoning": True})
    one.talk.think()
    one.say(4, 6, 8, 10)
    return one


@cause(
    "another conversation in between, where RAM keeps what leaves the slot",
    OK,
    setting=Setting(server=(("cache_ram_mib", 512),)),
    where=LLAMA,
)
def kept_in_ram(stage: Stage) -> Conversation:
    return _interrupted(stage)


@cause("the client summarised the conversation and began it anew", Named(Judgement.COMPACTED))
def compacted(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(6, 8, 10)
    summary = user(f"This goes on from an earlier conversation. In short: {words(40, 61)}")
    one.talk.messages[1:] = [summary]
    one.say(2)
    return one


@cause(
    "the proxy was restarted in between",
    OK,
    Named(Judgement.UNKNOWN, Reason.PREVIOUS_NOT_FOUND),
    setting=Setting(options=("--verbose",)),
)
def proxy_restarted(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    stage.restart_proxy()
    one.say(10)
    return one


# --- the client changed something


@cause(
    "a clock at the head of the system text", broken(Reason.SYSTEM_CHANGED, "/messages/0/content")
)
def clock_at_the_head(stage: Stage) -> Conversation:
    one = stage.begin()
    one.talk.system = f"It is 12:00:01. {one.talk.system}"
    one.say(4, 8)
    one.talk.system = one.talk.system.replace("12:00:01", "12:05:47")
    one.say(10)
    return one


@cause(
    "a date at the end of the system text",
    broken(Reason.SYSTEM_CHANGED, "/messages/0/content"),
    otherwise=checkpoint(Reason.SYSTEM_CHANGED, "/messages/0/content"),
)
def date_at_the_end(stage: Stage) -> Conversation:
    one = stage.begin()
    one.talk.system = f"{one.talk.system}\nToday is 2026-11-21."
    one.say(4, 8)
    one.talk.system = one.talk.system.replace("2026-11-21", "2026-11-22")
    one.say(10)
    return one


@cause(
    "a tool's description changed",
    broken(Reason.TOOLS_CHANGED, "/tools/1"),
    otherwise=checkpoint(Reason.TOOLS_CHANGED, "/tools/1"),
)
def tool_changed(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    described = one.talk.tools[1]["function"]
    described["description"] = f"Twice {described['description']}"
    one.say(10)
    return one


@cause(
    "the tools came in another order, and that was left",
    broken(Reason.TOOLS_CHANGED),
    otherwise=checkpoint(Reason.TOOLS_CHANGED),
    setting=Setting(options=("--disable", "tools-as-before")),
)
def tools_reordered(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    one.talk.tools.reverse()
    one.say(10)
    return one


@cause(
    "an earlier message of the user's was edited",
    broken(Reason.MESSAGES_CHANGED, "/messages/3/content"),
)
def message_edited(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    one.talk.messages[3] = user(words(120, 62))
    one.say(10)
    return one


@cause(
    "a tool's result in the history was cut",
    broken(Reason.MESSAGES_CHANGED, "/messages/5/content"),
    otherwise=checkpoint(Reason.MESSAGES_CHANGED, "/messages/5/content")
    # its window is short, and llama.cpp keeps a batch of 512 tokens more than that
    | {"gpt-oss": (broken(Reason.MESSAGES_CHANGED, "/messages/5/content"),)},
)
def result_cut(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    text = one.talk.messages[5]["content"]
    one.talk.messages[5] |= {"content": f"{text[: len(text) // 2]} [old tool result cleared]"}
    one.say(10)
    return one


# --- the template rendered it anew


@cause(
    "the template drops the reasoning of the turn before",
    broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING),
    otherwise=unproven(),
    setting=Setting("think"),
)
def thinking_dropped(stage: Stage) -> Conversation:
    one = stage.begin()
    one.talk.think()
    one.say(4, 6, 8, 10)
    return one


@cause(
    "the template moves a late system message to the head",
    broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.HOISTED),
    otherwise=unproven() | checkpoint(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.HOISTED),
    setting=Setting("hoist", options=("--placement", "off")),
)
def hoisted(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(6, 8)
    one.talk.messages.insert(9, {"role": "system", "content": LATE})
    one.say(11)
    return one


@cause(
    "the template puts the tools before the last user message",
    broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.TOOLS),
    otherwise=unproven() | checkpoint(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.TOOLS),
    setting=Setting("tools"),
)
def tools_moved(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 6, 8, 10)
    return one


@cause(
    "the template prints the time",
    broken(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.CLOCK),
    otherwise=unproven(),
    setting=Setting("clock"),
)
def template_clock(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4)
    for end in (6, 8):
        time.sleep(1.1)
        one.say(end)
    return one


# --- the server lost it


@cause(
    "other conversations took its place, there is room for one",
    broken(Reason.EVICTED, evidence=frozenset({Sign.OTHERS})),
    otherwise={
        "vllm": (broken(Reason.EVICTED, evidence=frozenset({Sign.FULL})),),
        # what it keeps, and for whom, nobody is told
        **unproven(broken(Reason.EVICTED, evidence=frozenset({Sign.OTHERS}))),
    },
    setting=Setting(server=(("small", True),)),
)
def evicted(stage: Stage) -> Conversation:
    return _interrupted(stage)


@cause(
    "a request for a title took the only slot",
    broken(Reason.EVICTED, evidence=frozenset({Sign.OTHERS})),
    where=LLAMA,
)
def evicted_by_a_title(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    title = [{"role": "system", "content": words(80, 63)}, user(f"A title for: {words(300, 64)}")]
    status, _ = one.post({**one.talk.fields, "messages": title})
    assert status == 200
    one.say(10)
    return one


@cause(
    "the server was restarted in between",
    broken(Reason.EVICTED, evidence=frozenset({Sign.RESTARTED})),
    otherwise=unproven(),
    setting=Setting(options=("--verbose",)),
)
def restarted(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    stage.server.restart()
    one.say(10)
    return one


@cause(
    "another model was loaded, and asked for",
    broken(Reason.MODEL_CHANGED),
    setting=Setting(options=("--verbose",)),
    where=LLAMA | {"mlx"},
)
def another_model(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    one.talk.fields["model"] = stage.server.load_another()
    one.say(10)
    return one


@cause(
    "the proxy was given another upstream",
    broken(Reason.MOVED),
    setting=Setting(servers=2),
    where=LLAMA | {"mlx"},
)
def moved(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    stage.change_over()
    one.say(10)
    return one


@cause("the requests ask not to use the cache", broken(Reason.NOT_CACHED), where=LLAMA)
def not_cached(stage: Stage) -> Conversation:
    one = stage.begin(cache_prompt=False)
    one.say(4, 6, 8, 10)
    return one


@cause(
    "the server was started without its cache",
    broken(Reason.NOT_CACHED),
    setting=Setting(server=(("uncached", True),)),
    where=frozenset({"vllm"}),
)
def cache_off(stage: Stage) -> Conversation:
    return append(stage)


@cause(
    "a clock at the head, and the server does not say what it reused",
    broken(Reason.SYSTEM_CHANGED, "/messages/0/content"),
    Named(Judgement.UNKNOWN),
    setting=Setting(server=(("unflagged", True),)),
    where=frozenset({"vllm"}),
)
def unreported(stage: Stage) -> Conversation:
    """The tools are the most of it: were they rendered first, little would be lost."""
    one = stage.begin()
    for tool in one.talk.tools:
        tool["function"]["description"] = words(300, 64)
    one.talk.messages[4:] = []
    for number in range(5):
        one.talk.system = f"It is 12:0{number}:47. You are an agent called {one.name}."
        one.say(len(one.talk.messages))
        one.talk.messages += [assistant(words(4, 70 + number)), user(words(6, 80 + number))]
    return one


@cause(
    "the server shifted its context to go on answering",
    broken(Reason.CONTEXT_SHIFTED),
    setting=Setting(server=(("n_ctx", 2_304), ("ctx_shift", True), ("sampling__ignore_eos", True))),
    where=frozenset({"llama"}),
)
def context_shifted(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4)
    one.talk.fields["max_tokens"] = 1_200
    one.say(6)
    one.talk.fields["max_tokens"] = 4
    one.say(8)
    return one


@cause(
    "the slot was erased behind our back",
    broken(Reason.UNKNOWN),
    broken(Reason.EVICTED, evidence=frozenset({Sign.SLOTS})),
    where=LLAMA,
)
def erased(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    stage.server.erase()
    one.say(10)
    return one


def _interrupted(stage: Stage) -> Conversation:
    one = stage.begin()
    one.say(4, 8)
    for other in (stage.begin(), stage.begin()):
        other.say(4, 8)
    one.say(10)
    return one


def _siblings(stage: Stage, *slots: Json) -> Conversation:
    """Two with one name and one beginning, as a client has them that forks a conversation."""
    ours, theirs = slots or ({}, {})
    one = stage.begin(**ours)
    one.say(4)
    other = one.talk.messages[:4]
    for seed, end in ((95, 6), (96, 8), (97, 10)):
        other += [assistant(words(150, seed)), user(words(120, seed + 10))]
        status, _ = one.post({**one.talk.body(0), "messages": other, **theirs})
        assert status == 200
        one.say(end)
    return one


def _short_turns(stage: Stage) -> Conversation:
    one = stage.begin()
    one.talk.tools = []
    one.talk.messages[4:] = []
    for number in range(5):
        one.say(len(one.talk.messages))
        one.talk.messages += [assistant(words(8, 70 + number)), user(words(12, 80 + number))]
    return one
