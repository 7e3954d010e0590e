"""Conversations, and an upstream that is asked about them: the other side of ``Known``."""

from dataclasses import replace

from twisted.internet.defer import Deferred

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import PromptOrder
from tests.observe.exchanges import body, exchange
from tests.proxy.proving.turned import Told

HERE = "http://localhost:8080"
TELLS = Profile(order=PromptOrder.SYSTEM_FIRST, page="/apply-template", start="first")
COUNTS = replace(TELLS, counts_reuse=True)


class Server:
    """What is known of an upstream; what is asked of it waits for the test to answer.

    ``began``: what ``started`` answers, at once.
    """

    def __init__(self, profile=TELLS, url=HERE, began="first"):
        self.url = url
        self.beliefs = Told()
        self.beliefs.profile = profile
        self.looks = []
        self.began = began
        self.asked = []

    def known_to(self, asking):
        asking.known = {self.url: self}
        return self

    async def prove(self, turn):
        return await self._question("prove", turn)

    @property
    def profile(self):
        return self.beliefs.profile

    async def look(self):
        return self.looks.pop(0) if self.looks else None

    async def counted(self, usage):
        return await self._question("counted", usage)

    async def started(self):
        self.asked.append(("started",))
        return self.began

    def _question(self, *what):
        waiting = Deferred()
        self.asked.append((*what, waiting))
        return waiting

    @property
    def questions(self):
        """The kinds of what was asked so far."""
        return [name for name, *_ in self.asked]

    @property
    def last(self):
        """The question that was asked last, which waits for its answer."""
        return self.asked[-1][-1]


def conversation(usages, session="s", **changes):
    """Turns that only add, a minute apart."""
    return [
        exchange(
            body(*"abcdefghi"[: 2 * number + 1], system=f"{session}: " + "Be brief. " * 300),
            session=session,
            usage=usage,
            **{"wall": 1_700_000_000.0 + 60 * number, **changes},
        )
        for number, usage in enumerate(usages)
    ]


LOSES = Usage(1000, 0), Usage(1020, 1000), Usage(1040, 0), Usage(1060, 1040)


def order(delivered):
    return [(done.session.id, done.turn) for done in delivered]
