"""A world of people: twins behind one gateway, who say the same, before proxies that may forget.

Its conversations are those of ``worlds.py``, of persons that a gateway tells apart by one name each
(``persons.py``). How a request gets to a proxy and an answer back is left to ``deliver``.

What may be in a request that goes on:

- Texts of users, answers, folders and late messages: those that came, as often and in that order.
- Values of fields: those that its own conversation has had, and those of another one of the same
  person, where all that a proxy sees of that one is the beginning of this one: system text without
  the fields, messages, and the answer that followed. Without a name of the session there has to be
  an answer. So two conversations of one person that are equal in all of this may share values:
  nothing tells them apart. In a session with an id answers do not count, and one that begins with
  another message than all before may have what the session has, as after a compaction.
- Reasoning: at the answer that it led to, or at one of the same person with the same history. It is
  wrong there, too, if this proxy has relayed two such answers, with other reasoning or none: then
  it knows that it does not know.

An answer has what belongs to its exchange, and nothing else. A retry may have the answer of an
equal request of the same person whose client left, equal but for pinned fields.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Event

from tests.core.conversation.persons import Person, Way, twins
from tests.core.conversation.worlds import ANSWERS, COMMON, KINDS, Kind, Talk, World, is_answer

TOKEN = re.compile(r"C\d+[A-Z]\d+|\b\d{1,2}/\d{1,2}/\d{4}\b")
"""A canary, or a date: each date is one's own."""
THOUGHT = re.compile(r"C\d+R\d+")
LONGEST = 18
"""Messages after which a conversation is compacted or left."""
WINDOW = 16
"""Conversations that go on at a time."""
WHOLE, RESET, CUT, GONE = "whole", "reset", "cut", "gone"
"""How an exchange ends: with all; broken by the upstream before or in its answer; left in it."""


@dataclass(frozen=True)
class Said:
    """An answer: its text, the reasoning before it, and calls: ids with arguments as text."""

    text: str
    thought: str | None = None
    calls: tuple[tuple[str, str], ...] = ()

    @property
    def tokens(self) -> set[str]:
        """All canaries in it."""
        return set(TOKEN.findall(f"{self.text} {self.thought} {self.calls}"))

    def item(self) -> dict:
        """The message of an answer."""
        calls = {"calls": self.calls} if self.calls else {}
        return {"role": "assistant", "content": self.text, "thought": self.thought} | calls


@dataclass(eq=False, kw_only=True)
class Dialogue(Talk):
    """A conversation of a ``person``.

    ``twin``: whose words it says again; ``family``: a number of those forked from one; ``dates``:
    each it had; ``given``: values of others that it rightly has; ``pinned``: its values at first,
    as long as nothing has happened to it for which a proxy might not know them, else None.
    """

    person: Person
    family: int
    twin: Dialogue | None = None
    dates: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    pinned: tuple[str, str] | None = None

    @property
    def agent(self) -> str:
        """The id of a subagent that its client names; "" for none."""
        names = self.sub and self.identity and self.family % 2 and self.kind.name == "claude"
        return f"agent-{self.family}" if names else ""


@dataclass(eq=False)
class Exchange:
    """One request and its answer. ``came``: the body as the upstream got it, None before.

    ``keys``: of its beginnings, see ``keys_of``. ``waits``: until ``go``, the upstream.
    ``right``: the values of fields that came, and may.
    """

    number: int
    talk: Dialogue
    asked: dict
    keys: list[int]
    said: Said
    ends: str = WHOLE
    waits: bool = False
    came: dict | None = None
    arrived: Event = field(default_factory=Event)
    go: Event = field(default_factory=Event)
    proxy: int = 0
    right: set[str] = field(default_factory=set)


