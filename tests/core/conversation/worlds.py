"""Whole conversations of several clients at once, each of whose texts says whose it is.

A world sends them through the rules, the store, the keeping of reasoning and the placing of late
messages, as the proxy does. Every text is a canary: ``C7U3`` is the user's third of conversation 7,
``F`` its folder, ``B`` the value of its volatile field, ``A`` an answer, ``R`` the reasoning before
one, ``S`` a late system message. ``look`` complains of what is not where it belongs.
"""

import itertools
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field

from cacheproxy.config import Config
from cacheproxy.core.adapt.late import place
from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.thoughts import Thought, Thoughts
from cacheproxy.core.dialects.answer import said
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import run
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.packages import configured
from tests.core.adapt.talk import keep

CANARY = re.compile(r"C(\d+)([A-Z])(\d+)")
WORD = ("preserve_thinking", True)
OWN = Rule(
    name="own-branch",
    where="system",
    pattern=r"(?m)^Branch: (?P<volatile>\S+)$",
    pin=True,
    note=r"The branch is now \g<volatile>.",
)
RULE = f"""
[[rule]]
name = "{OWN.name}"
where = "system"
pattern = '{OWN.pattern}'
pin = true
note = '{OWN.note}'
"""
COMMON = ("hi", "continue", "go on")
ANSWERS = ("Done.", "Hello!", "OK")
TOOL = "look"


@dataclass(frozen=True)
class Kind:
    """A client. ``named``: the header that names its sessions, None where it has none."""

    name: str
    path: str
    agent: str
    named: str | None
    head: str


KINDS = (
    Kind("crush", "/v1/chat/completions", "Charm-Crush/1", None, (
        "You are Crush, a powerful AI Assistant that runs in the CLI.\n" + "Be careful.\n" * 350
        + "<env>\nWorking directory: /{F}\nIs directory a git repo: yes\nPlatform: linux\n"
        "Today's date: {D}\n\n\nGit status (snapshot at conversation start - may be outdated):\n"
        "Current branch: {B}\n\n\n</env>"
    )),
    Kind("claude", "/v1/messages", "claude-cli/2.1.197 (external)", "X-Claude-Code-Session-Id", (
        "You are Claude Code, Anthropic's official CLI for Claude.\nCWD: /{F}\n\n"
        "gitStatus: This is the git status at the start.\n\nCurrent branch: {B}"
    )),
    Kind("own", "/v1/responses", "agent/1", "X-Session-ID", "An agent in /{F}.\nBranch: {B}"),
    Kind("plain", "/v1/chat/completions", "plain/1", None, "An agent in /{F}.\nBranch: {B}"),
    Kind("named", "/v1/chat/completions", "agent/2", "X-Session-ID", "In /{F}.\nBranch: {B}"),
    Kind("ollama", "/api/chat", "ollama-python/1", None, "An agent in /{F}.\nBranch: {B}"),
)  # fmt: skip


@dataclass(eq=False)
class Talk:
    """One conversation, as its client keeps it. ``truth``: reasoning by the answer's number."""

    number: int
    kind: Kind
    identity: str | None
    key: str | None
    folder: str
    sub: bool = False
    kin: set[int] = field(default_factory=set)
    items: list[dict] = field(default_factory=list)
    truth: dict[int, str] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    date: int = 1
    answered: bool = False
    untold: int = 0
    sent: list[dict] = field(default_factory=list)

    @property
    def whose(self) -> tuple:
        """What two have in common that are one session with one system text."""
        return self.kind, self.identity, self.key, self.folder, self.sub


