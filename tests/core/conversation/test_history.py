"""Whose values may be put back: equality of history, answers included."""

import pytest

from cacheproxy.core.conversation.hearing import UNREADABLE, Heard
from cacheproxy.core.dialects.answer import said
from cacheproxy.testing import request
from tests.core.conversation.proxied import Proxy, by_turns
from tests.core.conversation.worlds import OWN

NAMED = {"x-session-id": "s"}


class World:
    """A proxy, to which people speak in ``turns``."""

    def __init__(self, headers=None):
        self.proxy, self.headers = Proxy(OWN, hears=True), headers

    def turn(self, branch, words, answer=None, system="An agent. "):
        """Say ``words``, by user and model in turn; return the branch and the notes that go up.

        ``answer``: what is answered then, None for nothing; UNREADABLE for what cannot be read.
        """
        asked = {"system": f"{system * 500}\nBranch: {branch}", "messages": by_turns(words.split())}
        prepared = self.proxy(request(asked, headers=self.headers), answered=answer is not None)
        if answer is not None:
            heard = answer
            if not isinstance(answer, Heard):
                heard = Heard(said(answer, ()), None, is_whole=True)
            self.proxy.heard(heard)
        body = prepared.request.json
        notes = "".join(
            "/" + part.partition("now ")[2].partition(".")[0]
            for message in body["messages"]
            for part in str(message["content"]).split("<system-reminder>")[1:]
        )
        return body["system"].rpartition(" ")[2] + notes


def test_an_answer_that_was_never_relayed_is_another_conversations():
    """The first turn of one is known here, and of another only a later one, which begins alike."""
    world = World()
    world.turn("main1", "hi", "Hello!")
    assert world.turn("fix2", "hi Evening! go") == "fix2"
    assert world.turn("fix2", "hi Evening! go Sure. more") == "fix2"
    assert world.turn("new3", "hi Hello! go") == "main1/new3"


def test_with_a_name_it_is_passed_over():
    world = World(NAMED)
    world.turn("main1", "hi", "Hello!")
    assert world.turn("fix2", "hi Evening! go") == "main1/fix2"


def test_of_twins_neither_gets_a_value_of_the_other():
    """They said the same, and were answered the same, until their answers part."""
    world = World()
    assert world.turn("a1", "hi", "Hello!") == "a1"
    assert world.turn("b1", "hi", "Hello!") == "b1"
    assert world.turn("a2", "hi Hello! go", "One.") == "a2"
    assert world.turn("b2", "hi Hello! go", "Two.") == "b2"
    assert world.turn("a3", "hi Hello! go One. on") == "a2/a3"
    assert world.turn("b3", "hi Hello! go Two. on") == "b2/b3"


def test_siblings_in_one_session_keep_their_own():
    """One forked off and says the same words as the other, with another value in its field."""
    world = World(NAMED)
    world.turn("m1", "one", "A")
    assert world.turn("m2", "one A hi", "Done.") == "m1/m2"
    assert world.turn("s2", "one A hi", "Done.") == "m1/s2"
    assert world.turn("m2", "one A hi Done. go", "So.") == "m1/m2"
    assert world.turn("s2", "one A hi Done. go", "So.") == "m1/s2"
    # Whose turn it is now, nobody can tell: both would put back another note.
    assert world.turn("x9", "one A hi Done. go So. on") == "x9"


def test_what_begins_otherwise_leaves_a_sibling_its_own():
    """Else what goes on with the first would pass for the other one's compaction."""
    world = World(NAMED)
    world.turn("m1", "one", "A")
    assert world.turn("s2", "two", "B") == "s2"
    assert world.turn("m1", "one A go") == "m1"


@pytest.mark.parametrize("answer", [UNREADABLE, Heard(said("Hel", ()), None, is_whole=False)])
def test_an_answer_that_could_not_be_read_may_have_been_any(answer):
    """So a twin's does not tell whose request the next one is."""
    world = World()
    world.turn("a1", "hi", "Hello!")
    world.turn("b1", "hi", answer)
    assert world.turn("c2", "hi Hello! go") == "c2"


def test_what_of_an_answer_was_relayed_before_it_was_cut_off_is_known():
    world = World()
    world.turn("a1", "hi", Heard(said("Hel", ()), None, is_whole=False))
    assert world.turn("a2", "hi Hel go") == "a1/a2"


def test_a_history_that_goes_on_from_itself_may_be_taken_back():
    """And what was reported behind its last answer is not so any more."""
    world = World()
    world.turn("a1", "hi", "Hello!")
    assert world.turn("a2", "hi Hello! go", "So.") == "a1/a2"
    assert world.turn("a2", "hi Hello! go So. on", "Yes.") == "a1/a2"
    assert world.turn("a3", "hi Hello! other") == "a1/a3"
    assert world.turn("a2", "hi Hello! go", "So.") == "a1/a2"


def test_all_that_begin_alike_are_forgotten_together(monkeypatch):
    """Else the one that is left would seem to be the only one that fits."""
    monkeypatch.setattr("cacheproxy.core.conversation.history._MOST_ALIKE", 3)
    world = World()
    for branch in ("a1", "b1", "c1", "d1"):
        world.turn(branch, "hi", "Hello!")
    assert world.turn("a2", "hi Hello! go") == "a2"
    assert world.turn("x2", "hi Other! go") == "x2"


def test_what_a_session_has_forgotten_is_nobodys_compaction(monkeypatch):
    monkeypatch.setattr("cacheproxy.core.conversation.history._MOST", 3)
    world = World(NAMED)
    for branch in ("a1", "b1", "c1", "d1"):
        world.turn(branch, branch, "Hello!")
    assert world.turn("a2", "a1 Hello! go", "So.") == "a2"
    assert world.turn("b2", "b1 Hello! go") == "b2"
    assert world.turn("a3", "a1 Hello! go So. on") == "a2/a3"


def test_other_system_text_is_another_history():
    world = World()
    world.turn("a1", "hi", "Hello!")
    assert world.turn("a2", "hi Hello! go", system="An agent! ") == "a2"