class People(World):
    """Pairs of twins, one pair for each of ``ways``, before ``proxies`` that take turns.

    ``crossed``: what is wrong, by the way that told the person apart from the twin.
    """

    def __init__(self, seed: object, ways: Iterable[Way], proxies: int = 1) -> None:
        super().__init__(seed, None)
        self.pairs = [twins(way, 2 * at, self.random) for at, way in enumerate(ways)]
        self.exchanges: dict[int, Exchange] = {}
        self.left: list[Exchange] = []
        self.crossed: Counter[str] = Counter()
        self.firsts: defaultdict[int, set[tuple[Dialogue, bool]]] = defaultdict(set)
        self.lifetimes = itertools.count(proxies)
        # Of each proxy a number for what it can know.
        self.lives = [next(self.lifetimes) for _ in range(proxies)]
        self.having: defaultdict[str, list[Dialogue]] = defaultdict(list)
        self.asked: defaultdict[str, set[tuple]] = defaultdict(set)
        self.told: defaultdict[str, set[int]] = defaultdict(set)
        self.known: defaultdict[tuple, set[str | None]] = defaultdict(set)
        self.theirs: defaultdict[int, set[str]] = defaultdict(set)
        self.rivals: defaultdict[int, set[Dialogue]] = defaultdict(set)
        self.begun: set[tuple] = set()
        self.heads: defaultdict[str, set[tuple]] = defaultdict(set)
        self.sharing: defaultdict[tuple, list[Dialogue]] = defaultdict(list)
        self.forgets = False

    def populate(self) -> None:
        """Have somebody begin with each client."""
        for kind in KINDS:
            self.add(kind, self.random.choice([*itertools.chain(*self.pairs)]))

    def deliver(self, exchange: Exchange, *, leaves: bool = False) -> bytes | None:
        """Send it, and return the answer's bytes, None for none. ``leaves``: in the prefill."""
        raise NotImplementedError

    def restart_proxy(self, number: int) -> None:
        """Start proxy ``number`` anew."""
        raise NotImplementedError

    # What is done.

    def begin(self) -> Dialogue:
        """A new conversation, most often much like one that there is."""
        chance = self.random.random
        talks = self.talks[-WINDOW:]
        if chance() < 0.25:
            return self.add(
                self.random.choice(KINDS), self.random.choice([*itertools.chain(*self.pairs)])
            )
        like, how = self.random.choice(talks), chance()
        if how < 0.5:  # the twin says the same
            return self.twin_of(like, same_id=chance() < 0.5)
        if how < 0.65:  # the same person says it again
            return self.twin_of(like, other=False, same_id=False)
        if how < 0.75:  # a subagent, or another agent with the same id
            talk = self.add(like.kind, like.person, identity=like.identity)
            talk.sub = not like.sub
            return talk
        return self.fork(like)

    def add(self, kind: Kind, person: Person, **more: str | None) -> Dialogue:
        """Add a conversation of ``person`` in a folder of its own."""
        number = len(self.talks)
        own = {"identity": f"session-{number}" if kind.named else None, "folder": f"C{number}F0"}
        given = own | more
        talk = Dialogue(number, kind, key=None, person=person, family=number, **given)
        self.change(talk)
        self.date(talk)
        talk.pinned = (talk.values[0], talk.dates[0])
        self.talks.append(talk)
        if talk.identity:
            self.sharing[talk.identity, person].append(talk)
            for one in self.sharing[talk.identity, person][:-1]:
                one.pinned = talk.pinned = None
        return talk

    def twin_of(self, like: Dialogue, *, other: bool = True, same_id: bool) -> Dialogue:
        """Begin one whose user says what is said in ``like``, and is told nearly the same."""
        (pair,) = (one for one in self.pairs if like.person in one)
        person = next(one for one in pair if one is not like.person) if other else like.person
        more = {"identity": like.identity} if same_id else {}
        talk = self.add(like.kind, person, folder=like.folder, **more)
        talk.twin, talk.sub = like, like.sub
        return talk

    def fork(self, like: Dialogue) -> Dialogue:
        """Begin one that has all of ``like`` so far."""
        same = {"identity": like.identity} if self.random.random() < 0.5 else {}
        talk = self.add(like.kind, like.person, folder=like.folder, **same)
        talk.items, talk.sub, talk.family = list(like.items), like.sub, like.family
        talk.values, talk.dates = list(like.values), list(like.dates)
        talk.given, talk.answered = set(like.given), like.answered
        talk.pinned = like.pinned = None
        self.inherit(talk)
        return talk

    def mirror(self, like: Dialogue) -> Dialogue:
        """Have the twin ask exactly what is asked in ``like``, with the same id."""
        talk = self.twin_of(like, same_id=True)
        talk.items, talk.pinned = [one | {"thought": None} for one in like.items], None
        talk.values, talk.dates = like.values[-1:], like.dates[-1:]
        self.inherit(talk)
        return talk

    def inherit(self, talk: Dialogue) -> None:
        """Take note that it has the values of another."""
        for one in (*talk.values, *talk.dates):
            self.having[one].append(talk)

    def change(self, talk: Dialogue) -> None:
        """Give its field a new value, as a commit does."""
        talk.values.append(self.canary(talk, "B"))
        self.having[talk.values[-1]].append(talk)

    def date(self, talk: Dialogue) -> None:
        """Give it a new date, as midnight does."""
        number = next(self.numbers)
        month, day, year = number % 12, number // 12 % 28, number // 336
        talk.dates.append(f"{1 + month}/{1 + day}/{2000 + year}")
        self.having[talk.dates[-1]].append(talk)

    def day(self, talk: Dialogue) -> str:
        return talk.dates[-1]

    def body(self, talk: Dialogue) -> dict:
        """What it asks, with the person's own members."""
        return super().body(talk) | talk.person.members() | {"max_tokens": 99}

    def step(self) -> None:
        """One request of one conversation or two, as a user or a client makes it."""
        chance, pick = self.random.random, self.random.choice
        if chance() < 0.0025:
            self.restart(pick(range(len(self.lives))))
        if chance() < 0.01:  # midnight
            for one in self.talks[-WINDOW:]:
                self.date(one)
        talks = self.talks[-WINDOW:]
        talk = self.begin() if chance() < 0.12 else pick(talks)
        if chance() < 0.15:
            self.change(talk)
        if chance() < 0.03:
            self.date(talk)
        how, items = chance(), talk.items
        if not talk.answered and items and not is_answer(items[-1]):
            pass  # it is sent again
        elif how < 0.06 and len(items) > 1 and is_answer(items[-1]):  # it is asked for anew
            items.pop()
            talk.pinned = None
        else:
            if (how < 0.11 and len(items) > 3) or len(items) > LONGEST:
                self.shorten(talk)
            self.ask(talk)
        self.act(talk)

    def shorten(self, talk: Dialogue) -> None:
        """Take back, cut off or compact what was said."""
        how, items = self.random.random(), talk.items
        users = [at for at, one in enumerate(items) if one["role"] == "user" and at]
        talk.pinned = None
        if how < 0.5 and users:  # a rewind
            del items[self.random.choice(users) :]
        elif how < 0.75 and users:  # its front is cut off
            del items[: self.random.choice(users)]
        else:  # a compaction, with a summary or without
            items.clear()
            if how < 0.9:
                self.hear(talk, f"A summary: {self.canary(talk, 'U')}")
                items.append({"role": "assistant", "content": "I see.", "thought": None})

    def ask(self, talk: Dialogue) -> None:
        """Have the user or the tools say something."""
        last = talk.items[-1] if talk.items else {}
        if last.get("calls"):
            for call, _ in last["calls"]:
                text = "" if self.random.random() < 0.1 else f"found {self.canary(talk, 'U')}"
                self.hear(talk, text, role="tool", call=call)
            return
        if talk.items and self.random.random() < 0.07:
            self.hear(talk, self.canary(talk, "S"), role="system")
        chance = self.random.random()
        self.hear(talk, self.random.choice(COMMON) if chance < 0.6 else self.canary(talk, "U"))

    def hear(self, talk: Dialogue, text: str, role: str = "user", **more: str) -> None:
        """Add what the user, a tool or the client says: as the twin did, if that was the same."""
        at = len(talk.items)
        theirs = talk.twin.items[at] if talk.twin and at < len(talk.twin.items) else {}
        if theirs.get("role") == role and self.random.random() < 0.9:
            text = theirs["content"]
        talk.items.append({"role": role, "content": text} | more)

    def reply(self, talk: Dialogue) -> Said:
        """What the model will say: often what it says to everybody, or to the twin."""
        chance, at = self.random.random, len(talk.items)
        thought = self.canary(talk, "R") if chance() < 0.7 else None
        theirs = talk.twin.items[at] if talk.twin and at < len(talk.twin.items) else {}
        if is_answer(theirs) and chance() < 0.75:
            return Said(theirs["content"], thought, theirs.get("calls", ()))
        how = chance()
        text = self.random.choice(ANSWERS) if how < 0.6 else self.canary(talk, "A")
        text = "" if how > 0.97 else f"\n\n{text}\n" if how > 0.9 else text
        if chance() < 0.15:
            call = f"call_{self.random.choice((0, next(self.numbers)))}"
            given = f'{{"path":"{self.canary(talk, "A")}" , "lines": [1.0, 2e3]}}'
            return Said("" if chance() < 0.5 else text, thought, ((call, given),))
        return Said(text, thought)

    def act(self, talk: Dialogue) -> None:
        """Send what it has, and have happen what happens to requests."""
        how = self.random.random()
        if how < 0.1:
            self.leave(talk)
        elif how < 0.19:
            self.send(talk, self.random.choice((RESET, CUT, GONE)))
        else:
            self.send(talk)

    def leave(self, talk: Dialogue) -> None:
        """Have its client leave in the prefill, and perhaps ask again, or the twin ask the same."""
        gone, how = self.abandon(talk), self.random.random()
        if how < 0.3:
            self.send(self.mirror(talk), frees=gone)
        if how < 0.2 or 0.3 < how < 0.85:
            self.send(talk, frees=gone)
        gone.go.set()

    def abandon(self, talk: Dialogue, said: Said | None = None) -> Exchange:
        """Have its client leave in the prefill."""
        gone = self.exchange(talk, said=said)
        gone.waits = True
        self.deliver(gone, leaves=True)
        self.check(gone)
        talk.answered, talk.pinned = False, None
        self.left.append(gone)
        return gone

    def exchange(self, talk: Dialogue, ends: str = WHOLE, said: Said | None = None) -> Exchange:
        """Make the next request of ``talk``."""
        asked = self.body(talk) | {"stream": self.random.random() < 0.5}
        number, keys = next(self.numbers), keys_of(talk)
        proxy = self.random.randrange(len(self.lives))
        found = Exchange(number, talk, asked, keys, said or self.reply(talk), ends, proxy=proxy)
        if len(self.lives) > 1 or self.forgets:
            talk.pinned = None
        elif talk.pinned and len(talk.items) == 1:
            talk.pinned = (talk.values[-1], talk.dates[-1])
        self.exchanges[number] = found
        return found

    def send(
        self,
        talk: Dialogue,
        ends: str = WHOLE,
        frees: Exchange | None = None,
        said: Said | None = None,
    ) -> None:
        """Send its request, and look at what comes up and down.

        ``frees``: one that is under way, which is answered as soon as this is sent.
        """
        exchange = self.exchange(talk, ends, said)
        if frees is not None:
            frees.go.set()
        answer = self.deliver(exchange)
        if exchange.came is None and answer is not None:
            self.joined(exchange, answer)
        elif ends == GONE and not answer:  # it was being collected: a retry may get it, too
            self.left.append(exchange)
        self.check(exchange)
        self.take(exchange, answer)

    def joined(self, exchange: Exchange, answer: bytes) -> None:
        """Look whose answer a retry got; it goes on with that."""
        got = set(TOKEN.findall(answer.decode()))
        held = [one for one in self.left if one.came is not None and one.proxy == exchange.proxy]
        fitting = [one for one in held if got <= one.said.tokens]  # it may be cut off
        fitting.sort(key=lambda one: got == one.said.tokens)
        equal = [one for one in fitting if is_same(one, exchange)]
        if not equal:
            what = "a retry got no answer of an equal request"
            if got and any(one.talk.person is not exchange.talk.person for one in fitting):
                what = "a retry got the answer to another person"
            self.blame(exchange, what, got)
        self.found["joined"] += bool(equal)
        for one in (equal or fitting)[-1:]:
            exchange.said = one.said
            self.left.remove(one)

    def take(self, exchange: Exchange, answer: bytes | None) -> None:
        """Have the client keep the answer in its way."""
        talk, said, chance = exchange.talk, exchange.said, self.random.random
        words = re.sub(rb"[\w/]+$", b"", answer or b"")  # it may be cut in a word
        got = set(TOKEN.findall(words.decode()))
        if got - said.tokens:
            self.blame(exchange, self.whose("an answer has", exchange, got - said.tokens), got)
        if answer is None and exchange.ends == WHOLE:
            self.blame(exchange, f"no answer ({talk.kind.name})", exchange.number)
        place = _key(exchange.keys[-1], said.item())
        if (exchange.came is not None and exchange.ends != RESET) or answer is not None:
            self.known[self.lives[exchange.proxy], talk.identity, talk.agent, place].add(
                said.thought
            )
            if said.thought:
                self.theirs[place].add(said.thought)
        if len(exchange.keys) == 2:  # of what was cut off, nobody knows whether a twin had it
            alike = self.firsts[exchange.keys[-1]]
            alike.add((talk, exchange.ends in (CUT, GONE)))
            for one, _ in alike if any(is_cut for _, is_cut in alike) else ():
                one.pinned = None
        if answer is None or exchange.ends in (RESET, CUT, GONE):
            talk.answered, talk.pinned = False, None
            had = json.dumps(said.text)[1:-1].encode() in (answer or b"") and said.tokens <= got
            if exchange.ends != GONE or not exchange.asked["stream"] or not had or chance() < 0.5:
                return
            # All of it had come: it stays.
        elif said.tokens - got:
            self.blame(exchange, "an answer is not whole", said.tokens - got)
        item, how = said.item(), chance()
        if said.text and how < 0.15:
            item["content"] = said.text.strip()
        elif said.text and how < 0.19:
            item["content"] = said.text + " (edited)"
        if item["content"] != said.text or not (said.text or said.calls):
            talk.pinned = None
        if said.calls and chance() < 0.5:
            item["calls"] = tuple((call, _respelled(given)) for call, given in said.calls)
        talk.items.append(item)
        talk.answered = True
        places = {place, _key(exchange.keys[-1], item)}
        for key in places:
            if said.thought:
                self.theirs[key].add(said.thought)
            if len(exchange.keys) == 2:
                self.rivals[key].add(talk)
                for one in self.rivals[key] if len(self.rivals[key]) > 1 else ():
                    one.pinned = None
        for value in {talk.values[-1], talk.dates[-1], *exchange.right}:
            self.told[value] |= places

    def restart(self, number: int = 0) -> None:
        """Have a proxy forget all."""
        for one in self.left:
            one.go.set()
        self.restart_proxy(number)
        self.lives[number] = next(self.lifetimes)
        self.left = [one for one in self.left if one.proxy != number]
        for talk in self.talks:
            talk.pinned = None

    # What is looked at.

    def check(self, exchange: Exchange) -> None:
        """Count what is wrong with what the upstream got."""
        if exchange.came is None:
            return
        came, left = (TOKEN.findall(json.dumps(one)) for one in (exchange.asked, exchange.came))
        ours, theirs = Counter(came), Counter(left)
        kept = [[one for one in each if _letter(one) in "UASF"] for each in (came, left)]
        for one in (ours - theirs).keys() | (theirs - ours).keys():
            if _letter(one) in "UASF":
                how = "doubled" if theirs[one] > ours[one] else "lost"
                is_here = f"{_letter(one)} {how}" if one in ours else f"{_letter(one)} of another"
                self.blame(exchange, is_here, one)
        if Counter(kept[0]) == Counter(kept[1]) and kept[0] != kept[1]:
            self.blame(exchange, "moved", kept)
        self.check_values(exchange, left)
        self.check_thoughts(exchange)

    def check_values(self, exchange: Exchange, left: list[str]) -> None:
        """Look at the values of fields in what the upstream got."""
        talk, keys = exchange.talk, exchange.keys
        has_answers = any(map(is_answer, talk.items))
        values = [one for one in left if _letter(one) in "BD"]
        life, place = self.lives[exchange.proxy], (talk.identity, keys[1])
        places = {(talk.identity, key) for key in keys[1:]}
        if talk.identity is None:
            places = {(None, keys[-1])} if has_answers else set()
        elif self.forgets or (life, place) not in self.begun:  # as after a compaction
            places.add((talk.identity, keys[0]))
        heads = {next((one for one in values if _letter(one) == letter), "") for letter in "BD"}
        for one in {*values} - {*talk.values, *talk.dates, *talk.given}:
            is_head = one in heads and talk.identity and place in self.heads[one]
            if is_head or self.told[one].intersection(keys) or self.asked[one] & places:
                talk.given.add(one)
            else:
                self.blame(exchange, self.whose(_letter(one), exchange, (one,)), one)
        exchange.right = {*talk.values, *talk.dates, *talk.given}.intersection(values)
        for one in exchange.right:
            self.asked[one] |= {(talk.identity, keys[-1]), (talk.identity, keys[0])}
            if one in heads:
                self.heads[one].add(place)
        self.begun.add((life, place))
        for letter, now in (("B", talk.values[-1]), ("D", talk.dates[-1])):
            told = [one for one in values if _letter(one) == letter]
            if not told:
                continue
            for one, following in itertools.pairwise(told):
                if one == following:
                    self.blame(exchange, f"{letter} told twice", one)
            if told[0] != now:
                self.found[f"pinned {letter}"] += 1
            if now in told[1:]:
                self.found[f"told {letter}"] += 1
            first = talk.pinned["BD".index(letter)] if talk.pinned else None
            if first and has_answers and told[0] != first:
                self.found["first value not put back"] += 1
            if first and now not in told and talk.items[-1]["role"] == "user":
                self.blame(exchange, f"a new {letter} is told nowhere", now)

    def check_thoughts(self, exchange: Exchange) -> None:
        """Look at the reasoning in what the upstream got."""
        talk = exchange.talk
        items = exchange.came.get("messages") or exchange.came.get("input") or []
        answers = [at for at, one in enumerate(talk.items) if is_answer(one)]
        places = iter(answers)
        for item in items:
            thoughts = THOUGHT.findall(json.dumps(item))
            at = next(places, None) if is_answer(item) else None
            if not thoughts:
                continue
            self.found["reasoning"] += 1
            if at is None:
                self.blame(exchange, "reasoning at no answer", thoughts)
                continue
            own, key = talk.items[at]["thought"], exchange.keys[at + 1]
            if thoughts == [own]:
                continue
            known = self.known[self.lives[exchange.proxy], talk.identity, talk.agent, key]
            if len(thoughts) > 1 or thoughts[0] not in self.theirs[key]:
                self.blame(exchange, self.whose("reasoning", exchange, thoughts), thoughts)
            elif len(known) > 1 and not self.forgets:
                self.blame(exchange, "reasoning at a place that several answers have", thoughts)

    def whose(self, what: str, exchange: Exchange, tokens: Iterable[str]) -> str:
        """Say whose ``tokens`` are that are not right here."""
        talk, found = exchange.talk, set()
        named = "with an id" if talk.identity else "without an id"
        for one in tokens:
            having = self.having.get(one) or [self.talks[int(re.match(r"C(\d+)", one)[1])]]
            same = [other for other in having if other.person is talk.person]
            if not same:
                found.add(f"{what} of another person, {named}")
            elif talk in same:
                found.add(f"{what} of another answer, {named}")
            elif any(other.family == talk.family for other in same):
                found.add(f"{what} of a branch, {named}")
            else:
                found.add(f"{what} of another conversation, {named}")
        return min(found)

    def blame(self, exchange: Exchange, what: str, one: object) -> None:
        """Count one that is wrong."""
        self.complain(exchange.talk, what, one)
        self.crossed[str(exchange.talk.person.way)] += 1


