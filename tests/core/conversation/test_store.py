"""One store: which request is the turn before, for the rules and for the verdict alike."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation import store as module
from cacheproxy.core.conversation.conversation import Thought
from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import run
from cacheproxy.core.rules.rule import Rule
from cacheproxy.observe.verdicts import Verdicts
from tests.core.planting import prose, tool
from tests.observe.exchanges import body, exchange

PIN = Rule("pin", "system", r"date=(?P<volatile>\d+)", pin=True)
ONE = Session("agent", "one")


class Proxy:
    """What a proxy does to a request on its way up, with a pin rule, and what it remembers."""

    def __init__(self):
        self.store = Store()

    def __call__(self, asked: Request, *, answered=True) -> tuple[str, Session]:
        """Return the system text as it is sent, and the session."""
        prepared = run(prepare(asked, Plan((PIN,)), self.store))
        place = self.store.begin(prepared.turn, prepared.request)
        if answered:
            self.store.end(prepared.session, place, None)
        return prepared.request.json["system"], prepared.session


def turn(said, date, tools=("Read", "Edit"), headers=((b"x-session-id", b"s"),), system="main "):
    """A request of a conversation: what user and model said by turns, and the day."""
    made = {
        "model": "m",
        "system": f"date={date} " + system * 40,
        "tools": [tool(name) for name in tools],
        "messages": [
            {"role": ("user", "assistant")[number % 2], "content": text}
            for number, text in enumerate(said)
        ],
    }
    return Request("POST", "/v1/messages", headers, json.dumps(made).encode())


class TestBroken:
    """Of the last turn that broke, both requests are kept, as the rules left them."""

    def broke(self, store, *said, date):
        found = store.find(ONE, turn(said, date))
        place = store.begin(found, turn(said, date))
        return store.end(ONE, place, None, broke=len(said) > 1)

    def test_until_the_next_one(self):
        store = Store()
        for said in (["a"], ["a", "b", "c"], ["a", "b", "c", "d", "e"]):
            self.broke(store, *said, date=len(said))
            (lane,) = store.conversation(ONE).lanes
            if lane.broken is None:
                continue
            bodies = [one.json["system"][:6] for one in lane.broken[:2]]
            assert bodies == [f"date={len(said) - 2}", f"date={len(said)}"]
            assert lane.broken.turn == lane.turns

    @pytest.mark.parametrize(("curable", "kept"), [(True, 3), (False, 2)])
    def test_one_that_a_rule_may_cure_goes_before_others(self, curable, kept):
        """Whatever else the server loses after it."""
        store = Store()
        for number in (1, 2, 3):
            said = ["a", "b", "c", "d", "e"][: 2 * number - 1]
            place = store.begin(store.find(ONE, turn(said, number)), turn(said, number))
            store.end(ONE, place, None, broke=True, curable=curable or number == 2)
        assert store.conversation(ONE).lanes[0].broken.turn == kept

    def test_they_count(self):
        kept, other = Store(), Store()
        for store, breaks in ((kept, True), (other, False)):
            for said in (["a"], ["a", "b", "c"]):
                found = store.find(ONE, turn(said, 1))
                place = store.begin(found, turn(said, 1))
                store.end(ONE, place, None, broke=breaks)
        assert kept.bytes_kept > other.bytes_kept

    def test_what_was_sent_last_is_given_for_trial_within_bounds(self):
        store = Store()
        for name in ("one", "two"):
            found = store.find(Session("agent", name), turn(["a"], 1))
            store.begin(found, turn(["a"], 1))
        size = len(turn(["a"], 1).body)
        assert [len(store.requests(most)) for most in (0, size, 2 * size)] == [0, 1, 2]


def test_a_subagent_with_tools_of_its_own_does_not_take_over_the_pin():
    """Under the same session id; the verdict compares with the same turn."""
    proxy = Proxy()
    main = ["first words", "answer", "more words"]
    assert proxy(turn(main[:1], 1))[0].startswith("date=1")
    assert proxy(turn(["task"], 2, tools=("Grep", "Glob"), system="sub "))[0].startswith("date=2")
    assert proxy(turn(main, 3))[0].startswith("date=1")
    known = proxy.store.conversation(Session("client", "s"))
    assert [(lane.number, lane.turns) for lane in known.lanes] == [(0, 2), (1, 1)]


def test_two_conversations_that_begin_alike_share_no_pin():
    """Their client names no session: the answers tell them apart."""
    proxy = Proxy()

    def pinned(said, date):
        return proxy(turn(said, date, headers=()))

    first = pinned(["fix it"], 1)
    assert pinned(["fix it", "reading a", "go on"], 2) == first
    again, session = pinned(["fix it"], 3)
    assert again.startswith("date=3")
    assert session.id == f"{first[1].id}-2"
    assert pinned(["fix it", "reading b", "go on"], 4) == (again, session)
    assert pinned(["fix it", "reading a", "go on", "done", "thanks"], 5) == first
    assert pinned(["fix it", "reading c", "stop"], 6)[1].id == f"{first[1].id}-3"


def test_of_two_that_cannot_be_told_apart_neither_has_a_pin():
    """Each may be the one that goes on; from then on its answers tell it."""
    proxy = Proxy()

    def pinned(said, date):
        return proxy(turn(said, date, headers=()))

    assert [pinned(["fix it"], date)[0][:6] for date in (1, 2)] == ["date=1", "date=2"]
    third, session = pinned(["fix it", "reading a", "go on"], 3)
    assert third.startswith("date=3")
    assert pinned(["fix it", "reading a", "go on", "done", "thanks"], 5) == (third, session)
    assert pinned(["fix it", "reading b", "go on"], 4)[0].startswith("date=4")


@pytest.mark.parametrize(("others", "kept"), [(0, "date=1"), (1, "date=4")])
def test_without_a_name_a_turn_may_be_repeated(others, kept):
    """Until it has its answer; then it is asked for anew, or it is another's that is equal so far.

    Another there may be only where another has begun alike.
    """
    proxy = Proxy()
    said = ["fix it", "a", "go on"]
    sent = []
    for date, texts, answered in (
        (1, said[:1], True),
        (2, said, False),
        (2, said, True),
        *[(3, said[:1], True)] * others,
        (4, said, True),
        (4, [*said, "b", "thanks"], True),
    ):
        sent.append(proxy(turn(texts, date, headers=()), answered=answered)[0][:6])
    assert sent == [*["date=1"] * 3, *["date=3"] * others, kept, kept]


def test_of_two_alike_the_one_that_would_put_nothing_back_may_be_gone_on_with():
    """So a first turn that was sent twice loses nothing; nor do they, if all would put the same."""
    for dates, begins in (((1, 2, 2), "date=2"), ((1, 1, 2), "date=1")):
        proxy = Proxy()
        for date, said in zip(
            dates, (["fix it"], ["fix it"], ["fix it", "a", "go on"]), strict=True
        ):
            text, session = proxy(turn(said, date, headers=()))
        assert text.startswith(begins)
        assert session.id.endswith("-2")


def test_the_same_id_with_other_credentials_is_another_conversation():
    proxy = Proxy()
    sent = []
    for date, key in ((1, b"a"), (2, b"b"), (3, b"a"), (4, b"c")):
        headers = ((b"X-Session-ID", b"s"), (b"Authorization", key))
        sent.append(proxy(turn(["fix it", "a", "go on"], date, headers=headers))[0][:6])
    assert sent == ["date=1", "date=2", "date=1", "date=4"]


def test_without_a_name_another_system_text_is_another_conversation():
    """However far behind its beginning it differs; the pinned field may."""
    proxy = Proxy()
    system = "main " * 900
    for date, folder, said, begins in (
        (1, "alpha", ["hi"], 1),
        (2, "beta", ["hi"], 2),
        (3, "alpha", ["hi", "Hello", "go"], 1),
        (4, "beta", ["hi", "Hello", "go"], 2),
        (5, "gamma", ["hi", "Hello", "go"], 5),
    ):
        asked = turn(said, date, headers=(), system=system)
        body = asked.body.replace(system.encode() * 2, f"{system}in {folder}".encode(), 1)
        assert proxy(asked.with_body(body))[0].startswith(f"date={begins}")


def test_a_pin_survives_a_compaction_in_a_named_session():
    """Its history is another one, its system text the same."""
    proxy = Proxy()
    said = ["fix it", "reading a", "go on", "done", "thanks"]
    for date, length in ((1, 1), (2, 3), (3, 5)):
        proxy(turn(said[:length], date))
    assert proxy(turn(["the summary"], 4))[0].startswith("date=1")
    assert proxy(turn(["the summary"], 5, system="another text "))[0].startswith("date=5")


USERS = Rule("users", "user", r"date=(?P<volatile>\d+)", pin=True)


@pytest.mark.parametrize("headers", [((b"x-session-id", b"s"),), ()])
def test_a_pin_in_a_message_comes_from_that_message_alone(headers):
    """A branch has those before it in common; what stood at its place was another's."""
    store = Store()

    def sent(said, date):
        texts = [f"{text} date={date}" if at % 2 == 0 else text for at, text in enumerate(said)]
        asked = turn(texts, 0, headers=headers)
        prepared = run(prepare(asked, Plan((USERS,)), store))
        store.end(prepared.session, store.begin(prepared.turn, prepared.request), None)
        return [one["content"][-1] for one in prepared.request.json["messages"][::2]]

    assert sent(["a"], 1) == ["1"]
    assert sent(["a", "b", "c"], 2) == ["1", "2"]
    assert sent(["a", "b", "c", "d", "e"], 3) == ["1", "2", "3"]
    assert sent(["a", "b", "c", "d", "other"], 4) == ["1", "2", "4"]


