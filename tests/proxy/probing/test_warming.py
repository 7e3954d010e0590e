"""A server that was restarted reads its last prompts again, by a clock of ours."""

import json
from types import SimpleNamespace
from zlib import crc32

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.logger import formatEvent

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.kinds.profile import Memory
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.probing.poller import Health
from cacheproxy.proxy.probing.proving import Proving
from cacheproxy.proxy.probing.warming import Warming, unanswered
from tests import transcript
from tests.logs import looking
from tests.proxy.proving.shown import Shown
from tests.proxy.proving.turned import Told

URL = "http://localhost:8080"
WORDS = 3000
"""Tokens of each prompt here: its words."""
TRIED = 192
"""Tokens that are evaluated besides to learn that there is no RAM cache."""


@pytest.fixture
def said():
    """The lines of the log."""
    lines = []
    with looking(lambda event: lines.append(formatEvent(event))):
        yield lines


class Llama:
    """A llama-server with one slot, whose prompts are words, and the proxy's parts that ask it.

    ``seconds``: that each token takes, and ``each`` prompt besides. ``read``: how many tokens of
    which prompt it has evaluated, in order; it hangs when it has read as many as ``hangs_at``.
    """

    def __init__(self, reactor, *, seconds=0.0, each=0.0, ram=False, **memory):
        self.reactor, self.seconds, self.each = reactor, seconds, each
        self.ram = [] if ram else None
        self.marker, self.model, self.page = "one", "tiny", "default_generation_settings"
        self.file, self.size, self.build = "/m/a.gguf", 1, "b1-abc"
        self.has, self.read, self.hangs_at, self.busy = [], [], None, False
        self.fails = None
        pages = {
            "/health": (200, b"{}"),
            "/props": self.props,
            "/slots": self.slots,
            "/v1/models": lambda _: as_json(
                {"data": [{"id": self.model, "meta": {"size": self.size}}]}
            ),
            "/apply-template": lambda asked: as_json({"prompt": words_of(asked)}),
            "/tokenize": lambda asked: as_json({"tokens": numbers(asked.json["content"])}),
            "/completion": lambda asked: self.evaluated(asked, asked.json["prompt"]),
            "/v1/chat/completions": lambda asked: self.evaluated(asked, numbers(words_of(asked))),
        }
        self.asker = Shown(reactor, pages)
        self.asker.upstream = SimpleNamespace(url=SimpleNamespace(text=URL))
        self.asker.wall = reactor.seconds
        self.store, self.health = Store(), Health(self.asker, "")
        self.told = Told(page="/apply-template", memory=Memory(**memory))
        proving = Proving(self.asker, self.told)
        self.warming = Warming(self.asker, proving, self.health, self.store)

    def props(self, _):
        said = {"media_marker": self.marker, "model_path": self.file, "build_info": self.build}
        return as_json({self.page: {}, "total_slots": 1} | said)

    def slots(self, _):
        slot = {"id": 0, "n_ctx": 99_999, "is_processing": self.busy}
        return as_json([slot | {"n_prompt_tokens": len(self.has)}])

    def evaluated(self, asked, tokens):
        if self.fails is not None:
            raise self.fails
        known = max(shared(one, tokens) for one in (self.has, *(self.ram or ())))
        if self.ram is not None:
            self.ram.append(self.has)
        known = min(known, len(tokens) - 1)
        self.has = tokens
        self.read.append((asked.path, len(tokens), len(tokens) - known))
        if len(self.read) == self.hangs_at:
            return Deferred()
        self.reactor.rightNow += self.each + self.seconds * (len(tokens) - known)
        usage = {"prompt_tokens": len(tokens), "prompt_tokens_details": {"cached_tokens": known}}
        return as_json({"timings": {"prompt_n": len(tokens) - known}, "usage": usage})

    def turned(self, name, at, size=WORDS, **fields):
        """A turn of the conversation ``name`` that has ended ``at`` so many seconds."""
        said = {"role": "user", "content": said_by(name, size)}
        body = {"model": "tiny", "messages": [said], "stream": True, "max_tokens": 99} | fields
        headers = ((b"Authorization", b"Bearer " + name.encode()),)
        request = Request("POST", "/v1/chat/completions", headers, json.dumps(body).encode())
        session, prompt = Session("agent", name), prompt_of(request)
        place = self.store.begin(self.store.find(session, request), request)
        start = self.told.profile.start
        turn = Before(prompt, prompt, size, request, URL, 1, ended=at, start=start)
        self.store.end(session, place, turn)

    def look(self):
        """The poller looks, and all who want to know are told."""
        found = []
        Deferred.fromCoroutine(self.asker.look()).addCallback(found.append)
        (look,) = found
        self.told.profile = self.told.profile.__class__(
            page="/apply-template", memory=self.told.profile.memory, start=look.start
        )
        self.warming.looked(look)

    def begun(self, *names):
        """Look at it, and have conversations go on there, each a minute after the other."""
        self.look()
        for minute, name in enumerate(names, 1):
            self.turned(name, 60.0 * minute)
        self.reactor.advance(60.0 * len(names))
        return self

    def restarted(self):
        """It is another process, and the poller has looked."""
        self.marker, self.has, self.read = self.marker + "x", [], []
        self.ram = None if self.ram is None else []
        self.look()

    def after(self, seconds):
        """What was evaluated for nobody when so many seconds have passed."""
        for _ in range(int(seconds / 0.5)):
            self.reactor.advance(0.5)
            self.reactor.turn_until(self.is_still)
        return sum(evaluated for *_, evaluated in self.read)

    def is_still(self):
        """Whether nothing is done, or it hangs with that."""
        return self.warming._working is None or len(self.read) == self.hangs_at


