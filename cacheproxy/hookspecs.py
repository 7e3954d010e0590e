"""The hooks that a plugin may implement. Their docstrings are the manual (docs/hooks.md).

A package names its module in the entry-point group ``cacheproxy`` and marks functions with
``@cacheproxy.hookimpl``. An implementation may have fewer parameters than its hook.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from cacheproxy.client_setup.checkup import Case, Checkup
    from cacheproxy.client_setup.need import Need, Setup
    from cacheproxy.core.adapt.adaptation import Adaptation
    from cacheproxy.core.document.edits import Edit
    from cacheproxy.core.kinds.kind import ServerKind
    from cacheproxy.core.prompt.client import Client
    from cacheproxy.core.prompt.request import Request
    from cacheproxy.core.rules.code_rule import Normalizer
    from cacheproxy.record.exchange import Exchange

PROJECT = "cacheproxy"
_hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorator that marks a function as the implementation of the hook of the same name."""


@_hookspec
def cacheproxy_client() -> Client:
    """Return the client that this package is for, with the marks that identify it.

    A module may set ``CLIENT`` instead.

    Called once, at start-up. The package's rules and its hooks cacheproxy_normalize and
    cacheproxy_session see this client's requests alone. The prompt is searched for marks only up to
    the first user message, only on paths of APIs that cacheproxy knows, and only if the user agent
    names no other installed client: gateways send a user agent of their own. A request is
    identified at most once per package, before the package's first edit.

    A package that has rules, cacheproxy_normalize or cacheproxy_session, but names no client, is
    not loaded. ``Client("*")`` stands for all clients; a rule with a ``client`` of its own edits
    that client's requests.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_rules() -> Iterable[Normalizer]:
    """Return the package's rules: ``Rule`` (a row in a table) and ``CodeRule`` objects.

    A module may set ``RULES`` instead.

    Called once, at start-up, for at most 1,000 rules. They edit requests of the package's client
    alone, in the order given; packages run in the order of their entry-point names. Users switch a
    rule on and off by its name (``enable``, ``disable``). If two packages use the same name, the
    proxy does not start, and one line names both.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_normalize(request: Request, previous: Request | None) -> Iterable[Edit] | None:
    """Return the edits that make ``request`` constant where it was volatile, or None.

    For edits that a rule cannot express. Called for every request of the package's client
    whose body is a JSON object and whose upstream is local (or ``edit_remote`` is on), in a thread,
    for up to three requests at a time, unless it is marked with ``cacheproxy.quick``. Each plugin
    is called on its own and gets its own parsed JSON of the earlier ones' result; ``request.json``
    is never None. ``previous`` is the request of the same conversation that this one extends, as
    the rules left it, or None.

    The result depends on the arguments alone: no clock, no random, no state. It is idempotent:
    normalizing the result once more changes nothing. It never touches what a user typed or a tool
    returned.

    A plugin is left out of a request if it raises, returns an edit that cannot be made or more than
    10,000 edits, or takes longer than 1 s plus 0.25 s per MiB of body; this is counted and logged
    under its name. After three slow calls in a row it is not called until the next reload (SIGHUP).
    """
    raise NotImplementedError