@pytest.mark.parametrize("kept", [1, 3])
def test_a_named_conversation_may_be_taken_back(kept):
    """Its client says that it is the same."""
    proxy = Proxy()
    said = ["fix it", "reading a", "go on", "done", "thanks"]
    for date, length in enumerate((1, 3, 5), 1):
        proxy(turn(said[:length], date))
    assert proxy(turn([*said[:kept], *(["other"] * (kept > 1))], 9))[0].startswith("date=1")


def test_a_turn_that_failed_is_not_counted_but_is_what_a_pin_sees():
    """It went upstream, with what was pinned."""
    proxy = Proxy()
    proxy(turn(["a"], 1), answered=False)
    assert proxy(turn(["a"], 2))[0].startswith("date=1")
    known = proxy.store.conversation(Session("client", "s"))
    assert [lane.turns for lane in known.lanes] == [1]


def test_nobody_waits_while_a_turn_is_compared(monkeypatch):
    """It may take its time, in a thread; the reactor begins others meanwhile."""
    store, asked = Store(), turn(["words"], 1)
    place = store.begin(store.find(ONE, asked), asked)

    def compare(*_):
        other = Thread(target=store.begin, args=(store.find(ONE, asked), asked), daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive()
        return ()

    monkeypatch.setattr(Lane, "branches_with", compare)
    store.end(ONE, place, None)


def test_looking_for_a_conversation_changes_nothing():
    """What is never sent is never remembered."""
    store = Store()
    store.find(ONE, turn(["words"], 1))
    assert (store.conversation(ONE), store.bytes_kept) == (None, 0)


def test_a_subagents_root_is_known():
    """That of the agent that began it all, however deep it is."""
    store = Store()
    for name, parent in ((b"a", None), (b"b", b"a"), (b"c", b"b")):
        headers = ((b"x-session-id", name),)
        headers += () if parent is None else ((b"x-parent-session-id", parent),)
        asked = turn(["words"], 1, headers=headers)
        store.begin(store.find(session_of(asked), asked), asked)
    roots = [store.conversation(Session("client", name)).root for name in "abc"]
    assert roots == [None, Session("client", "a"), Session("client", "a")]


def test_the_spelling_of_a_call_goes_with_its_conversation():
    """Others find it, too: a conversation may be resumed under another name."""
    store = Store(most_bytes=1)
    asked = turn(["words"], 1)
    store.begin(store.find(ONE, asked), asked)
    store.spellings(ONE).keep("call", '{"a":  1}')
    assert store.spellings().find("call", '{"a":1}', {"a": 1}) == '{"a":  1}'
    two = Session("agent", "two")
    store.begin(store.find(two, asked), asked)
    assert store.conversation(ONE) is None
    store.spellings(ONE).keep("late", "{ }")
    for call in ("call", "late"):
        assert store.spellings(two).find(call, "{}", {"a": 1}) == "{}"


def test_memory_is_bounded_and_the_least_recently_used_goes():
    """What Python holds is what ``bytes_kept`` says, within a half."""
    most = 8 << 20
    store = Store(most)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(400):
        asked = turn([f"{number} " * 50_000], number, headers=())
        session = Session("agent", str(number))
        store.end(session, store.begin(store.find(session, asked), asked), None)
        assert store.bytes_kept <= most
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert store.bytes_kept > most / 2
    assert held < 1.5 * most
    assert store.conversation(Session("agent", "0")) is None
    assert store.conversation(Session("agent", "399")) is not None


def test_long_heads_are_counted_like_long_bodies():
    """A head may have 64 KiB, and each session its own."""
    most = 2 << 20
    store = Store(most)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100):
        headers = tuple((b"x-%d" % at, b"%d" % number * 10_000) for at in range(6))
        asked = turn(["words"], 1, headers=headers)
        session = Session("agent", f"{number} " * 1000)
        store.end(session, store.begin(store.find(session, asked), asked), None)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held < 1.5 * most


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.lists(st.sampled_from(["a", "b", "c " * 2000]), max_size=5),
            st.sampled_from([(), ("Read",), ("Read", "Edit", "Write")]),
            st.integers(0, 3),
            st.booleans(),
            st.sampled_from([2_000, 40_000, 1_000_000]),
        ),
        max_size=40,
    )
)
def test_whatever_comes_it_keeps_no_more_than_it_may(turns):
    """And what it says that it keeps is the sum of all that it keeps; its bound may change."""
    store = Store()
    for number, said, tools, date, broke, most in turns:
        store.most_bytes, session = most, Session("agent", str(number))
        asked = turn(said, date, tools, headers=((b"x-date", b"1" * 1000 * date),))
        place = store.begin(store.find(session, asked), asked)
        store.think(session, date, Thought("", said[0] if said else "none"))
        sent = prompt_of(asked)
        before = Before(sent, sent, request=replace(asked))
        store.end(session, place, before, broke=broke, curable=broke)
        known = [store.conversation(Session("agent", str(number))) for number in range(6)]
        known = [one for one in known if one is not None]
        assert store.bytes_kept == sum(one.cost for one in known)
        assert not any(one.count(lane) for one in known for lane in one.lanes)
        assert store.bytes_kept <= most or len(known) == 1