def keys_of(talk: Dialogue) -> list[int]:
    """Return a number for all that a proxy sees before each message, and one for the whole.

    Fields that are pinned are not in it, nor ids; white space around texts does not count.
    """
    whose = hash((talk.person.number, talk.kind.name, talk.folder, talk.sub))
    return [*itertools.accumulate(talk.items, _key, initial=whose)]


def _key(before: int, item: dict) -> int:
    # 1.0 is 1 to clients that are written in JavaScript.
    given = [
        json.loads(one, parse_float=lambda it: round(float(it))) for _, one in item.get("calls", ())
    ]
    calls = [json.dumps(value, sort_keys=True) for value in given]
    return hash((before, item["role"], item["content"].strip(), *calls))


def is_same(one: Exchange, other: Exchange) -> bool:
    """Whether two ask the same of the same upstream, for one person, but for pinned fields."""
    if one.talk.person is not other.talk.person or one.talk.kind is not other.talk.kind:
        return False
    asked = [json.dumps(each.asked | {"stream": 0}) for each in (one, other)]
    return len({TOKEN.sub(_unpinned, each) for each in asked}) == 1


def _unpinned(found: re.Match[str]) -> str:
    return "" if _letter(found[0]) in "BD" else found[0]


def _letter(token: str) -> str:
    return "D" if "/" in token else token.strip("C0123456789")


def _respelled(given: str) -> str:
    value = json.loads(given)
    return json.dumps(dict(reversed(value.items())) | {"lines": [1, 2000]}, indent=1)
