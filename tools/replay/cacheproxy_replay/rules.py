"""The rules of a replay, as the proxy in between has them, and as we fold requests ourselves.

The requests a proxy sends on cannot be seen from here, and need not: rules are pure, so the same
rules, sessions and order give the same bodies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from cacheproxy.config import Config
from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.prepare import Plan, prepare
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.fold import run
from cacheproxy.plugin.packages import Packages, choose


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The rules that are on."""

    plan: Plan  #: with them in the order in which they are applied
    toml: str  #: configuration of a proxy that has just these

    @property
    def names(self) -> tuple[str, ...]:
        """The rules' names."""
        return tuple(rule.name for rule in self.plan.rules)


def ruleset(
    settings: Config, with_rules: Iterable[str] = (), without_rules: Iterable[str] = ()
) -> Ruleset:
    """Return the user's own rules, changed by names; raises PluginError, ConfigError."""
    packages = Packages.load(settings.block, settings.plugin)
    known = packages.normalizers(settings.rules(), BUILT_IN)
    more, less = set(with_rules), set(without_rules)
    choose(known, more, less)  # a wrong name is told, also where nothing follows from it
    enable = sorted((set(settings.enable) - less) | more)
    disable = sorted((set(settings.disable) - more) | less)
    return Ruleset(packages.plan(choose(known, enable, disable)), _toml(settings, enable, disable))


@dataclass(frozen=True, slots=True)
class Folded:
    """A request after the rules, and where it belongs."""

    request: Request  #: as it is sent
    session: Session  #: whose it is
    place: Place | None  #: in the session; None: it has no prompt


class Fold:
    """Applies rules to requests one after another, as the proxy does, with a store of its own."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.store = Store(Config().memory << 20)  # as a proxy does by default

    def __call__(self, request: Request) -> Folded:
        """Return ``request`` as it is sent, and remember it."""
        prepared = run(prepare(self._plan.clients.introduce(request), self._plan, self.store))
        turn = prepared.turn or Turn(session_of(prepared.request))
        place = self.store.end(turn.session, self.store.begin(turn, prepared.request), None)
        return Folded(prepared.request, turn.session, None if turn.prompt is None else place)


def _toml(settings: Config, enable: Sequence[str], disable: Sequence[str]) -> str:
    lines = [
        *_members({"enable": enable, "disable": disable}),
        *_members({"block": list(settings.block), "plugin": list(settings.plugin)}),
        *(line for table in settings.rule for line in ("", "[[rule]]", *_members(_fields(table)))),
    ]
    return "\n".join(lines) + "\n"


def _fields(table: Any) -> dict[str, Any]:
    found = msgspec.structs.asdict(table)
    return {name: value for name, value in found.items() if value is not None}


def _members(values: dict[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        # JSON spells texts, flags and lists of texts as TOML does, but for one control character
        yield f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
