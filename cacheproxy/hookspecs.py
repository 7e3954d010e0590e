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

    from cacheproxy.core.edits import Edit
    from cacheproxy.core.exchange import Exchange
    from cacheproxy.core.request import Request
    from cacheproxy.core.rules import Normalizer

_F = TypeVar("_F", bound="Callable[..., object]")

PROJECT = "cacheproxy"
_hookspec = pluggy.HookspecMarker(PROJECT)
_hookimpl = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: _F) -> _F:
    """Mark ``function`` as the implementation of the hook of the same name."""
    return _hookimpl(function)


@_hookspec
def cacheproxy_rules() -> Iterable[Normalizer]:
    """Return the package's rules: ``Rule`` (a row in a table) and ``CodeRule`` objects.

    Called once, at start-up. Each rule has a name of its own, by which users switch it on and
    off (``enable``, ``disable``), and by which it is counted and logged. Rules run in the order
    given; packages run in the order of their entry-point names. A name that another package
    has taken stops the proxy from starting, with one line that names both.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_normalize(request: Request, previous: Request | None) -> Iterable[Edit] | None:
    """Return the edits that make ``request`` constant where it was volatile, or None.

    For what a rule cannot say. Called for every request whose body is a JSON object and whose
    upstream is local (or ``edit_remote`` is on), possibly in a thread. Guaranteed: each plugin
    is called on its own, by name, and sees the result of the earlier ones; ``request.json`` is
    never None; what a plugin raises, or an edit that cannot be made, leaves out that plugin for
    that request, is logged under its name, and the request goes on.

    The answer depends on the arguments alone: no clock, no random, no state. It is idempotent:
    normalizing the result once more changes nothing. It never touches what a user typed or a
    tool returned. ``previous`` is the last request of this session as it was sent upstream, or
    None; an implementation that does not name it costs no memory for it.
    """
    raise NotImplementedError


@_hookspec(firstresult=True)
def cacheproxy_session(request: Request) -> str | None:
    """Return which conversation ``request`` belongs to, as ``client/id`` or ``id``, or None.

    The first answer that is not None wins; else the core decides: session headers that clients
    send, ``prompt_cache_key``, the session part of ``metadata.user_id``, else a hash of client,
    system text and first user message. The id must be the same in every turn. It is shown
    shortened in the log, so it must not contain prompt text. May be called for bodies that are
    not JSON (``request.json`` is None then). What it raises counts as None, and is logged.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_exchange_finished(exchange: Exchange) -> None:
    """Look at a finished exchange: one request and its response, as one frozen record.

    Called on the reactor thread after the last byte has gone down, or after the client left or
    the upstream failed. May look, never alter; must return at once (give slow work to a thread).
    What it raises is logged under the plugin's name and stops nobody else.
    """
    raise NotImplementedError
