"""Whose values may be put back: equality of history, answers included."""

from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.dialects.answer import said
from cacheproxy.testing import request
from tests import transcript
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


def test_all_that_is_said():
    transcript.holds("history.txt", globals())