def as_json(value):
    return 200, json.dumps(value).encode()


def words_of(asked):
    return " ".join(message["content"] for message in asked.json["messages"])


def said_by(name, size=WORDS):
    return " ".join(f"{name}{number}" for number in range(size))


def numbers(text):
    return [crc32(word.encode()) for word in text.split()]


def shared(one, other):
    """How many tokens two prompts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))


def test_its_last_prompt_is_read_once_more(reactor, said):
    """In pieces, and the last of it by the request itself, as its client sent it."""
    llama = Llama(reactor).begun("ann")
    llama.restarted()
    assert llama.after(1.5) == 0
    assert llama.after(0.5) == WORDS + TRIED
    *pieces, (path, size, rest) = llama.read
    assert {path for path, *_ in pieces} == {"/completion"}
    assert (path, size, rest) == ("/v1/chat/completions", WORDS, 128)
    last = llama.asker.asked[-1]
    assert {name: value for name, value in last.json.items() if name != "messages"} == {
        "model": "tiny",
        "stream": False,
        "max_tokens": 0,
    }
    asked = [one for one in llama.asker.asked if one.method == "POST"]
    assert {one.header("authorization") for one in asked} == {"Bearer ann"}
    assert said == [f"warmed 1 conversation, 3,192 tokens in 0 s: {URL} was restarted"]
    assert llama.warming.tokens == WORDS + TRIED
    (lane,) = llama.store.mains()
    assert lane.before.start == llama.told.profile.start
    assert llama.after(60) == WORDS + TRIED
    assert not llama.warming.is_on


@pytest.mark.parametrize(
    ("speed", "each", "least", "most"),
    [
        (10_000, 0.0, 200, 300),  # what is read in 0.03 s
        (1_000_000, 0.0, 1000, 2048),
        (100, 0.0, 128, 160),  # not much longer than what takes longest with the fewest
        (1000, 1.0, 300, 600),  # fewer would be no quicker
    ],
)
def test_a_piece_takes_no_longer_than_it_must(reactor, speed, each, least, most):
    llama = Llama(reactor, seconds=1 / speed, each=each).begun("ann")
    llama.restarted()
    llama.after(2)
    pieces = [
        evaluated for *_, evaluated in llama.read[3:]
    ]  # the first show if there is a RAM cache
    assert least <= max(pieces) <= most


def other_model(llama):
    llama.model = "large"


def other_file(llama):
    llama.file = "/m/b.gguf"


def other_measures(llama):
    llama.size = 2


def other_build(llama):
    llama.build = "b2-abc"


def other_kind(llama):
    llama.page = "something"


def long_ago(llama):
    llama.reactor.advance(1000)


def works_for_others(llama):
    llama.busy = True


def has_a_request(llama):
    llama.health.waiting = 1


@pytest.mark.parametrize(
    "what",
    [
        other_model,
        other_file,
        other_measures,
        other_build,
        other_kind,
        long_ago,
        works_for_others,
        has_a_request,
    ],
)
def test_it_is_left_alone(reactor, what):
    llama = Llama(reactor).begun("ann")
    what(llama)
    llama.restarted()
    assert llama.after(10) == 0
    llama.warming.stop()


@pytest.mark.parametrize(
    ("goes_on_after", "warmed"),
    [
        (None, [["ann", "bob"], ["ann", "bob"], [], []]),
        (0, [["ann", "bob"], ["ann", "bob"], ["bob"], []]),
        (1, [["ann", "bob"], ["ann", "bob"], ["bob"], ["bob"]]),
    ],
)
def test_one_that_nobody_went_on_with_is_given_up_after_two_restarts(
    reactor, goes_on_after, warmed
):
    """One that is gone on with begins anew."""
    llama, found = Llama(reactor, ram=True).begun("ann", "bob"), []
    for restart in range(4):
        llama.asker.asked.clear()
        llama.restarted()
        llama.after(10)
        asked = [one.header("authorization") for one in llama.asker.asked if one.method == "POST"]
        found.append(sorted({one.removeprefix("Bearer ") for one in asked}))
        if restart == goes_on_after:
            llama.turned("bob", reactor.seconds())
    assert found == warmed
    assert not llama.warming.is_on


def test_a_start_that_is_not_told_is_no_restart(reactor):
    llama = Llama(reactor).begun("ann")
    llama.marker, llama.has = "", []
    llama.look()
    assert llama.after(10) == 0
    assert not llama.warming.is_on


@pytest.mark.parametrize(
    ("turn", "fields"),
    [("too short to matter", {"size": 1000}), ("without a cache", {"cache_prompt": False})],
)
def test_a_prompt_that_is_not_sent_again(reactor, turn, fields):
    llama = Llama(reactor).begun()
    llama.turned("ann", 0.0, **fields)
    llama.restarted()
    assert llama.after(10) == 0, turn
    llama.warming.stop()


def test_the_latest_alone_where_one_more_would_take_its_slot(reactor):
    llama = Llama(reactor).begun("ann", "bob")
    llama.restarted()
    assert llama.after(10) == WORDS + TRIED
    assert llama.has == numbers(said_by("bob"))
    assert not llama.warming.is_on


def test_where_what_leaves_a_slot_is_kept_the_latest_comes_first(reactor, said):
    """As many as there is room for."""
    llama = Llama(reactor, ram=True, context=7000).begun("ann", "bob", "cyd")
    llama.restarted()
    assert llama.after(10) == 2 * WORDS + TRIED / 2
    whole = [path for path, *_ in llama.read].index("/v1/chat/completions")
    order = [one.header("authorization") for one in llama.asker.asked if one.method == "POST"]
    assert list(dict.fromkeys(order)) == ["Bearer cyd", "Bearer bob"]
    assert whole < len(llama.read) - 1
    assert said == [f"warmed 2 conversations, 6,096 tokens in 0 s: {URL} was restarted"]


def test_a_request_comes_first(reactor):
    """What is under way is cut off at once; what is left is done when it is idle again."""
    llama = Llama(reactor).begun("ann")
    llama.restarted()
    llama.hangs_at = 1
    before = llama.after(2)
    assert llama.warming.is_on
    llama.health.waiting = 1
    llama.warming.give_way()
    llama.hangs_at = None
    llama.has = numbers(said_by("bob"))
    assert llama.after(10) == before
    llama.health.waiting = 0
    assert llama.after(1.5) == before
    llama.after(0.5)
    assert llama.read[-1] == ("/v1/chat/completions", WORDS, 128)
    assert not llama.warming.is_on


@pytest.mark.parametrize("keeps", [True, False])
def test_it_goes_on_where_it_gave_way_if_the_server_still_has_that(reactor, keeps):
    """A shorter piece would have it forget what it has read."""
    llama = Llama(reactor, seconds=1 / 100).begun("ann")
    llama.restarted()
    llama.hangs_at = 10
    llama.after(2)
    llama.warming.give_way()
    llama.hangs_at = None
    reached = len(llama.has)
    if not keeps:
        llama.has = []
    assert llama.after(2) > 0
    _, size, evaluated = llama.read[10]
    assert size == (reached if keeps else 0) + 128
    assert evaluated <= 128
    assert llama.read[-1] == ("/v1/chat/completions", WORDS, 128)


def test_one_that_ends_by_it_is_not_asked_again(reactor, said):
    llama = Llama(reactor).begun("ann")
    llama.restarted()
    llama.fails = Refused()
    llama.after(2)
    llama.fails = None
    assert llama.after(10) == 0
    assert not llama.warming.is_on
    assert said == ["the server was not warmed again: ConnectionRefusedError"]


def test_a_turn_that_came_before_the_first_look(reactor):
    """Nobody has asked yet which server it is."""
    llama = Llama(reactor).begun()
    known, llama.told.profile = llama.told.profile, llama.told.profile.__class__()
    llama.turned("ann", 0.0)
    llama.told.profile = known
    reactor.advance(1)
    llama.restarted()
    llama.after(2)
    assert llama.read[-1] == ("/v1/chat/completions", WORDS, 128)


def test_one_that_is_refused_is_left_out(reactor):
    """It is not known to be there, and not sent again and again; the next one is."""
    llama = Llama(reactor, ram=True).begun("ann", "bob")
    (before, _) = (lane.before.start for lane in llama.store.mains())
    evaluated = llama.asker.pages["/v1/chat/completions"]

    def refusing(asked):
        return (400, b"{}") if asked.header("authorization") == "Bearer bob" else evaluated(asked)

    llama.asker.pages["/v1/chat/completions"] = refusing
    llama.restarted()
    llama.after(20)
    starts = {lane.before.start for lane in llama.store.mains()}
    assert starts == {before, llama.told.profile.start}
    assert not llama.warming.is_on


def test_a_prompt_that_is_rendered_otherwise_is_sent_as_a_whole(reactor):
    llama = Llama(reactor).begun("ann")
    llama.asker.pages["/tokenize"] = as_json({"tokens": [1, 2, 3]})
    llama.restarted()
    assert llama.after(2) == WORDS
    assert llama.read == [("/v1/chat/completions", WORDS, WORDS)]


def asked(path, body):
    return unanswered(Request("POST", path, (), json.dumps(body).encode())).json


def test_nothing_is_generated():
    transcript.holds("unanswered.txt", globals())
