"""The observer that raises alarms: in the log, by a bell, on the desktop and to a webhook."""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn

from treq.client import HTTPClient
from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed
from twisted.internet.error import ConnectingCancelledError, DNSLookupError
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.web.client import Agent
from twisted.web.http_headers import Headers

from cacheproxy import hookimpl, quick
from cacheproxy.core.rules.fold import GivenUpError
from cacheproxy.proxy.exchange.workers import Workers
from cacheproxy.proxy.upstream.failures import problem_of_tls
from cacheproxy.record.alarms import FAILED, Alarm, Alarms
from cacheproxy.record.exchange import Exchange
from cacheproxy.tables import AlarmTable

_log = Logger()
_DESKTOP, _DESKTOP_SECONDS = "alarm: desktop", 15.0
_STOP_SECONDS = 3.0  #: seconds that the proxy's end waits for alarms under way
_MOST = 16  #: alarms that may wait to be sent; each is in the log in any case
_NAME = "cacheproxy"
_SERVICE = "org.freedesktop.Notifications"
_SECONDS = 5.0
_BY_SERVER = -1  #: milliseconds that a notification is shown; -1 leaves that to the desktop
_SCRIPT = (
    "on run argv",
    "display notification (item 3 of argv) with title (item 2 of argv)",
    "end run",
)
"""AppleScript that shows a notification. Texts are its arguments, never part of it, and our name is
the first: a text with a dash in that place would be an option, and ``-e`` adds script."""
SIGNATURE = "X-Cacheproxy-Signature"
_DEADLINE = 10.0  #: seconds for one try, including the connection
_LATER = (429, *range(500, 600))  #: statuses after which another try may succeed


class Alarming:
    """Reports alarms in the log, and in the ways of ``table``. ``proxy``: as in ``LogLine``."""

    def __init__(self, reactor: Any, workers: Workers, table: AlarmTable) -> None:
        self.proxy = ""
        self._reactor = reactor
        self._workers = workers
        self._alarms = Alarms(table)
        self._webhook = Webhook(reactor)
        self._by_webhook = AlarmWay("webhook", self._webhook.tell)
        self._by_desktop = AlarmWay("desktop notification", self._show)
        self.adopt(table)

    def adopt(self, table: AlarmTable) -> None:
        """Use the settings of ``table`` from now on; raises TableError if its secret is not set."""
        self._webhook.secret = table.secret()
        self._webhook.url = table.webhook
        self._alarms.limits = table
        self._table = table

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Log an alarm for each exchange over the limits, ring, and queue it for the other ways."""
        for exchange in exchanges:
            alarm = self._alarms.see(exchange, self._reactor.seconds(), self.proxy)
            if alarm is not None:
                _log.warn("{line}", line=f"{alarm.title}: {alarm.text}   {alarm.command}")
                if self._table.bell:
                    ring()
                if self._table.desktop:
                    self._by_desktop.put(alarm)
                if self._table.webhook:
                    self._by_webhook.put(alarm)

    def finish(self) -> Deferred[Any]:
        """Return a Deferred that fires, never with an error, when all are sent, or 3 s are over."""
        telling = [self._by_desktop.finish(), self._by_webhook.finish()]
        waiting = gatherResults(telling, consumeErrors=True)
        return waiting.addTimeout(_STOP_SECONDS, self._reactor).addErrback(lambda _: None)

    async def _show(self, alarm: Alarm) -> None:
        """Show ``alarm`` on the desktop, by a worker thread; raises UnsentError."""
        show = partial(notify, alarm.title, f"{alarm.text}\n{alarm.command}")
        try:
            await self._workers.run(_DESKTOP, show, _DESKTOP_SECONDS)
        except GivenUpError as error:
            raise UnsentError(str(error) or "it hung too often") from None


def ring() -> None:
    """Ring the terminal's bell, if there is one; the log would escape the control character."""
    stream = sys.__stdout__  # twistd has replaced sys.stdout
    with suppress(OSError, ValueError):
        if stream is not None and stream.isatty():
            stream.write("\a")
            stream.flush()


class UnsentError(Exception):
    """An alarm could not be sent; the message says why, for people."""


class AlarmWay:
    """One way to send alarms: ``tell`` sends one and raises UnsentError; ``name``: in the log.

    ``put`` never waits and never raises. A failure is logged once, until the way works again.
    """

    def __init__(self, name: str, tell: Callable[[Alarm], Awaitable[None]]) -> None:
        self._name = name
        self._tell = tell
        self._waiting: deque[Alarm] = deque(maxlen=_MOST)
        self._telling: Deferred[None] = succeed(None)
        self._is_in_trouble = False

    def put(self, alarm: Alarm) -> None:
        """Queue ``alarm`` for sending; if more than 16 wait, the oldest is dropped."""
        self._waiting.append(alarm)
        if self._telling.called:
            self._telling = Deferred.fromCoroutine(self._tell_all())

    def finish(self) -> Deferred[None]:
        """Return a Deferred that fires when no alarm waits; cancelling it drops the rest."""
        done: Deferred[None] = Deferred(lambda _: self._give_up())
        self._telling.addCallback(done.callback)
        return done

    def _give_up(self) -> None:
        """Drop the waiting alarms, and cancel the sending under way."""
        self._waiting.clear()
        self._telling.cancel()

    async def _tell_all(self) -> None:
        """Send the waiting alarms, one after another; failures are logged."""
        while self._waiting:
            try:
                await self._tell(self._waiting.popleft())
                self._is_in_trouble = False
            except UnsentError as error:
                self._say(str(error))
            except CancelledError:
                self._say("the proxy stops")
            except Exception as error:
                self._say(f"{type(error).__name__}")

    def _say(self, why: str) -> None:
        """Log the reason of a failure, unless the last alarm failed, too."""
        if not self._is_in_trouble:
            self._is_in_trouble = True
            _log.warn("the alarm's {name} does not work: {why}", name=self._name, why=why)