def test_one_that_is_too_large_alone_stays_until_the_next():
    """Its client is at work on it."""
    store = Store(most_bytes=10_000)
    for session in (ONE, Session("agent", "two")):
        asked = turn(["word " * 50_000], 1)
        store.begin(store.find(session, asked), asked)
        assert store.conversation(session) is not None
    assert store.conversation(ONE) is None


def test_a_client_that_never_repeats_itself_begins_anew_only_when_it_must(monkeypatch):
    """After so many lanes all are forgotten, once; then turns are turns again.

    No number is given twice: turns under way, and captures, still say those of lanes forgotten.
    """
    monkeypatch.setattr(module, "_MOST_LANES", 4)
    proxy = Proxy()
    for number in range(4):
        proxy(turn([f"{number}"], number, tools=(f"tool{number}",), system=prose(f"{number}")))
    for said in (["a"], ["a", "b", "c"]):
        proxy(turn(said, 9, system=prose("another")))
    known = proxy.store.conversation(Session("client", "s"))
    assert [(lane.number, lane.turns) for lane in known.lanes] == [(4, 2)]


def test_an_emoji_makes_a_text_four_times_as_large():
    """In Python's memory."""
    kept = []
    for text in ("a" * 100_000, "😀" + "a" * 99_999):
        store = Store()
        asked = turn([text], 1)
        store.begin(store.find(ONE, asked), asked)
        kept.append(store.bytes_kept - len(asked.body))
    assert kept[1] - kept[0] > 290_000
    assert kept[0] > 100_000


def test_the_verdict_compares_with_the_turn_that_the_store_says():
    """Where a request was put on its way up is where it is judged."""
    store = Store()
    one, other = (exchange(body(*texts)).sent for texts in (("a",), ("a", "b", "c")))
    verdicts = Verdicts(store)
    places = []
    for sent in (one, other):
        place = store.begin(store.find(ONE, sent), sent)
        done = exchange({}, session="one")
        made = replace(done, sent=sent, received=sent, place=place)
        evidence = verdicts.judge(made)
        places.append((place, made.place, evidence.before is not None))
    assert [(place.turn, judged.turn, known) for place, judged, known in places] == [
        (1, 1, False),
        (2, 2, True),
    ]
