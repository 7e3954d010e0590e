"""A real reactor that a test turns by hand, its time a clock's, and who asks a server there."""

import json
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.judge.evidence import Evidence
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.probing.asker import COUNTED_AGAIN, Asker
from cacheproxy.proxy.probing.proving import Proving
from cacheproxy.proxy.upstream.upstream import Upstream, UpstreamURL
from tests.proxy.harness import eventually


class HandTurned:
    """Sockets and threads are real; a time-out comes when the test says so."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.real = SelectReactor()
        self.real.startRunning(installSignalHandlers=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def callLater(self, *arguments: Any, **keywords: Any) -> Any:  # noqa: N802 - Twisted's
        return self.clock.callLater(*arguments, **keywords)

    def seconds(self) -> float:
        return self.clock.seconds()

    def until(self, condition: Any) -> None:
        """Turn until ``condition`` holds."""

        def holds() -> object:
            self.real.iterate(0.002)
            return condition()

        eventually(holds)

    def run(self, coroutine: Any) -> Any:
        """Return what ``coroutine`` does; a short pause in it is over at once."""
        found: list[Any] = []
        Deferred.fromCoroutine(coroutine).addBoth(found.append)

        def done() -> bool:
            calls = self.clock.getDelayedCalls()
            if any(call.getTime() - self.clock.seconds() <= COUNTED_AGAIN for call in calls):
                self.clock.advance(COUNTED_AGAIN)
            return bool(found)

        self.until(done)
        if isinstance(found[0], Failure):
            found[0].raiseException()
        return found[0]

    def close(self) -> None:
        """Close its sockets, end its threads."""
        for descriptor in self.real.removeAll():
            if hasattr(descriptor, "socket"):
                descriptor.socket.close()
        self.real.fireSystemEvent("shutdown")
        self.real.iterate(0)


class Told(Beliefs):
    """What is thought of an upstream; ``profile``, which may be set, is what its pages told."""

    def __init__(self, **profile: Any) -> None:
        super().__init__()
        self.profile = Profile(order=PromptOrder.SYSTEM_FIRST, **profile)

    @property
    def profile(self) -> Profile:
        return super().profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self.learn(profile, ())


def proving_at(reactor: HandTurned, url: str, **profile: Any) -> Proving:
    """Whoever asks the server at ``url``, of which ``profile`` is known."""
    upstream = Upstream(reactor.real, UpstreamURL.parse(url), 20.0)
    return Proving(Asker(reactor, upstream, time.time), Told(**profile))


def chat(*messages: dict[str, Any], headers: Any = (), **fields: Any) -> Request:
    """A chat request."""
    body = {"model": "random", "messages": list(messages), **fields}
    return Request("POST", "/v1/chat/completions", headers, json.dumps(body).encode())


def compared(before: Request, after: Request, was: int, now: int) -> Evidence:
    """Two requests whose prompts were counted as ``was`` and ``now`` tokens."""
    one = prompt_of(before, PromptOrder.SYSTEM_FIRST)
    other = prompt_of(after, PromptOrder.SYSTEM_FIRST)
    assert one is not None
    assert other is not None
    return Evidence(Before(one, one, was, before), other, other, Usage(now), request=after)
