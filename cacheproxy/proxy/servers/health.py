"""Whether one of several upstreams takes requests."""

from __future__ import annotations

from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.servers.status import HEALTH
from cacheproxy.proxy.servers.asker import DOWN, HEALTH_SECONDS, HEALTHY_EVERY, Asker
from cacheproxy.proxy.upstream.failures import is_ours

_log = Logger()
_SILENT = 2
"""Questions in a row without an answer, after which new conversations go elsewhere: within
15 seconds. If it is at work on nothing of ours it counts as down, since it hangs."""


class Health:
    """Has ``asker`` ask every few seconds, once started. ``name``: as people know it.

    ``waiting``: requests of ours that are under way there. It counts as up until it refuses a
    connection or says that it is not, or hangs. ``is_asking``: whether a question is under way.
    """

    def __init__(self, asker: Asker, name: str) -> None:
        self.is_up = True
        self.waiting = 0
        self._asker = asker
        self._name = name
        self._asking: Deferred[None] | None = None
        self.is_asking = False
        self._unanswered = 0
        self._loop = LoopingCall(self._ask)
        self._loop.clock = asker.reactor

    @property
    def is_silent(self) -> bool:
        """Whether it answers nothing: it hangs, or a prompt keeps it from answering."""
        return self._unanswered >= _SILENT

    def start(self) -> None:
        """Ask now, and from now on."""
        if not self._loop.running:
            self._loop.start(HEALTHY_EVERY, now=True)

    def doubt(self) -> None:
        """Ask now: a request was turned down, or came to no end."""
        if self._loop.running and not self.is_asking:
            self._ask()

    def stop(self) -> None:
        """Ask no more."""
        if self._loop.running:
            self._loop.stop()
        if self._asking is not None:
            self._asking.cancel()

    def set(self, *, is_up: bool) -> None:
        """Take note of what a request, or an answer, has shown."""
        if self.is_up is is_up:
            return
        self.is_up = is_up
        if is_up:
            _log.info("upstream {name} is up again and gets new conversations", name=self._name)
        else:
            _log.warn(
                "upstream {name} is down: its conversations go to other upstreams", name=self._name
            )

    def _ask(self) -> Deferred[None]:
        self._asking = Deferred.fromCoroutine(self._once())
        return self._asking.addErrback(lambda _: None)  # slow, or stopped: it stays what it was

    async def _once(self) -> None:
        self.is_asking = True
        try:
            status, _ = await self._asker.get(HEALTH, HEALTH_SECONDS)
        except defer.TimeoutError:
            self._unanswered += 1
            if self.is_silent and not self.waiting:
                self.set(is_up=False)
            return
        except (ConnectError, DNSLookupError) as error:
            if not is_ours(error):  # else prompts might go to a fallback because of us
                self.set(is_up=False)
        except ResponseError:  # broken off: it may just be ending
            return
        else:
            self._unanswered = 0
            self.set(is_up=status not in DOWN)
        finally:
            self.is_asking = False
