"""The configuration, read again; a proven rule put to use by the page, and taken out again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.python.failure import Failure

from cacheproxy.configfile import Appended, AppendError, append
from cacheproxy.core.diagnose.cure import Cure
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.web.pages import Answer, answer_later, not_allowed, said

_T = TypeVar("_T")
_MOST = 100
"""Rules that can be undone: those applied last."""
_UNREAD = (
    "{file} is left as it was: the rule would not be in use, since it is switched off where the "
    "proxy was started (disable)."
)


class ReloadError(Exception):
    """The settings stay as they were; the message says why."""


def reload(
    ask: Callable[[], Awaitable[tuple[str, list[str]]]], request: ProxyRequest
) -> bytes | int:
    """Answer POST /_cacheproxy/reload: what has changed, which rules are on; 409 if it cannot be.

    ``ask``: returns these two, or raises ReloadError. What it changes stands in a file that whoever
    asks cannot write from here.
    """
    if request.method != b"POST":
        return not_allowed(request, b"POST", "send POST to reload")

    async def page() -> Answer:
        try:
            line, rules = await ask()
        except ReloadError as error:
            return said(str(error), 409)
        return {"said": line, "rules": rules}

    return answer_later(request, page)


class Applying:
    """Writes into the config file and has it read, one at a time.

    ``reload``: returns what has changed and which rules are on, or raises ReloadError.
    ``in_thread`` does work that blocks.
    """

    def __init__(
        self,
        reload: Callable[[], Awaitable[tuple[str, list[str]]]],
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._reload = reload
        self._in_thread = in_thread
        self._done: OrderedDict[str, tuple[Appended, Cure]] = OrderedDict()
        self._lock = DeferredLock()

    def adopt(self, on: Collection[str]) -> None:
        """Forget what the user has taken out of the file since; ``on``: the rules now in use."""
        for name in [name for name, (_, cure) in self._done.items() if not _are_in(cure, on)]:
            del self._done[name]

    def is_applied(self, number: int) -> bool:
        """Whether the cure for request ``number`` was applied here, and can be undone."""
        return str(number) in self._done

    async def apply(self, name: str, cure: Cure) -> Answer:
        """Write the rules of ``cure`` for the request called ``name``, and use them."""
        return await self._alone(self._apply(name, cure))

    async def undo(self, name: str) -> Answer:
        """Take the rules out that were applied for the request called ``name``."""
        return await self._alone(self._undo(name))

    async def _apply(self, name: str, cure: Cure) -> Answer:
        why = cure.why_not
        if name in self._done:
            why = "The rule is in use already."
        if why is not None:
            return said(why, 409)
        try:
            done: Appended = await self._in_thread(
                partial(append, cure.tables, cure.file, cure.off)
            )
        except AppendError as error:
            return said(str(error), 409)
        try:
            _, on = await self._reload()
            why = None if _are_in(cure, on) else _UNREAD.format(file=done.file)
        except ReloadError as error:
            why = f"{done.file} was not changed: {error}"
        if why is not None:
            try:
                await self._take_back(done)
            except AppendError as error:
                why = str(error)
            return said(why, 409)
        for key in (str(cure.number), name):
            self._done[key] = done, cure
        while len(self._done) > _MOST:
            self._done.popitem(last=False)
        names = ", ".join(cure.names)
        line = f"{done.what} {done.file}. In use now, without a restart: {names}."
        return {"said": line}

    async def _undo(self, name: str) -> Answer:
        if name not in self._done:
            return said("No rule was applied here for this request since the proxy started.", 404)
        done, cure = self._done[name]
        try:
            await self._in_thread(done.undo)
        except AppendError as error:
            return said(str(error), 409)
        for key in [key for key, (other, _) in self._done.items() if other is done]:
            del self._done[key]
        line = f"Taken out of {done.file}: {', '.join(cure.names)}. The next request goes without."
        try:
            await self._reload()
        except ReloadError as error:
            line = f"Taken out of {done.file}, but {error}"
        return {"said": line}

    async def _take_back(self, done: Appended) -> None:
        """Undo what could not be used; a proxy that has read it reads the file again."""
        await self._in_thread(done.take_back)
        try:
            await self._reload()
        except ReloadError:  # it never took it up
            return

    def _alone(self, work: Coroutine[Any, Any, _T]) -> Deferred[_T]:
        """Do ``work`` behind what is under way, and to its end, though who asked may have left."""
        waiting: Deferred[_T] = Deferred()

        async def alone() -> _T:
            await self._lock.acquire()
            try:
                return await work
            finally:
                self._lock.release()

        def tell(result: _T | Failure) -> None:
            if not waiting.called:  # else it was cancelled
                waiting.callback(result)

        Deferred.fromCoroutine(alone()).addBoth(tell)
        return waiting


def _are_in(cure: Cure, on: Collection[str]) -> bool:
    return set(cure.names).issubset(on)
