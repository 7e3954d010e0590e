"""The passes: the same requests straight to the server, then through the rules, each cold.

This process applies the same rules as the proxy in between, since it cannot see the requests that
the proxy sends on. Rules are pure, so the same rules, sessions and order give the same bodies.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from cacheproxy.child.process import ChildProxy
from cacheproxy.config import Config
from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.fold import run as apply_rules
from cacheproxy.http_client import Site
from cacheproxy.plugin.packages import Packages, choose
from cacheproxy.record.exchange import Exchange
from cacheproxy_replay import Cold, Via
from cacheproxy_replay.plan import ReplayPlan, erase, headers_of, marked, new_mark
from cacheproxy_replay.server import send, text_of

OnStep = Callable[[str, int], None]
"""Callback for progress: the current activity, and the number of requests done since the last."""

AS_CAPTURED, THROUGH = "as captured", "through cacheproxy"


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The rules that are on."""

    plan: Plan  #: plan with these rules, in the order in which they are applied
    toml: str  #: configuration of a proxy with these rules alone

    @property
    def names(self) -> tuple[str, ...]:
        """The rules' names."""
        return tuple(rule.name for rule in self.plan.rules)


def ruleset(
    settings: Config, with_rules: Iterable[str] = (), without_rules: Iterable[str] = ()
) -> Ruleset:
    """Return the user's own rules, with those named switched on or off.

    Raises PluginError, ConfigError.
    """
    packages = Packages().load(settings.block, settings.plugin)
    known = packages.normalizers(settings.rules(), BUILT_IN)
    more, less = set(with_rules), set(without_rules)
    choose(known, more, less)  # raises for a wrong name, even one without effect
    enable = sorted((set(settings.enable) - less) | more)
    disable = sorted((set(settings.disable) - more) | less)
    tables = [msgspec.structs.asdict(table) for table in settings.rule]
    lines = [
        *_members({"enable": enable, "disable": disable}),
        *_members({"block": list(settings.block), "plugin": list(settings.plugin)}),
        *(line for table in tables for line in ("", "[[rule]]", *_members(table))),
    ]
    return Ruleset(packages.plan(choose(known, enable, disable)), "\n".join(lines) + "\n")


class Fold:
    """The rules, applied to one request after another as in the proxy, with their own store."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.store = Store(Config().memory << 20, hears=False)  # as a proxy does by default

    def __call__(self, request: Request) -> tuple[Request, Session, Place | None]:
        """Return ``request`` as it is sent, its session, and its place there if it has a prompt."""
        prepared = apply_rules(
            prepare(self._plan.clients.introduce(request), self._plan, self.store)
        )
        turn = prepared.turn or Turn(session_of(prepared.request))
        place = self.store.end(turn.session, self.store.begin(turn, prepared.request), None)
        return prepared.request, turn.session, None if turn.prompt is None else place


def _members(values: dict[str, Any]) -> Iterator[str]:
    """Yield a TOML line for each of ``values`` that is not None."""
    for name, value in values.items():
        if value is None:
            continue
        # JSON spells texts, flags and lists of texts like TOML, except for one control character
        yield f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


@dataclass(slots=True)
class ReplayRun:
    """The two passes of a plan. An interruption leaves the measured exchanges in place."""

    plan: ReplayPlan  #: requests to send
    site: Site  #: the server; its headers have the key
    ruleset: Ruleset  #: rules of the second pass
    cold: Cold = Cold.MARK  #: way to start each pass with a cold cache
    via: Via = Via.PROXY  #: process that applies the rules
    edit_remote: bool = False  #: the proxy's setting of this name
    captured: list[Exchange] = field(default_factory=list)  #: exchanges of the first pass
    through: list[Exchange] = field(default_factory=list)  #: exchanges of the second pass

    @property
    def passes(self) -> tuple[list[Exchange], list[Exchange]]:
        """The exchanges of both passes so far."""
        return self.captured, self.through

    def answered_alike(self) -> tuple[int, int]:
        """Return the number of equal answers in both passes, and the number of those compared."""
        before = {turn.number: turn for turn in self.captured}
        pairs = [(before[turn.number], turn) for turn in self.through]
        good = [(one, other) for one, other in pairs if one.error is None and other.error is None]
        return sum(text_of(one) == text_of(other) for one, other in good), len(good)

    def run(self, progress: OnStep) -> None:
        """Do both passes. Raises CommandError if it cannot go on."""
        items = placed(self.plan, self.ruleset)
        here, fold = self.site.url, Fold(self.ruleset.plan)
        self._pass(self.captured, here, Fold(self.ruleset.plan.only()), items, progress)
        if self.via is Via.RULES:
            self._pass(self.through, here, fold, items, progress)
            return
        progress("starting the proxy", 0)
        with self._proxied() as url:
            self._pass(self.through, url, fold, items, progress)

    def _pass(
        self,
        done: list[Exchange],
        url: str,
        fold: Fold,
        items: Sequence[Exchange],
        progress: OnStep,
    ) -> None:
        """Send all requests to ``url``: the server, or a proxy with the same rules as ``fold``."""
        mark = new_mark() if self.cold is Cold.MARK else None
        if mark is None:
            erase(self.site)
        name = AS_CAPTURED if done is self.captured else THROUGH
        for item in items:
            progress(f"request {item.number} of {len(items)} {name}", int(bool(done)))
            asked = item.received if mark is None else marked(item.received, mark)
            sent, _, _ = fold(asked)
            turn = replace(item, received=asked, sent=sent, upstream=url)
            given = sent if url == self.site.url else asked
            send(Site(url, headers_of(given, self.site.headers)), given, turn)
            done.append(turn.finish())
        progress(f"done {name}", 1)

    @contextmanager
    def _proxied(self) -> Iterator[str]:
        """Start the proxy with the rules in front of the server and yield its URL."""
        with tempfile.TemporaryDirectory(prefix="cacheproxy-replay-") as folder:
            config = Path(folder) / "config.toml"
            config.write_text(self.ruleset.toml, encoding="utf-8")
            options = ["--config", str(config), *(["--edit-remote"] if self.edit_remote else [])]
            with ChildProxy(self.site.url, *options) as proxy:
                yield proxy.url


def placed(plan: ReplayPlan, ruleset: Ruleset) -> list[Exchange]:
    """Return the requests with their sessions and places there, as the proxy assigns them.

    The lane of a request without a prompt is -1.
    """
    fold = Fold(ruleset.plan)
    found = []
    # The conversation's lane is known only at the end: a title request comes before turn 1.
    for item, (_, session, place) in [(item, fold(item.received)) for item in plan.items]:
        known = fold.store.conversation(session)
        is_side = known is not None and (place is None or place.lane != known.main)
        lane, turn = (-1, 1) if place is None or known is None else place[:2]
        where = Place(lane, turn, is_side)
        found.append(replace(item, session=session, place=where, turn=turn, side=is_side))
    return found


def chosen(
    plan: ReplayPlan, ruleset: Ruleset, session: str | None, *, side: bool
) -> tuple[Exchange, ...]:
    """Return the items of ``session`` (an id or its start; None: all); ``side``: also side ones."""
    return tuple(
        item
        for item, at in zip(plan.items, placed(plan, ruleset), strict=True)
        if (side or not at.side)
        and (session is None or (at.session is not None and is_named(at.session, session)))
    )


def is_named(session: Session, name: str) -> bool:
    """Return whether ``name`` is the start of the session's full name or of its id."""
    return session.name.startswith(name) or session.id.startswith(name)