def notify(title: str, text: str, platform: str = sys.platform) -> None:
    """Show a notification, by D-Bus or by macOS's own command; blocks.

    Source: Desktop Notifications Specification 1.2 (freedesktop.org), "Notify": the summary is
    plain text, the body may hold markup. Raises UnsentError, on Windows always.
    """
    if platform == "win32":
        raise UnsentError("notifications are not supported on Windows")
    if platform == "darwin":
        script = [word for line in _SCRIPT for word in ("-e", line)]
        try:
            done = subprocess.run(  # noqa: S603 - the texts are arguments, no shell reads them
                ["osascript", *script, _NAME, title, text],  # noqa: S607 - where PATH has it
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnsentError(f"osascript: {error}") from None
        if done.returncode:
            raise UnsentError(f"osascript ended with {done.returncode}")
    else:
        _by_bus(title, text)


def _by_bus(title: str, text: str) -> None:
    """Show a notification by the session bus of D-Bus; raises UnsentError."""
    try:  # imported here, since it comes with the extra ``desktop``
        from jeepney import DBusAddress, DBusErrorResponse, new_method_call  # noqa: PLC0415
        from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415
        from jeepney.wrappers import unwrap_msg  # noqa: PLC0415
    except ImportError:
        raise UnsentError("notifications need jeepney: pip install jeepney") from None

    service = DBusAddress("/org/freedesktop/Notifications", bus_name=_SERVICE, interface=_SERVICE)
    body = html.escape(text, quote=False)
    arguments: tuple[Any, ...] = (_NAME, 0, "", title, body, [], {}, _BY_SERVER)
    call = new_method_call(service, "Notify", "susssasa{sv}i", arguments)
    try:
        with open_dbus_connection("SESSION") as bus:
            unwrap_msg(bus.send_and_get_reply(call, timeout=_SECONDS))
    except KeyError:
        raise UnsentError("no D-Bus session: DBUS_SESSION_BUS_ADDRESS is not set") from None
    except DBusErrorResponse as error:
        raise UnsentError(f"D-Bus says {error.name}") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise UnsentError(f"no D-Bus session: {error}") from None


class Webhook:
    """Sends alarms to ``url``, one POST of JSON for each, signed if there is a ``secret``.

    Both may be set at any time. Redirects are not followed; certificates are verified.
    """

    def __init__(self, reactor: Any) -> None:
        self.url = ""
        self.secret = ""
        self._reactor = reactor
        self._client = HTTPClient(Agent(reactor, connectTimeout=_DEADLINE))

    async def tell(self, alarm: Alarm) -> None:
        """POST ``alarm``, at most three times (again after 1 s, after 5 s); raises UnsentError."""
        url, body = self.url, payload(alarm)
        headers = Headers({"Content-Type": ["application/json"], "User-Agent": ["cacheproxy"]})
        if self.secret:
            headers.setRawHeaders(SIGNATURE, [signature(self.secret, body)])
        why = await self._try(url, body, headers)
        for pause in (1.0, 5.0):  # seconds before the second try, and before the third
            if not why:
                return
            await deferLater(self._reactor, pause)
            why = await self._try(url, body, headers)
        if why:
            raise UnsentError(f"{why}, three times")

    async def _try(self, url: str, body: bytes, headers: Headers) -> str:
        """POST once; return "", or why to try again. Raises UnsentError where that is in vain."""
        sent = self._client.post(
            url, data=body, headers=headers, allow_redirects=False, unbuffered=True
        )
        sent.addTimeout(_DEADLINE, self._reactor, _raise_timeout)
        try:
            response = await sent
        except TimeoutError:
            return f"no answer in {_DEADLINE:.0f} s"
        except Exception as error:  # networks fail in many ways
            return _error_words(error)
        response.deliverBody(_Unread())
        if response.code in _LATER:
            return f"it answered {response.code}"
        if response.code >= 300:
            moved = ", and redirects are not followed" if response.code < 400 else ""
            raise UnsentError(f"it answered {response.code}{moved}")
        return ""


def _raise_timeout(*_: object) -> NoReturn:
    raise TimeoutError


class _Unread(Protocol):
    """Reads nothing of a response's body, which may be endless: it closes the connection."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()


def payload(alarm: Alarm) -> bytes:
    """Return the JSON object that a webhook gets, as bytes; docs/alarm.md documents its members."""
    text = f"{alarm.title}: {alarm.text} {alarm.command}"
    event = "failure" if alarm.cause == FAILED else "break"
    return json.dumps({"event": event, **asdict(alarm), "text": text}).encode()


def signature(secret: str, body: bytes) -> str:
    """Return the signature header's value: ``sha256=`` and the HMAC of ``body`` in hex."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _error_words(error: BaseException) -> str:
    """Return a network error in words, without any URL; raises CancelledError if cancelled."""
    while reasons := getattr(error, "reasons", None):  # Twisted wraps the failures of a request
        error = reasons[0].value
    if isinstance(error, CancelledError | ConnectingCancelledError):  # the sending was given up
        raise CancelledError
    if isinstance(error, DNSLookupError):
        return "its host is not known"
    return problem_of_tls(error, "its host") or f"the connection failed ({type(error).__name__})"
