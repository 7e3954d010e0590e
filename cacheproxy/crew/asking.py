"""What a worker does not know by itself: it asks the keeper, and tells it what it learns.

Where the keeper does not answer the request goes on without: that costs the server a prompt, and
nobody an answer.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy.crew.frames import Load
from cacheproxy.crew.line import Line
from cacheproxy.crew.messages import HowSpelled, Lane, Recall, Sent, Spelled
from cacheproxy.crew.shared import Known, LastRequests
from cacheproxy.crew.wire import request_in, request_out, text_in, text_out
from cacheproxy.proxy.exchange.memory import Memory, SessionMemory, lane_of
from cacheproxy.translate.messages import Spellings

_log = Logger()
_SECONDS = 2.0
"""How long the keeper may take: it answers within a millisecond unless it has too much to do."""
_MOST_BYTES = 16 << 20
_MOST_ASKED = 4096


async def _ask(line: Line, question: Any) -> tuple[Any, Load] | None:
    """Return (value, load) of the keeper's answer, None if there is none."""
    try:
        answer: tuple[Any, Load] = await line.ask(question, seconds=_SECONDS)
    except CancelledError:  # the client has left
        raise
    except Exception:
        _log.warn("the keeper did not answer: a request goes on without what it knows")
        return None
    return answer


class AskedMemory(SessionMemory):
    """The last requests of sessions, as rules that pin look at them: the keeper has the newest.

    The worker keeps those that it sent or was told, so that a body goes through the line only when
    the session has changed workers. Turns are counted by the keeper.
    """

    is_shared = True

    def __init__(self, line: Line, number: int) -> None:
        super().__init__(keep_requests=False)
        self._line = line
        self._number = number
        self._sent = 0
        self._last = LastRequests(most_bytes=_MOST_BYTES)

    async def refresh(self, session: Session, request: Request) -> None:
        """Have the newest of the lane that ``request`` belongs to, for ``recall``."""
        lane = lane_out(session, request)
        version = self._last.of(lane).version
        answer = await _ask(self._line, Recall(lane, version))
        if answer is None or answer[0] is None:
            return
        newest, head = answer[0]
        if newest != version:
            method, target, headers = head
            pairs = tuple((name, value) for name, value in headers)
            self._last.put(lane, Known(newest, request_in((method, target, pairs), answer[1])))

    def recall(self, session: Session, request: Request) -> Memory:
        """Return what was known of the lane when it was refreshed."""
        return Memory(0, self._last.of(lane_out(session, request)).request)

    def sent(self, session: Session, request: Request) -> int:
        """Tell the keeper that ``request`` goes up; return 1: which turn it is, the keeper says."""
        if self.keep_requests:
            lane = lane_out(session, request)
            self._sent += 1
            version = f"{self._number}.{self._sent}"
            self._last.put(lane, Known(version, request))
            self._line.tell(Sent(lane, version, request_out(request)), request.body)
        return 1


class AskedSpellings(Spellings):
    """How tool calls were spelled: told to the keeper before the client has seen their end."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self._asked: OrderedDict[str, None] = OrderedDict()

    def keep(self, call: str, text: str) -> None:
        """Remember it, here and there. On the reactor's thread alone."""
        super().keep(call, text)
        self._line.tell(Spelled(text_out(call), text_out(text)))

    async def learn(self, request: Request) -> None:
        """Ask for the calls of ``request`` that no answer through this worker has made.

        Once for each: a call stands in a request only after its answer has gone down.
        """
        wanted = [
            call
            for call in dict.fromkeys(calls_of(request))
            if call not in self._asked and self.kept(call) is None
        ]
        if not wanted:
            return
        answer = await _ask(self._line, HowSpelled([text_out(call) for call in wanted]))
        if answer is None:
            return
        for call, text in zip(wanted, answer[0], strict=True):
            self._asked[call] = None
            if text is not None:
                super().keep(call, text_in(text))
        while len(self._asked) > _MOST_ASKED:
            self._asked.popitem(last=False)


def calls_of(request: Request) -> list[str]:
    """Return the ids of all tool calls in the messages of an Anthropic request."""
    messages = (request.json or {}).get("messages")
    found: list[str] = []
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                call = block.get("id")
                found += [call] if isinstance(call, str) else []
    return found


def lane_out(session: Session, request: Request) -> Lane:
    """Return the lane of a session that ``request`` belongs to, as it is sent."""
    return tuple(map(text_out, lane_of(session, request)))