@_hookspec(firstresult=True)
def cacheproxy_session(request: Request) -> str | None:
    """Return the conversation that ``request`` belongs to, as ``client/id`` or ``id``, or None.

    Called for requests of the package's client alone; an ``id`` gets that client's name. The first
    result that is not None wins; else the core decides: session headers (any ``x-*-session-id``,
    ``session-id`` and its like; with ``x-*-agent-id`` behind it, and ``x-parent-session-id``),
    ``prompt_cache_key``, the session part of ``metadata.user_id``, else a hash of client, system
    text and first user message.

    The id must be the same in every turn. A subagent's is ``session:agent``, where ``session`` is
    the id of the conversation that it works for. The log shows it shortened, so it must not contain
    prompt text; it has at most 256 printable characters. The hook is also called for bodies that
    are not JSON (``request.json`` is None then). Thread, deadline and errors are those of
    cacheproxy_normalize; any other result counts as None.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_exchange_finished(exchanges: Sequence[Exchange]) -> None:
    """Look at finished exchanges: each is one request and its response, as one frozen record.

    Called with exchanges of all clients, in the order in which they finished: after the last byte
    has been sent to the client, or after the client left or the upstream failed. They come one
    batch after another in a thread, at most 32 together, and have their own parsed JSON, unless the
    hook is marked with ``cacheproxy.quick``. It has ten seconds for each batch; after three in a
    row that took longer, it is not called until the next reload (SIGHUP). While 1,000 exchanges or
    32 MiB of bodies wait, further ones are dropped, counted and logged. When the proxy stops, it
    waits three seconds for the rest. An exception is counted and logged under the plugin's name.
    """


@_hookspec
def cacheproxy_setup(need: Need) -> Setup:
    """Return the settings with which the client uses the proxy, for ``cacheproxy env`` and ``run``.

    The client is found by its name (cacheproxy_client, without which the package is not loaded) or
    by the package's. The result depends on ``need``, and on the place of the user's own file;
    nothing is written. It has variables of a shell, or a part of the client's configuration file; a
    file holds no secret, it names a variable. ``launch`` has the command with which ``cacheproxy
    run`` starts the client, which leaves nothing behind. A hook that raises ends the command with
    one line that names the plugin.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_checkup(case: Case) -> Checkup:
    """Return the faults in the settings of the package's client, for ``cacheproxy doctor``.

    Called whether the client is used here or not: a package that finds no trace of it, neither in
    its settings nor by ``case.seen``, returns ``Checkup()``. The client's settings are read, never
    written, and their secrets are not shown. A ``Finding`` has the command that mends the fault. If
    a hook raises, its findings are missing, and one line names the plugin.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_server() -> Iterable[ServerKind]:
    """Return further kinds of model servers, beside those that cacheproxy knows.

    A module may set ``SERVERS`` instead.

    Called once, at start-up. Every field of a ``ServerKind`` but its name has a default. The kinds
    of plugins are tried before the built-in ones, in the order of the packages' names; a server
    that none recognises is just a model server. A kind's functions are called in the reactor's
    thread, at each look at a server: they must not block, and depend on their arguments alone. If
    one raises, or returns a wrong type, its kind is left out until the next reload; this is counted
    and logged under the plugin's name. ``cacheproxy plugins`` lists the kinds. A package that
    brings nothing else needs no client.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_adaptations() -> Iterable[Adaptation]:
    """Return adaptations: each knows a server's refusal, and the edits to send instead.

    A module may set ``ADAPTATIONS`` instead.

    Called once, at start-up, for at most 100 objects with a ``name`` of their own and the methods
    of ``Adaptation``. ``refused`` is called when a local server has answered a request with status
    400, 404, 413, 422 or 500, before any byte of that reached the client, and no adaptation before
    it (ours, then those of packages in the order of their names) mends it. The ``Refusal`` has the
    server's words. If the AdaptationNeed that it returns changes the request, that is sent again,
    at most six times for one request. Once the server has accepted it, the ``facts`` of the need
    are remembered for this server, API and model until another server takes its place; from then on
    ``needed`` is called for each request. ``edits`` returns the same for equal arguments, and is
    idempotent; it never touches what a user typed or a tool returned as text. Thread, deadline and
    errors of all three are those of cacheproxy_normalize. ``--disable NAME`` switches one off,
    ``--mend off`` all. A package that brings nothing else needs no client.
    """
    raise NotImplementedError


@_hookspec
def cacheproxy_commands() -> Iterable[click.Command]:
    """Return commands for ``cacheproxy``: ``cacheproxy NAME``, listed in ``cacheproxy --help``.

    Called by the command line alone, for its help and for a command that is not built in: import a
    command's modules only when it runs. The first line of a command's help is shown in the list. A
    name that cacheproxy or a plugin before it (by name) already uses is refused, in one line on
    standard error, as is a plugin that raises.
    """
    raise NotImplementedError
