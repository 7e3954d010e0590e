"""Server kinds of plugins: checked when a plugin is loaded, and guarded while they are in force."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any

from cacheproxy.core.kinds import known
from cacheproxy.core.kinds.crowds import CrowdSetting
from cacheproxy.core.kinds.kind import ServerKind
from cacheproxy.core.kinds.profile import Memory, ServerFacts
from cacheproxy.core.kinds.status import CacheConfig, Look, Sample
from cacheproxy.core.rules.fold import kind_of

Failed = Callable[[str, BaseException | str], object]
"""Called with the name of a failed plugin or kind, and the exception or the problem's words."""
LONGEST_NAME = 40
"""Characters of a name at most."""
_CHECKED = (str, tuple, bool)
_PATH = re.compile(r"/[!-~]*")
_GUARDS: Mapping[str, Mapping[str, tuple[Any, Callable[..., Any]]]] = {
    "recognition": {"is_at": (bool, lambda _: False), "may_be": (bool, lambda _: False)},
    "reading": {
        "facts": (ServerFacts, lambda _: ServerFacts()),
        "look": (Look, lambda look, _: look),
        "memory": (Memory, lambda _, before: before),
        "sample": (Sample | None, lambda _: None),
    },
    "settings": {
        "room_for": (tuple, lambda **_: ()),
        "for_crowd": (CrowdSetting | None, lambda *_: None),
    },
}
"""Functions of a kind, by group: the type of their result, and what is called if they fail."""


def is_kind(one: object) -> bool:
    """Whether ``one`` is a kind of server with a name and with fields of the right types."""
    if type(one) is not ServerKind or not _is_typed(one, ServerKind("")):
        return False
    marks = one.recognition
    paths = (*marks.pages, *marks.probes, *marks.more, *marks.lasting)
    return (
        0 < len(one.name) <= LONGEST_NAME
        and one.name.isprintable()
        and any(map(str.isalnum, one.name))  # they identify it in captures and on pages
        and all(isinstance(path, str) and _PATH.fullmatch(path) for path in paths)
    )


def _is_typed(one: Any, plain: Any) -> bool:
    """Whether the fields of ``one``, and of its groups, have the types of those of ``plain``."""
    for each in fields(plain):
        value, same = getattr(one, each.name), getattr(plain, each.name)
        if is_dataclass(same):
            if type(value) is not type(same) or not _is_typed(value, same):
                return False
        elif type(same) in _CHECKED and not isinstance(value, type(same)):
            return False
    return True


def guarded(server: ServerKind, name: str, failed: Failed) -> ServerKind:
    """Return ``server`` with its functions guarded: they never raise, nor return a wrong type.

    The first failure leaves the kind out; ``failed`` is called with ``name`` and the problem.
    """

    def guard(function: Any, kind: Any, otherwise: Callable[..., Any]) -> Any:
        @wraps(function)
        def call(*values: Any, **named: Any) -> Any:
            try:
                found = function(*values, **named)
                found = tuple(found) if kind is tuple else found
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever its class
                problem: BaseException | str = error
            else:
                if isinstance(found, kind):
                    return found
                problem = f"returned {kind_of(found)} instead of {getattr(kind, '__name__', kind)}"
            known.leave_out(server.name)
            failed(name, problem)
            return otherwise(*values, **named)

        return call if function is not None else None

    groups: dict[str, Any] = {}
    for group, guards in _GUARDS.items():
        one: Any = getattr(server, group)
        own = {each: guard(getattr(one, each), *how) for each, how in guards.items()}
        groups[group] = replace(one, **own)
    counters, start = server.reading.counters, server.reading.start
    if counters is not None:
        read = guard(counters.read_config, CacheConfig, lambda _: CacheConfig())
        counters = counters._replace(read_config=read)
    if start is not None:
        start = start[0], guard(start[1], str | None, lambda _: None)
    groups["reading"] = replace(groups["reading"], counters=counters, start=start)
    if (page := server.serving.rendering) is not None:
        page = page._replace(spelled=guard(page.spelled, dict, lambda chat: chat))
        groups["serving"] = replace(server.serving, rendering=page)
    return replace(server, **groups)
