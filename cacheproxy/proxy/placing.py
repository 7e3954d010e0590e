"""What the upstream does with late system messages: asked once, remembered, and acted on.

Asked is a server that renders conversations (llama-server, vLLM), which evaluates nothing; of
others, two short prompts tell, sent when the first late message comes. What was learned counts
until the server was down or another model took its place; a refusal teaches at any time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.client import client_of
from cacheproxy.core.dialect import CHAT
from cacheproxy.core.look import Identity, Look, State, identity_of
from cacheproxy.core.normalize import Report
from cacheproxy.core.placement import BY_OPTION, Late, Placement, alike
from cacheproxy.core.placing import late_messages, place
from cacheproxy.core.rendering import LLAMA, VLLM
from cacheproxy.core.request import Request
from cacheproxy.core.responsehead import ResponseHead
from cacheproxy.core.roleerror import LARGEST, STATUSES, refuses_late, wants_turns
from cacheproxy.proxy.dialects import Dialects
from cacheproxy.proxy.inquiry import Inquiry, model_of
from cacheproxy.proxy.translating import Translating
from cacheproxy.proxy.upstream import Upstream

_log = Logger()
AUTO, QUIET, USER, OFF = "auto", "quiet", "user", "off"
SETTINGS = (AUTO, QUIET, USER, OFF)
"""What ``--placement`` may be."""
_ASK_AGAIN, _ASK_SOON = 300.0, 10.0
"""Seconds after which a server is asked again that did not tell, or that was down or busy."""
_MOST = 64
"""Models that are remembered: a client may name as many as it likes."""
_THREAD_ABOVE = 128 << 10

Key = tuple[str, str]
"""A dialect and a model, either "" for any."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A request with its late system messages placed, where that was needed.

    ``late``: whether it has any; ``report``: what was edited, None for nothing; ``by``: what was
    known of the upstream. ``guess``: of what it was placed by, where that is yet to be proved.
    """

    request: Request
    report: Report | None = None
    late: bool = False
    by: Placement | None = None
    guess: tuple[Key, Placement] | None = None


class Placing:
    """Places late system messages for one upstream. ``setting``: one of SETTINGS.

    ``dialects`` and ``translating``: which API the upstream speaks, and how to speak it. ``via``:
    our mark, against loops.
    """

    def __init__(
        self,
        reactor: Any,
        upstream: Upstream,
        setting: str,
        dialects: Dialects,
        translating: Translating,
        *,
        via: bytes = b"",
    ) -> None:
        self.setting = setting
        self._reactor = reactor
        self._inquiry = Inquiry(reactor, upstream, translating, via)
        self._dialects = dialects
        self._learned: OrderedDict[Key, Placement] = OrderedDict()
        self._stale: set[Key] = set()
        self._not_before: OrderedDict[Key, float] = OrderedDict()
        self._asking = DeferredLock()
        self._has_asked = False
        self._server: Identity | None = None
        self._told: set[str] = set()

    @property
    def placement(self) -> Placement | None:
        """What was learned of the upstream last, None for nothing."""
        if self.setting == USER:
            return _ALWAYS
        return next(reversed(self._learned.values()), None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a page."""
        known = self.placement
        if self.setting == OFF or known is None:
            return {"setting": self.setting, "late": str(Late.UNKNOWN), "says": ""}
        return {"setting": self.setting} | known.as_dict()

    async def told(self) -> dict[str, Any]:
        """Return the same, once the server has been asked: it answers, so it can tell."""
        if not self._has_asked:
            await self.learn()
        return self.as_dict()

    async def place(self, request: Request) -> Placed:
        """Return ``request`` as this upstream can take it. It never fails for this."""
        if self.setting == OFF or not late_messages(request):
            return Placed(request)
        placement = await self._of(request)
        if placement is None or not placement.places:
            return Placed(request, late=True, by=placement)
        return await self._placed(request, placement)

    def may_refuse(self, placed: Placed, head: ResponseHead) -> bool:
        """Whether a response with ``head`` may refuse the late messages of ``placed``."""
        has_length = head.length is None or head.length <= LARGEST
        plain = not head.values(b"content-encoding")
        return placed.late and head.status in STATUSES and has_length and plain

    async def heal(self, placed: Placed, received: Request, error: bytes) -> Placed | None:
        """Return ``received`` placed in another way, after the answer ``error`` to ``placed``.

        None where the error is about something else, or nothing else can be done.
        """
        if not refuses_late(error):
            return None
        known = self._known(received)
        if known is not None and known == placed.by:
            self.forget()  # another server, or model, may have taken the place of the one we knew
            known = await self._of(received, quietly=True)
        joins, guess = wants_turns(error), None
        if known is None or not known.places:
            guess = alike(Late.REFUSED, "its answer to a request", joins=joins)
        elif joins and not known.joins_user:
            guess = replace(known, joins_user=True, joins_tool=True)
        again = await self._placed(received, guess or known or _ALWAYS)
        if again.request.body == placed.request.body:
            return None
        return replace(again, guess=None if guess is None else (self._key(received), guess))

    def answered(self, placed: Placed, status: int, error: bytes = b"") -> None:
        """Take note of how a request fared that was placed by a guess: a success proves it."""
        if placed.guess is None:
            return
        key, guess = placed.guess
        if status < 400:
            self._keep(key, guess)
        elif wants_turns(error) and not guess.joins_user:
            self._keep(key, replace(guess, joins_user=True, joins_tool=True))

    async def learn(self) -> None:
        """Ask a server that renders conversations what it does, before any request comes."""
        if self.setting in (AUTO, QUIET):
            await self._locked(None, quietly=True)

    def looked(self, look: Look) -> bool:
        """Take note of a look at the upstream: what is learned counts for one server and model.

        Returns whether another may have taken its place.
        """
        if look.state is not State.UP:
            has_gone, self._server = self._server is not None, None
            if has_gone:
                self.forget()
            return has_gone
        self._server, is_other = identity_of(look, self._server)
        if is_other:
            self.forget()
        if self._server is not None and not self._has_asked:
            done = Deferred.fromCoroutine(self.learn())
            done.addErrback(lambda failure: _log.failure("the upstream was not asked", failure))
        return is_other

    def forget(self) -> None:
        """Ask again before the next late message: what is known may be of another server.

        It counts until something else is known: a prompt that was placed once stays placed.
        """
        self._stale = set(self._learned)
        self._not_before.clear()
        self._has_asked = False

    # What is known.

    def _key(self, request: Request) -> Key:
        """Return what short prompts tell of: the API that the upstream is spoken to in, a model."""
        dialect = self._dialects.other_than(request) or request.dialect or ""
        return dialect, model_of(request)

    def _known(self, request: Request, *, fresh: bool = True) -> Placement | None:
        dialect, model = self._key(request)
        for each in ((dialect, model), ("", model), (dialect, ""), ("", "")):
            if each in self._learned and not (fresh and each in self._stale):
                return self._learned[each]
        return None

    async def _of(self, request: Request, *, quietly: bool = False) -> Placement | None:
        if self.setting == USER:
            return self._known(request) or _ALWAYS
        if self._known(request) is None and self._may_ask(request):
            await self._locked(request, quietly=quietly or self.setting == QUIET)
        return self._known(request) or self._known(request, fresh=False)

    def _may_ask(self, request: Request) -> bool:
        return bool(self._reactor.seconds() >= self._not_before.get(self._key(request), 0.0))

    def _keep(self, key: Key, placement: Placement) -> None:
        self._learned.pop(key, None)
        self._learned[key] = placement
        self._stale.discard(key)
        if len(self._learned) > _MOST:
            self._stale.discard(self._learned.popitem(last=False)[0])

    def _wait(self, key: Key, seconds: float) -> None:
        """Do not ask again for so long."""
        self._not_before.pop(key, None)
        self._not_before[key] = self._reactor.seconds() + seconds
        if len(self._not_before) > _MOST:
            self._not_before.popitem(last=False)

    # Learning.

    async def _locked(self, request: Request | None, *, quietly: bool) -> None:
        """Learn; one at a time, and not once more what the one before has learned, or has not."""
        await self._asking.acquire()
        try:
            if self._is_needed(request):
                await self._learn(request, quietly=quietly)
        except CancelledError:  # the client has left
            raise
        except Exception as error:  # down, slow, or nonsense: the request goes on as it came
            kind = type(error).__name__
            _log.debug("what becomes of late system messages was not told: {kind}", kind=kind)
        finally:
            self._asking.release()

    def _is_needed(self, request: Request | None) -> bool:
        if request is None:
            return not self._has_asked
        return self._known(request) is None and self._may_ask(request)

    async def _learn(self, request: Request | None, *, quietly: bool) -> None:
        self._has_asked = True
        for path, dialect in ((LLAMA, ""), (VLLM, CHAT)):
            told = await self._inquiry.rendered(path, request)
            if told is not None:  # vLLM's other APIs put prompts together otherwise
                self._keep((dialect, told.model), told.placement)
                break
        if request is None or self._known(request) is not None:
            return
        key, wait = self._key(request), _ASK_AGAIN
        try:
            placement = None if quietly else await self._inquiry.tried(request)
            if placement is not None:
                self._keep(key, placement)
        except CancelledError:
            wait = 0.0
            raise
        except Exception:
            wait = _ASK_SOON
            raise
        finally:
            self._wait(key, wait)

    # Acting on it.

    async def _placed(self, request: Request, placement: Placement) -> Placed:
        # To join takes ten times as long as to give a message to the user in its place.
        effort = len(request.body) if placement.joins_user else request.effort
        if effort <= _THREAD_ABOVE:
            after, report = place(request, placement)
        else:
            pool = self._reactor.getThreadPool()
            after, report = await deferToThreadPool(self._reactor, pool, place, request, placement)
        if report is not None and report.error is not None:
            _log.warn("late system messages stay as they are: {error}", error=report.error)
        elif report is not None:
            self._say_once(placement, client_of(request))
        return Placed(after, report, late=True, by=placement)

    def _say_once(self, placement: Placement, client: str) -> None:
        says = placement.says
        if says not in self._told:
            self._told.add(says)
            _log.info(
                "the upstream {says} (said once; {client} sends such messages)",
                says=says,
                client=client,
            )


_ALWAYS = alike(Late.REFUSED, BY_OPTION)
