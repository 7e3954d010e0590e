"""Prompts that a server cut: named in that very turn, and nothing else is called so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.judge.explain import said_of
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.kinds.profile import (
    UNKNOWN,
    Profile,
    ServerFacts,
)
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.record.exchange import Exchange, Outcome
from tests import golden, transcript

FILE = Path(__file__).with_name("cuts.txt")
WORDS = "the quick brown fox jumps over a lazy dog while code runs in tests and returns value "
WIDE = "缓存代理会保持前缀不变因此服务器可以重用已经计算过的内容"
CHAT, MESSAGES, RESPONSES, OLLAMA = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/api/chat",
)
GROWING = [1500] * 8
KIND = Profile(server=ServerFacts("Ollama"))


def prose(tokens, mark=""):
    """Text of as many tokens, at four characters each."""
    return f"[{mark}] " + (WORDS * (4 * tokens // len(WORDS) + 1))[: 4 * tokens]


def wide(characters, mark=""):
    return f"{mark}" + (WIDE * (characters // len(WIDE) + 1))[:characters]


def tokens(text):
    """As the scripted server of lab/patience counts: 1.2 for a wide character, else a quarter."""
    return sum(1.2 if ord(each) > 0x2E80 else 0.25 for each in text)


def bodies(sizes, text=prose, path=CHAT, *, system=1500, said="ok", **more):
    """A conversation in which the user says so much in each turn."""
    head, messages = prose(system, "s"), []
    for number, size in enumerate(sizes):
        messages.append({"role": "user", "content": text(size, number)})
        if path == MESSAGES:
            yield {"system": head, "messages": [*messages], **more}
        elif path == RESPONSES:
            yield {"instructions": head, "input": [*messages], **more}
        else:
            first = {"role": "system", "content": head}
            yield {"messages": [first, *messages], **more}
        messages.append({"role": "assistant", "content": said})


class Server:
    """Counts prompts, and reads so much of them: ``reads`` takes all their tokens."""

    def __init__(self, reads=lambda all_of_it: all_of_it, *, tells_reuse=True, **usage):
        self.reads, self.tells_reuse, self.usage = reads, tells_reuse, usage
        self.had = 0

    def answer(self, prompt):
        whole = round(sum(tokens(each.text) for each in prompt.segments))
        count = self.reads(whole)
        reused = min(self.had, count) if count == whole else 0
        self.had = count
        return Usage(count, reused if self.tells_reuse else None, 3, **self.usage)


def cap(size, **more):
    return Server(lambda whole: min(whole, size), **more)


def judged(asked, server, path=CHAT, profile=KIND, known=None, **fields):
    """All that is said of each turn."""
    verdicts, beliefs = known or (Verdicts(Store()), Beliefs())
    found = []
    for number, body in enumerate(asked):
        request = Request("POST", path, (), json.dumps({"model": "m"} | body).encode())
        one = Exchange(
            request,
            sent=request,
            session=Session("agent", "s"),
            turn=1,
            upstream="http://h",
            status=200,
            outcome=Outcome.COMPLETE,
            usage=server.answer(prompt_of(request)),
            wall=60.0 * number,
            seconds=1.0,
        )
        one = replace(one, **{name: each[number] for name, each in fields.items()})
        verdicts.judge(one, profile, beliefs)
        found.append(one)
    return found


def spelled(turns):
    lines = []
    for number, one in enumerate(turns, 1):
        said = said_of(one.verdict, one.usage)
        lost = f", {one.lost:,} tokens lost" if one.lost else ""
        basis = f" ({one.verdict.basis}{lost})" if said else ""
        lines.append(f"{number}: {one.judgement}{f', {one.reason}: {said}{basis}' if said else ''}")
    return "\n".join(lines)


TWELVE = {
    "Ollama's API at 4,096": lambda: judged(
        bodies(GROWING), cap(4096, tells_reuse=False), path=OLLAMA
    ),
    "Chat at 4,096": lambda: judged(bodies(GROWING), cap(4096)),
    "Messages at 8,192": lambda: judged(bodies(GROWING, path=MESSAGES), cap(8192), path=MESSAGES),
    "Responses at 8,192": lambda: judged(
        bodies(GROWING, path=RESPONSES), cap(8192), path=RESPONSES
    ),
    "the first prompt": lambda: judged(bodies([30_000]), cap(4096)),
    "the first prompt, and turns": lambda: judged(bodies([30_000, 300, 300]), cap(4096)),
    "half of what is more than a context": lambda: judged(
        bodies(GROWING), Server(lambda whole: whole // 2 if whole > 8192 else whole)
    ),
    "truncated: true": lambda: judged(bodies(GROWING[:4]), Server(truncated=True)),
    "one huge result": lambda: judged(bodies([500, 500, 30_000, 300]), cap(8192)),
    "wide characters": lambda: judged(bodies(GROWING[:4], wide), cap(4096)),
    "an agent's first prompt at 32,768": lambda: judged(
        bodies([36_000, 300, 300], path=MESSAGES), cap(32_768), path=MESSAGES
    ),
}
"""The overflows of lab/patience that are silent: the twelfth is a status 400."""


@pytest.mark.parametrize("name", TWELVE)
def test_a_cut_is_named_in_that_very_turn(name):
    golden.agrees(FILE, name, spelled(TWELVE[name]()))


def counted(*counts, reused=None):
    """A server that says these counts, whatever it is sent."""
    server, told = Server(), iter(counts)
    shares = iter(reused or [None] * len(counts))
    server.answer = lambda _: Usage(next(told), next(shares), 3)
    return server


def with_last(asked, change):
    """The conversation with its last body changed."""
    *first, last = asked
    return [*first, change(last)]


def thinking(body):
    """What the model thought is sent back with its answers."""
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["reasoning_content"] = prose(2000, "t")
    return body


def late(body):
    """A system message that comes late, which some templates drop without a word."""
    return body | {"messages": [*body["messages"], {"role": "system", "content": prose(1500, "l")}]}


def blanks(size, mark=""):
    return f"{mark}" + " " * 4 * size


def image(body):
    block = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    return body | {"messages": [*body["messages"], {"role": "user", "content": [block]}]}


TOOLS = [{"type": "function", "function": {"name": "t", "description": prose(5000, "d")}}]
CALL = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}}


def called(sizes):
    """A question, a call, and its result, of so many tokens."""
    asked, more = {"role": "user", "content": prose(200, "u")}, {"tools": TOOLS}
    call = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    results = [{"role": "tool", "tool_call_id": "1", "content": prose(each)} for each in sizes]
    for end in range(len(results) + 1):
        turns = [message for each in results[:end] for message in (call, each)]
        yield {"messages": [asked, *turns], **more}


LEFT = {"outcome": [Outcome.COMPLETE, Outcome.CLIENT_LEFT]}
ELSEWHERE = {"upstream": ["http://h", "http://other"]}
SEEN = Verdicts(Store()), Beliefs()
SEEN[1].saw_prompt("m", 60_000)
TWO, FOUR = [1500] * 2, [1500] * 4
OTHERS = {
    "growing": lambda: judged(bodies(GROWING), Server()),
    "growing, wide characters": lambda: judged(bodies([800] * 4, wide), Server()),
    "a summary for the history": lambda: judged(
        [*bodies([4000] * 3), *bodies([800])], Server(tells_reuse=False)
    ),
    "a title beside": lambda: judged(
        [*bodies([3000] * 2), *bodies([100], system=1100)], Server(tells_reuse=False)
    ),
    # neither its bytes nor its blanks are tokens
    "an image": lambda: judged(
        with_last(bodies(TWO), image), counted(3006, 4600, reused=[0, 3006])
    ),
    "blanks": lambda: judged(bodies(TWO, blanks), counted(1600, 1680, reused=[0, 1600])),
    # another tokenizer may count less
    "another model": lambda: judged(
        with_last(bodies(TWO), lambda body: body | {"model": "n"}), counted(3006, 3000)
    ),
    "another server": lambda: judged(bodies(TWO), counted(3006, 3000), **ELSEWHERE),
    # what a template leaves out of what the model and the client said before
    "reasoning that is dropped": lambda: judged(
        map(thinking, bodies(FOUR)), counted(3006, 6510, 9900, 7600)
    ),
    "a late system message that is dropped": lambda: judged(
        with_last(bodies(TWO), late), counted(3006, 4510)
    ),
    "tools that are printed for a question alone": lambda: judged(
        called([900]), counted(5300, 1150)
    ),
    "asked to leave some of it out": lambda: judged(
        bodies(TWO, context_management={"edits": [{}]}), counted(3006, 3000)
    ),
    # counts that are none of the whole prompt
    "the client left": lambda: judged(bodies(TWO), counted(3006, 1030), **LEFT),
    "a server that makes counts up": lambda: judged(bodies(GROWING), counted(*[900] * 8)),
    "only what is new is counted": lambda: judged(
        bodies(TWO), counted(3006, 1504), profile=UNKNOWN
    ),
    "only what is new is counted, where others began alike": lambda: judged(
        bodies([300], system=9000), counted(1100), profile=UNKNOWN
    ),
    "cached tokens are counted twice": lambda: judged(
        bodies([1500] * 3), counted(3006, 7516, 6014, reused=[0, 3006, 0])
    ),
    # a count that happens to be a context's size
    "4,096 of a prompt that goes on": lambda: judged(
        bodies(TWO), counted(2900, 4096, reused=[0, 2900])
    ),
    "4,096 where longer ones were read": lambda: judged(bodies([3500]), counted(4096), known=SEEN),
    "4,096 by all signs": lambda: judged(bodies([2000]), counted(4096)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_else_is_called_a_cut(name):
    turns = OTHERS[name]()
    assert "cut" not in [one.judgement for one in turns], spelled(turns)


def test_another_server_may_run_since():
    """After a restart the model may be another, with a tokenizer that counts less."""
    verdicts, beliefs = Verdicts(Store()), Beliefs()
    one, two = judged(bodies(TWO), counted(3006, 3000))
    assert two.judgement == "cut"
    for each, start in ((one, "1"), (two, "2")):
        again = replace(each, verdict=None, place=None)
        verdicts.judge(again, replace(KIND, start=start), beliefs)
    assert again.judgement != "cut"


def test_all_that_is_said():
    transcript.holds("verdicts_cut.txt", globals())
