"""The hooks a client package may implement. Their docstrings are the manual (docs/hooks.md).

A package names its module under the entry-point group ``cacheproxy`` and marks functions with
``@cacheproxy.hookimpl``. An implementation may take fewer arguments than its hook.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheproxy.core.conversation.exchange import Exchange
    from cacheproxy.core.document.edits import Edit
    from cacheproxy.core.prompt.client import Client
    from cacheproxy.core.prompt.request import Request
    from cacheproxy.core.rules.rule import Normalizer

_F = TypeVar("_F", bound="Callable[..., object]")

PROJECT = "cacheproxy"
_hookspec = pluggy.HookspecMarker(PROJECT)
_hookimpl = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: _F) -> _F:
    """Mark ``function`` as the implementation of the hook of the same name."""
    return _hookimpl(function)


@_hookspec
def cacheproxy_client() -> Client:
    """Return the client that this package is for, with the marks by which it is told.

    Called once, at start-up. The package's rules and its hooks cacheproxy_normalize and
    cacheproxy_session are used for this client's requests alone: another client's user may have
    typed, or keep in their files, the very text that a rule looks for. Marks are what the client
    itself writes, at its own place: the beginning of its user agent, a header that it alone sends,
    the beginning of its system text, a line of its system text outside of fenced code. The prompt
    is looked at only up to the first message of a user, only on paths of APIs that cacheproxy
    knows, and only where the user agent names no other client that it knows: gateways send a user
    agent of their own. Whose a request is, is worked out at most once per package, before the
    package's first edit.

    A package with rules, cacheproxy_normalize or cacheproxy_session that does not say whose
    requests it is for is not loaded. ``Client("*")`` is for all; a rule with a ``client`` of its
    own is for that one. cacheproxy_exchange_finished sees everybody's exchanges. ``name`` is what
    sessions, metrics and the log call the client, and what ``client = "…"`` of a rule in the config
    file names.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_rules() -> Iterable[Normalizer]:
    """Return the package's rules: ``Rule`` (a row in a table) and ``CodeRule`` objects.

    Called once, at start-up, for at most 1,000 rules. They edit requests of the package's client
    alone (cacheproxy_client). Each rule has a name of its own, by which
    users switch it on and off (``enable``, ``disable``), and by which it is counted and logged.
    Rules run in the order given; packages run in the order of their entry-point names. A name
    that another package has taken stops the proxy from starting, with one line that names both.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_normalize(request: Request, previous: Request | None) -> Iterable[Edit] | None:
    """Return the edits that make ``request`` constant where it was volatile, or None.

    For what a rule cannot say. Called for every request of the package's client whose body is a
    JSON object and whose upstream is local (or ``edit_remote`` is on), in a thread, for up to four
    requests at a time, unless it is marked with ``cacheproxy.quick``.
    Guaranteed: each plugin is called on its own, by name, and sees the result of the earlier
    ones, as a copy of its own; ``request.json`` is never None; what a plugin raises, an edit that
    cannot be made, more than 10,000 edits, edits with more text than the request and 1 MiB, and
    an answer that takes longer than 1 s and 0.25 s per MiB of body leave out that plugin for that
    request, are counted and logged under its name, and the request goes on. One that is late
    three times in a row is not called any more until the proxy is restarted.

    The answer depends on the arguments alone: no clock, no random, no state. It is idempotent:
    normalizing the result once more changes nothing. It never touches what a user typed or a
    tool returned. ``previous`` is the request that this one goes on from, in the same conversation,
    as the rules left it, or None.
    """
    raise NotImplementedError


@_hookspec(firstresult=True)
def cacheproxy_session(request: Request) -> str | None:
    """Return which conversation ``request`` belongs to, as ``client/id`` or ``id``, or None.

    Asked about requests of the package's client alone; an ``id`` gets that client's name. The
    first answer that is not None wins; else the core decides: session headers that clients
    send (any ``x-*-session-id``), ``prompt_cache_key``, the session part of
    ``metadata.user_id``, else a hash of client, system text and first user message. The id must be
    the same in every turn. It is shown
    shortened in the log, so it must not contain prompt text. At most 256 characters that can be
    printed. May be called for bodies that are not JSON (``request.json`` is None then). In a
    thread, and with the deadline of cacheproxy_normalize, unless it is marked with
    ``cacheproxy.quick``. What it raises or returns besides
    counts as None; it is counted and logged.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_exchange_finished(exchange: Exchange) -> None:
    """Look at a finished exchange: one request and its response, as one frozen record.

    Called after the last byte has gone down, or after the client left or the upstream failed: in
    a thread, with one exchange after another, in the order they finished. May look, never alter;
    what it sees is a copy. It has ten seconds for each; after three in a row that took longer, it
    is not called any more until the proxy is restarted. When 1,000 exchanges or 32 MiB of bodies
    wait, more are not shown to it; they are counted, and the log says so. When the proxy stops,
    there are three seconds for what waits. What it raises is counted and logged under the
    plugin's name, and stops nobody else.
    """
    raise NotImplementedError
