"""The passes: the same requests straight to the server, then through the rules, each cold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cacheproxy.asking import Site
from cacheproxy.child.proxy import ChildProxy
from cacheproxy.core.conversation.conversation import Conversation
from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.session import Session
from cacheproxy.record.exchange import Exchange
from cacheproxy_replay import Cold, Via
from cacheproxy_replay.answer import text_of
from cacheproxy_replay.cold import erase, marked, new_mark
from cacheproxy_replay.plan import PlannedRequest, ReplayPlan, headers_of
from cacheproxy_replay.rules import Fold, Folded, Ruleset
from cacheproxy_replay.wire import send

OnStep = Callable[[str, int], None]
"""Called with what is being done, and with how many requests were done since the last call."""

AS_CAPTURED, THROUGH = "as captured", "through cacheproxy"


@dataclass(slots=True)
class ReplayRun:
    """Sends a plan to a server twice. What was measured stays when it is interrupted."""

    plan: ReplayPlan  #: what is sent
    site: Site  #: the server; its headers have the key
    ruleset: Ruleset  #: what the second pass goes through
    cold: Cold = Cold.MARK  #: how each pass starts
    via: Via = Via.PROXY  #: what applies the rules
    edit_remote: bool = False  #: as in the proxy's configuration
    captured: list[Exchange] = field(default_factory=list)  #: what the first pass measured
    through: list[Exchange] = field(default_factory=list)  #: what the second pass measured

    @property
    def passes(self) -> tuple[list[Exchange], list[Exchange]]:
        """Both passes, as far as they came."""
        return self.captured, self.through

    def answered_alike(self) -> tuple[int, int]:
        """Return how many requests were answered alike in both passes, and of how many."""
        before = {turn.number: turn for turn in self.captured}
        pairs = [(before[turn.number], turn) for turn in self.through]
        good = [(one, other) for one, other in pairs if one.error is None and other.error is None]
        return sum(text_of(one) == text_of(other) for one, other in good), len(good)

    def run(self, progress: OnStep) -> None:
        """Do both passes. Raises CommandError where it cannot go on."""
        places = places_of(self.plan, self.ruleset)
        self._pass(self.captured, self.site.url, Fold(self.ruleset.plan.only()), places, progress)
        fold = Fold(self.ruleset.plan)
        if self.via is Via.RULES:
            self._pass(self.through, self.site.url, fold, places, progress)
            return
        progress("starting the proxy", 0)
        with self._proxied() as url:
            self._pass(self.through, url, fold, places, progress)

    def _pass(
        self,
        done: list[Exchange],
        url: str,
        fold: Fold,
        places: list[tuple[Session, Place]],
        progress: OnStep,
    ) -> None:
        """Send all requests to ``url``: the server, or a proxy that does what ``fold`` does."""
        mark = new_mark() if self.cold is Cold.MARK else None
        if mark is None:
            erase(self.site)
        name = AS_CAPTURED if done is self.captured else THROUGH
        count = len(self.plan.items)
        for item, (session, place) in zip(self.plan.items, places, strict=True):
            progress(f"request {item.number} of {count} {name}", int(bool(done)))
            asked = item.request if mark is None else marked(item.request, mark)
            sent = fold(asked).request
            turn = Exchange(
                asked,
                number=item.number,
                session=session,
                place=place,
                turn=place.turn,
                side=place.is_side,
                sent=sent,
                upstream=url,
            )
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


def places_of(plan: ReplayPlan, ruleset: Ruleset) -> list[tuple[Session, Place]]:
    """Return whose each request is, as the proxy tells them apart."""
    fold = Fold(ruleset.plan)
    folded = [fold(item.request) for item in plan.items]
    # which lane is the conversation is known only at the end: a title comes before turn 1
    return [_place(one, fold.store.conversation(one.session)) for one in folded]


def _place(folded: Folded, known: Conversation | None) -> tuple[Session, Place]:
    """Return whose it is, and where in it; the lane of one without a prompt is -1."""
    if folded.place is None or known is None:
        return folded.session, Place(-1, 1, is_side=known is not None)
    lane, turn = folded.place.lane, folded.place.turn
    return folded.session, Place(lane, turn, is_side=lane != known.main)


def chosen(
    plan: ReplayPlan, ruleset: Ruleset, session: str | None, *, side: bool
) -> tuple[PlannedRequest, ...]:
    """Return the items of ``session`` (an id, or the start of one), with side requests or not."""
    places = places_of(plan, ruleset)
    return tuple(
        item
        for item, (whose, place) in zip(plan.items, places, strict=True)
        if (side or not place.is_side) and (session is None or is_named(whose, session))
    )


def is_named(session: Session, name: str) -> bool:
    """Whether ``name`` is the session's label, or its id, or the start of one."""
    return session.name.startswith(name) or session.id.startswith(name)
