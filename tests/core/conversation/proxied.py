"""A proxy without sockets: what it does to a request on its way up, and what it remembers."""

from collections.abc import Iterable

from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.prepare import Prepared, prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import run

NAMED = {"x-session-id": "s"}


def by_turns(texts: Iterable[object]) -> list[dict[str, object]]:
    """What user and model said."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


class Proxy:
    """Calling it sends a request upstream. ``place``: where the store put the last one.

    ``hears``: an answer counts only if it was ``heard``; else whatever comes back does.
    """

    def __init__(self, *rules: Normalizer, plan: Plan | None = None, hears: bool = False) -> None:
        self.store, self.plan = Store(hears=hears), plan or Plan(rules)

    def prepared(self, asked: Request) -> Prepared:
        return run(prepare(self.plan.clients.introduce(asked), self.plan, self.store))

    def __call__(self, asked: Request, *, answered: bool = True) -> Prepared:
        prepared = self.prepared(asked)
        assert prepared.turn is not None
        self.session = prepared.turn.session
        self.place = self.store.begin(prepared.turn, prepared.request)
        if answered:
            self.store.end(prepared.turn.session, self.place, None)
        return prepared

    def heard(self, heard: Heard) -> None:
        """Take note of the answer to the last request."""
        self.store.heard(self.session, self.place.history, None, None, heard)