class World:
    """Conversations before one proxy.

    ``found``: how often something was put back; ``wrong``: what was not as it has to be.
    """

    def __init__(self, seed: int, plan: Plan, memory: int = 1 << 26) -> None:
        self.random = random.Random(seed)
        self.plan, self.memory = plan, memory
        self.store, self.memo = Store(memory), Memo()
        self.talks: list[Talk] = []
        self.numbers = itertools.count(1)
        self.found: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.shown: list[str] = []
        self.truths: dict[tuple, set[str]] = {}
        late = self.random.choice((Late.INLINE, Late.REFUSED, Late.HOISTED, Late.DROPPED))
        self.placement = alike(late, "a test", joins=self.random.random() < 0.3)

    def canary(self, talk: Talk, letter: str) -> str:
        return f"C{talk.number}{letter}{next(self.numbers)}"

    def begin(self) -> Talk:
        """A new conversation, often much like one that there is."""
        chance, number = self.random.random, len(self.talks)
        like = self.random.choice(self.talks) if self.talks and chance() < 0.6 else None
        kind = like.kind if like else self.random.choice(KINDS)
        talk = Talk(number, kind, None, None, f"C{number}F0", kin={number})
        if kind.named is not None:
            talk.identity = f"session-{number}"
        if like is not None:
            if chance() < 0.5:  # another session in the same folder
                talk.folder = like.folder
                talk.kin |= {int(CANARY.match(like.folder)[1])}
            how = chance()
            if how < 0.15:  # somebody else, with the same id
                talk.identity, talk.key = like.identity, f"key-{number}"
            elif how < 0.3 and like.identity:  # an invented session: other texts, the same id
                talk.identity, talk.key, talk.folder = like.identity, like.key, f"C{number}F0"
                talk.kin = {number}
            elif how < 0.5 and like.identity and not like.sub:  # a subagent
                talk.identity, talk.key, talk.sub = like.identity, like.key, True
            elif how < 0.65 and like.items:  # a fork
                talk.items = list(like.items)
                talk.truth, talk.values = dict(like.truth), list(like.values)
                talk.kin |= like.kin
                talk.folder, talk.key, talk.sub = like.folder, like.key, like.sub
                if kind.named and chance() < 0.5:
                    talk.identity = like.identity
        if not talk.values:
            talk.values.append(self.canary(talk, "B"))
        self.talks.append(talk)
        return talk

    def step(self) -> None:
        """One request of one conversation, and its answer."""
        chance, pick = self.random.random, self.random.choice
        if chance() < 0.003:
            self.restart()
        talks = self.talks[-14:]
        talk = self.begin() if chance() < 0.12 or not talks else pick(talks)
        if chance() < 0.15:
            talk.values.append(self.canary(talk, "B"))
        if chance() < 0.1:
            talk.date += 1
        how = chance()
        if not talk.answered and talk.items and talk.items[-1]["role"] == "user":
            pass  # it is sent again
        elif how < 0.06 and len(talk.items) > 1:  # it is asked for anew
            talk.items.pop()
            talk.truth.pop(len(talk.items), None)
        else:
            if how < 0.12 and len(talk.items) > 3:  # a rewind
                self.cut(talk, 2 * self.random.randrange(1, (len(talk.items) + 1) // 2))
            elif how < 0.16 and len(talk.items) > 5:  # its front is cut off
                gone = 2 * self.random.randrange(1, len(talk.items) // 2)
                talk.items, talk.truth = talk.items[gone:], {}
            elif how < 0.19 and len(talk.items) > 5:  # a compaction
                talk.items, talk.truth = [], {}
            self.ask(talk)
        self.send(talk, answers=chance() < 0.9)

    def restart(self) -> None:
        """Forget all, as a proxy does that is started anew."""
        self.store = Store(self.memory)
        self.truths.clear()

    def cut(self, talk: Talk, length: int) -> None:
        del talk.items[length:]
        talk.truth = {at: text for at, text in talk.truth.items() if at < length}

    def ask(self, talk: Talk) -> None:
        chance = self.random.random
        text = self.random.choice(COMMON) if chance() < 0.5 else self.canary(talk, "U")
        talk.items.append({"role": "user", "content": text})

    def day(self, talk: Talk) -> str:
        """The date that its client tells."""
        return f"1/{talk.date}/2026"

    def body(self, talk: Talk) -> dict:
        head = talk.kind.head.format(F=talk.folder, B=talk.values[-1], D=self.day(talk))
        if talk.sub:
            head = "A subagent.\n" + head
        items = spelled(talk.kind, talk.items)
        if talk.kind.path.endswith("messages"):
            return {"model": "m", "system": [{"type": "text", "text": head}], "messages": items}
        if talk.kind.path.endswith("responses"):
            return {"model": "m", "instructions": head, "input": items}
        return {"model": "m", "messages": [{"role": "system", "content": head}, *items]}

    def send(self, talk: Talk, *, answers: bool) -> None:
        asked = self.body(talk)
        headers = [(b"User-Agent", talk.kind.agent.encode())]
        if talk.identity and talk.kind.named:
            headers.append((talk.kind.named.encode(), talk.identity.encode()))
        if talk.key:
            headers.append((b"Authorization", f"Bearer {talk.key}".encode()))
        data = json.dumps(asked).encode()
        came = Request("POST", talk.kind.path, tuple(headers), data, self.memo)
        prepared = run(prepare(self.plan.clients.introduce(came), self.plan, self.store))
        turn = prepared.turn
        assert turn is not None
        begun = self.store.begin(turn, prepared.request)
        known = self.store.conversation(turn.session)
        thoughts = Thoughts() if known is None else known.thoughts
        kept = keep(prepared.request, (WORD,), thoughts, turn.kin)
        assert kept.report is None or kept.report.error is None
        sent, _ = place(kept.request, self.placement)
        self.look(talk, asked, sent.json)
        talk.answered = answers
        if not answers:
            return
        chance = self.random.random
        text = self.random.choice(ANSWERS) if chance() < 0.6 else self.canary(talk, "A")
        thought = self.canary(talk, "R")
        spelled = Thought("reasoning_content", json.dumps(thought))
        heard = Heard(said(text, ()), spelled, is_whole=True)
        self.store.heard(turn.session, begun.history, kept.asked, None, heard)
        if kept.asked is not None:
            talk.truth[len(talk.items)] = thought
        talk.items.append({"role": "assistant", "content": text})
        if kept.asked is not None:
            self.truths.setdefault(key_of(talk, talk.items), set()).add(thought)
        if chance() < 0.1:
            talk.items.append({"role": "system", "content": self.canary(talk, "S")})
            self.ask(talk)
            talk.answered = False
        self.store.end(turn.session, begun, None)

    def look(self, talk: Talk, asked: dict, sent: dict) -> None:
        """Count what is wrong with what is sent for what was asked."""
        came, text = CANARY.findall(json.dumps(asked)), json.dumps(sent)
        left = CANARY.findall(text)
        theirs, ours = Counter(left), Counter(came)
        values = set(self.values_of(talk))
        for one, count in theirs.items():
            owner, letter, number = one
            is_value = letter == "B" and f"C{owner}B{number}" in values
            if int(owner) not in talk.kin and one not in ours and not is_value:
                self.complain(talk, f"{letter} of another", one)
            elif letter in "UASF" and count != ours[one]:
                self.complain(talk, f"{letter} doubled or invented", one)
            elif letter == "B" and not is_value:
                self.complain(talk, "a value that it never had", one)
        told = [one for one in left if one[1] == "B"]
        for one, following in itertools.pairwise(told):  # a fork's may stand between, and is kin
            if one == following:
                self.complain(talk, "a value told twice", one)
        for one in ours - theirs:
            if one[1] in "UASF":
                self.complain(talk, f"{one[1]} lost", one)
        (now,) = (one for one in ours if one[1] == "B")
        # A message that is sent again gets no note: the next one has it.
        if now in theirs or talk.items[-1]["role"] != "user":
            talk.untold = 0
        elif talk.items != talk.sent:
            talk.untold += 1
        talk.sent = list(talk.items)
        if talk.untold > 3:
            self.complain(talk, "the new value is told nowhere", now)
        if now not in theirs or len(set(told)) > 1:
            self.found[f"pin {talk.kind.name}"] += 1
        self.look_at_thoughts(talk, sent)
        order = [[one for one in each if one[1] in "UAS"] for each in (came, left)]
        if order[0] != order[1]:
            self.complain(talk, "moved", order[0][:1])

    def values_of(self, talk: Talk) -> list[str]:
        """All values that its field had: in a named session also in what has the same text."""
        alike = [one for one in self.talks if one.whose == talk.whose]
        if talk.identity is None:  # one that branched off says the same up to there
            alike = [one for one in alike if one.kin & talk.kin]
        return [value for one in alike for value in one.values]

    def look_at_thoughts(self, talk: Talk, sent: dict) -> None:
        items = sent.get("messages") or sent.get("input") or []
        number = -1
        answers = [at for at, one in enumerate(talk.items) if is_answer(one)]
        for item in items:
            thoughts = re.findall(r"C\d+R\d+", str(item))
            if not is_answer(item):
                if thoughts:
                    self.complain(talk, "reasoning at no answer", thoughts)
                continue
            number += 1
            at = answers[number]
            own = self.truths.get(key_of(talk, talk.items[: at + 1]), set())
            if thoughts and thoughts != [talk.truth.get(at)] and set(thoughts) != own:
                self.complain(talk, "reasoning of another answer", (thoughts, own))
            self.found["reasoning"] += len(thoughts)

    def complain(self, talk: Talk, what: str, one: object) -> None:
        self.wrong[what] += 1
        if len(self.shown) < 20:
            self.shown.append(f"{what}: {one} in conversation {talk.number} ({talk.kind.name})")


def spelled(kind: Kind, items: list[dict]) -> list[dict]:
    """Return messages as a client's API has them.

    An answer may have ``calls``, each an id and arguments as text; what such a ``call`` returned is
    a message of the role "tool".
    """
    return [each for item in items for each in _spelled(kind.path, item)]


def _spelled(path: str, item: dict) -> list[dict]:
    role, content, calls = item["role"], item["content"], item.get("calls", ())
    plain, name = {"role": role, "content": content}, {"name": TOOL}
    if role != "tool" and not calls:
        return [plain]
    if path == "/v1/messages":
        if role == "tool":
            result = {"type": "tool_result", "tool_use_id": item["call"], "content": content}
            return [{"role": "user", "content": [result]}]
        used = [{"type": "tool_use", "id": i} | name | {"input": json.loads(a)} for i, a in calls]
        texts = [{"type": "text", "text": content}] if content else []
        return [{"role": role, "content": [*texts, *used]}]
    if path == "/v1/responses":
        if role == "tool":
            return [{"type": "function_call_output", "call_id": item["call"], "output": content}]
        called = [
            {"type": "function_call", "call_id": i} | name | {"arguments": a} for i, a in calls
        ]
        return [*([plain] if content else []), *called]
    if path == "/api/chat":
        used = [{"function": name | {"arguments": json.loads(a)}} for _, a in calls]
        return [plain | ({"tool_calls": used} if calls else {"tool_name": TOOL})]
    if role == "tool":
        return [plain | {"tool_call_id": item["call"]}]
    used = [{"id": i, "type": "function", "function": name | {"arguments": a}} for i, a in calls]
    return [plain | {"tool_calls": used}]


def key_of(talk: Talk, items: list[dict]) -> tuple:
    """What a client sees of an answer and all before it."""
    return talk.whose, *((one["role"], one["content"]) for one in items)


def is_answer(item: dict) -> bool:
    """Whether the model says it."""
    return item.get("role") == "assistant"


def world_of(seed: int, turns: int) -> World:
    """A world of so many turns."""
    known = configured(Config())
    rules = (OWN, *known.on)
    memory = 1 << 26 if seed % 4 else 3_000_000
    world = World(seed, known.packages.plan(rules), memory)
    for _ in range(turns):
        world.step()
    return world
