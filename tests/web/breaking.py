"""Conversations that break in a real proxy, for tests of what can be done about it."""

import json
from itertools import count

from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, Upstream, eventually

from .asking import get, turn

WORDS = "you are careful and write good code. " * 100
DATED = f"Today's date: {{}}\n{WORDS}"


def date(day):
    return f"2026-11-{day}"


class Breaking:
    """A proxy with an empty config file, and conversations that break in it."""

    def __init__(self, folder, *, port=0):
        self._sessions = count(1)
        self.file = folder / "config.toml"
        self.file.write_text("")
        self.upstream = Upstream()
        self.proxy = Proxy(
            folder, "--config", str(self.file), "--upstream", self.upstream.url, port=port
        ).__enter__()

    def close(self):
        self.proxy.__exit__()
        self.upstream.close()
        assert "Traceback" not in self.proxy.output

    def begin_anew(self):
        """Empty its file, and have it read."""
        self.file.write_text("")
        self.read_again()

    def read_again(self):
        get(self.proxy, "/_cacheproxy/reload", method=b"POST", payload=b"")

    def say(self, session, *texts, system, reused=0):
        """One turn of a client that no package knows; return what was sent upstream."""
        said = body(*texts, system=system)
        fields = (b"X-Session-Id: %s" % session.encode(), b"User-Agent: somebody/1.0")
        turn(self.proxy, self.upstream, said, 2000 + len(texts), reused, *fields)
        return json.loads(self._relayed(session).body)

    def _relayed(self, session):
        """What came upstream for ``session``: the proxy asks for pages, too."""
        while True:
            received = self.upstream.received()
            if received.values(b"x-session-id") == [session.encode()]:
                return received

    def broke(self, was, now, text="{} " + WORDS):
        """Have a conversation break; return the number of the turn in which it did."""
        session = self.begun(text.format(was))
        self.say(session, "hello", "hi", "and?", system=text.format(now), reused=3)
        return self.turn(session, 2)["number"]

    def begun(self, system, *texts):
        """Begin a conversation; return its session."""
        session = f"s{next(self._sessions)}"
        self.say(session, *(texts or ("hello",)), system=system)
        return session

    def session(self, number):
        """The session of an exchange."""
        return self.last(lambda one: one["number"] == number)["session"]

    def turn(self, session, number):
        """The exchange that is this turn of a session."""
        return self.last(lambda one: one["session"] == session and one["turn"] == number)

    def last(self, wanted):
        """The exchange that is ``wanted``, once it has been seen."""

        def found():
            page = json.loads(get(self.proxy, "/_cacheproxy/exchanges").body)
            return [one for one in page["exchanges"] if wanted(one)]

        eventually(found)
        return found()[-1]
