"""The listening port: opens and closes it, and detects an upstream that is the proxy itself."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import Any

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import quoteStringArgument, serverFromString
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.interfaces import IListeningPort
from twisted.internet.tcp import Port
from twisted.python.failure import Failure

from cacheproxy.config import Config, ConfigError
from cacheproxy.proxy.downstream.limits import set_options
from cacheproxy.proxy.downstream.site import Draining, ProxySite
from cacheproxy.proxy.upstream.upstream import UpstreamURL

_ALL = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_BACKLOG = 1024
"""Connections that may wait to be accepted; the kernel may allow fewer."""
_ARGUMENT = re.compile(r"(?:[^\\:]|\\.)+")
_NAMED = re.compile(r"(?:[^\\=]|\\.)+=")
"""A named part of an endpoint in Twisted's spelling: ``name=``, where a backslash escapes."""

_WORDS = (
    (re.compile(r"_parse\w+\(\) got an unexpected keyword argument (.+)"), r"it has no \1"),
    (re.compile(r"_parse\w+\(\) missing \d+ required positional argument: (.+)"), r"\1 is missing"),
    (re.compile(r"invalid literal for int\(\) with base 8: (.+)"), r"\1 is no mode, such as 660"),
    (re.compile(r"invalid literal for int\(\) with base 10: (.+)"), r"\1 is no number"),
)
"""Errors of Twisted's endpoint parsers, and the words in which users get them."""
_IN_FILES = {
    errno.ENOENT: ": make its folder first",
    errno.EADDRINUSE: ": something that is no socket of ours stands there; choose another path",
    "Cannot acquire lock": ": another program listens there",
}
"""The cure for a path that cannot be listened at, by errno or by Twisted's message."""
_MOST = 65_536
"""Open files that the proxy asks for at most: enough for any number of agents. The kernel may allow
a thousand times as many, but some programs started from here close every descriptor up to it."""


class CannotListenHereError(Exception):
    """The proxy cannot listen at this address; the message is one line that says why."""


class Listening(Service):
    """Listens for ``site`` at the endpoint in ``config``; raises ConfigError if that is none.

    ``host`` is the address and ``url`` the same for people, both set once it listens. ``grace``:
    seconds that open answers get when it stops. ``broken_off``: answers that did not end in time.
    """

    def __init__(self, reactor: Any, config: Config, site: ProxySite) -> None:
        self.host: Any = None
        self.url = ""
        self.grace = config.grace
        self.broken_off = 0
        self._site = site
        self._draining = Draining(site, reactor)
        self._port: IListeningPort | None = None
        interface = quoteStringArgument(config.interface)
        self._where = config.listen or f"tcp:{config.port}:interface={interface}"
        # Twisted's 50 makes the rest of a burst wait a second, until their SYN is sent again.
        backlog = "" if config.listen else f":backlog={_BACKLOG}"
        try:
            self._endpoint = serverFromString(reactor, private(self._where) + backlog)
        except Exception as error:  # whatever an endpoint's parser raises: a missing key file ...
            reason = (str(error) or type(error).__name__).splitlines()[0]
            for pattern, words in _WORDS:
                reason = pattern.sub(words, reason)
            raise ConfigError(f"listen {config.listen!r} is not an endpoint: {reason}") from None

    def privilegedStartService(self) -> None:
        """Listen; raises CannotListenHereError."""
        super().privilegedStartService()
        found: list[Any] = []
        self._endpoint.listen(self._site).addBoth(found.append)
        port: Any = found[0] if found else None
        if not hasattr(port, "getHost"):
            raise CannotListenHereError(cannot_listen(getattr(port, "value", None), self._where))
        self._port = port
        if isinstance(port, Port):
            set_options(port.socket)
        self.host = port.getHost()
        self.url = address_url(self.host)

    def startService(self) -> None:
        """Listen, unless it does already: "twist" starts services without privileges."""
        if self._port is None:
            self.privilegedStartService()
        super().startService()

    def stopService(self) -> Deferred[None] | None:
        """Stop listening; the Deferred fires when open answers have ended or were broken off."""
        super().stopService()
        port, self._port = self._port, None
        return None if port is None else Deferred.fromCoroutine(self._stop(port))

    def hurry(self) -> None:
        """Break off the answers that are still open."""
        self._draining.hurry()

    @property
    def is_open_to_others(self) -> bool:
        """Whether other machines can reach the address."""
        return isinstance(self.host, IPv4Address | IPv6Address) and not is_loopback(self.host)

    async def _stop(self, port: IListeningPort) -> None:
        if isinstance(port, Port):
            # The backlog is accepted, and the port closed in the same reactor turn: closing alone
            # would reset connections, and ``stopListening`` closes it one turn later.
            port.stopReading()
            port.numberAccepts = _BACKLOG
            port.doRead()
            port.connectionLost(Failure(ConnectionDone()))
        else:
            await maybeDeferred(port.stopListening)
        self.broken_off = await self._draining.run(self.grace)


def private(endpoint: str) -> str:
    """Return ``endpoint``, with mode 0600 added to a Unix socket that names none.

    Twisted's default is 0666: whoever may enter the folder could use the model and read the pages.
    """
    kind, *arguments = _ARGUMENT.findall(endpoint) or [""]
    by_place = [argument for argument in arguments if not _NAMED.match(argument)]
    given = len(by_place) > 1 or any(argument.startswith("mode=") for argument in arguments)
    return endpoint if kind != "unix" or given else endpoint + ":mode=600"


def address_url(host: Any) -> str:
    """Return the URL of a listening port's address, or its path in the file system."""
    if isinstance(host, IPv4Address):
        return f"http://{host.host}:{host.port}"
    if isinstance(host, IPv6Address):
        return f"http://[{host.host}]:{host.port}"
    name = getattr(host, "name", None)  # of a socket in the file system
    return os.fsdecode(name) if name else str(host)


def is_loopback(host: IPv4Address | IPv6Address) -> bool:
    """Whether an address that we listen on can be reached from this machine alone."""
    return host.host == "::1" or host.host.startswith("127.")


def is_same(host: Any, upstream: UpstreamURL) -> bool:
    """Whether requests for ``upstream`` would come back to the address we listen on."""
    if not isinstance(host, IPv4Address | IPv6Address) or host.port != upstream.port:
        return False
    # A connection to the wildcard address (0.0.0.0, ::) ends at this machine, too.
    loopback = upstream.host in ("localhost", "::1", *_ALL) or upstream.host.startswith("127.")
    anywhere = host.host in _ALL
    return upstream.host == host.host or (loopback and (anywhere or is_loopback(host)))


def cannot_listen(error: BaseException | None, where: str) -> str:
    """Return one line that says why we cannot listen at ``where``, and how to mend it."""
    found: Any = getattr(error, "socketError", error)
    reason, number = getattr(found, "strerror", None) or str(found), getattr(found, "errno", None)
    if where.startswith("unix:"):
        mend = _IN_FILES.get(number or reason, "")
    elif not isinstance(error, CannotListenError):
        mend = ""
    elif number in (errno.EADDRINUSE, errno.EACCES):
        mend = ": choose another port with --port"
    else:
        mend = ": check --interface"
    return f"cannot listen on {where}: {reason}{mend}"


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one: most shells start us with 1,024."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _MOST if hard == unlimited else min(hard, _MOST)
    if soft != unlimited and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit that it hides
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
