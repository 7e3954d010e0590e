"""One store: which request is the turn before, for the rules and for the verdict alike."""

import tracemalloc
from dataclasses import replace
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation import store as module
from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.lanes import Before, Lane
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.thoughts import Thought
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.rules.rule import Rule
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.testing import request
from tests import transcript
from tests.core.conversation.proxied import NAMED, Proxy, by_turns
from tests.core.planting import prose, tool
from tests.observe.exchanges import body, exchange

PIN = Rule("pin", "system", r"date=(?P<volatile>\d+)", pin=True)
ONE = Session("agent", "one")


def begun(store, asked, session=ONE):
    """Where a request is put that is sent upstream."""
    return store.begin(store.find(session, asked), asked)


def turn(said, date, tools=("Read", "Edit"), headers=NAMED, system="main " * 40):
    """A request of a conversation: what user and model said by turns, and the day."""
    made = {"model": "m", "system": f"date={date} {system}", "messages": by_turns(said)}
    return request(made | {"tools": [tool(name) for name in tools]}, headers=headers)


def date_of(prepared):
    """The day that a request is sent with."""
    return prepared.request.json["system"][5]


def test_of_the_last_turn_that_broke_both_requests_are_kept_as_the_rules_left_them():
    store, kept = Store(), []
    for said in (["a"], ["a", "b", "c"], ["a", "b", "c", "d", "e"]):
        place = begun(store, turn(said, len(said)))
        store.end(ONE, place, None, broke=len(said) > 1)
        (lane,) = store.conversation(ONE).lanes
        if lane.broken is not None:
            dates = [one.json["system"][:6] for one in lane.broken[:2]]
            kept.append((*dates, lane.broken.turn == lane.turns))
    assert kept == [("date=1", "date=3", True), ("date=3", "date=5", True)]


def test_what_was_sent_last_is_given_for_trial_within_bounds():
    store, asked = Store(), turn(["a"], 1)
    for name in ("one", "two"):
        begun(store, asked, Session("agent", name))
    size = len(asked.body)
    assert [len(store.requests(most)) for most in (0, size, 2 * size)] == [0, 1, 2]


def test_a_subagent_with_tools_of_its_own_does_not_take_over_the_pin():
    """Under the same session id; the verdict compares with the same turn."""
    proxy = Proxy(PIN)
    main = ["first words", "answer", "more words"]
    task = turn(["task"], 2, tools=("Grep", "Glob"), system="sub " * 40)
    asked = turn(main[:1], 1), task, turn(main, 3)
    assert "".join(date_of(proxy(one)) for one in asked) == "121"
    known = proxy.store.conversation(Session("client", "s"))
    assert [(lane.number, lane.turns) for lane in known.lanes] == [(0, 2), (1, 1)]


def test_the_same_id_with_other_credentials_is_another_conversation():
    proxy, sent = Proxy(PIN), ""
    for date, key in enumerate("abac", 1):
        asked = turn(["fix it", "a", "go on"], date, headers=NAMED | {"Authorization": key})
        sent += date_of(proxy(asked))
    assert sent == "1214"


def test_a_turn_that_failed_is_not_counted():
    proxy = Proxy(PIN)
    for answered in (False, True):
        proxy(turn(["a"], 1), answered=answered)
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


def test_a_subagents_root_is_known():
    """That of the agent that began it all, however deep it is."""
    store = Store()
    for name, parent in (("a", ""), ("b", "a"), ("c", "b")):
        headers = {"x-session-id": name, "x-parent-session-id": parent}
        asked = turn(["words"], 1, headers=headers)
        begun(store, asked, session_of(asked))
    roots = [store.conversation(Session("client", name)).root for name in "abc"]
    assert roots == [None, Session("client", "a"), Session("client", "a")]


@pytest.mark.parametrize("head", [0, 10_000])
def test_memory_is_bounded_and_the_least_recently_used_goes(head):
    """What Python holds is what ``bytes_stored`` says, within a half; so it is of long heads."""
    most = 1 << 19
    store = Store(most)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(30):
        headers = {f"x-{at}": f"{number}" * head for at in range(6)}
        asked = turn([f"{number} " * (600 if head else 12_000)], number, headers=headers)
        session = Session("agent", f"{number} " * (1 + head // 10))
        store.end(session, begun(store, asked, session), None)
        assert store.bytes_stored <= most
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert store.bytes_stored > most / 2
    assert held < 1.5 * most
    for number, is_kept in ((0, False), (29, True)):
        known = store.conversation(Session("agent", f"{number} " * (1 + head // 10)))
        assert (known is not None) == is_kept


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
        asked = turn(said, date, tools, headers={"x-date": "1" * 1000 * date})
        place = begun(store, asked, session)
        heard = Heard(date, Thought("", said[0] if said else "none"), is_whole=True)
        store.heard(session, place.history, date, None, heard)
        sent = prompt_of(asked)
        before = Before(sent, sent, request=replace(asked))
        store.end(session, place, before, broke=broke, curable=broke)
        known = [store.conversation(Session("agent", str(number))) for number in range(6)]
        known = [one for one in known if one is not None]
        assert store.bytes_stored == sum(one.cost for one in known)
        assert not any(one.count(lane) for one in known for lane in one.lanes)
        assert store.bytes_stored <= most or len(known) == 1


def test_one_that_is_too_large_alone_stays_until_the_next():
    """Its client is at work on it."""
    store = Store(most_bytes=10_000)
    for session in (ONE, Session("agent", "two")):
        begun(store, turn(["word " * 50_000], 1), session)
        assert store.conversation(session) is not None
    assert store.conversation(ONE) is None


def test_a_client_that_never_repeats_itself_begins_anew_only_when_it_must(monkeypatch):
    """After so many lanes all are forgotten, once; then turns are turns again.

    No number is given twice: turns under way, and captures, still say those of lanes forgotten.
    """
    monkeypatch.setattr(module, "_MOST_LANES", 4)
    proxy = Proxy(PIN)
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
        begun(store, asked)
        kept.append(store.bytes_stored - len(asked.body))
    assert kept[1] - kept[0] > 290_000
    assert kept[0] > 100_000


def test_the_verdict_compares_with_the_turn_that_the_store_says():
    """Where a request was put on its way up is where it is judged."""
    store, places = Store(), []
    verdicts = Verdicts(store)
    for texts in (("a",), ("a", "b", "c")):
        sent = exchange(body(*texts)).sent
        place = begun(store, sent)
        made = replace(exchange({}, session="one"), sent=sent, received=sent, place=place)
        evidence = verdicts.judge(made)
        places.append((place, made.place, evidence.before is not None))
    assert [(place.turn, judged.turn, known) for place, judged, known in places] == [
        (1, 1, False),
        (2, 2, True),
    ]


def test_all_that_is_said():
    transcript.holds("store.txt", globals())
