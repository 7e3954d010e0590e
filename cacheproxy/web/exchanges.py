"""The last exchanges: a list of figures, and the pages of a single exchange.

GET /_cacheproxy/exchanges, detail/ID, diagnose/ID|last (the report on a turn) and break/ID|last: a
turn that lost the cache, what changed, why, and the cure. A report quotes a few words of the prompt
around a break, and only to those who may see prompts. Longer texts come from memory, and only where
``prompts`` are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from twisted.web.server import Request

from cacheproxy.core.conversation.verdict import Basis, Reason, Verdict
from cacheproxy.core.diagnose.cure import Cure
from cacheproxy.core.diagnose.report import TurnReport, failed
from cacheproxy.core.diagnose.texts import Texts, quoted
from cacheproxy.core.judge.explain import phrase
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.row import listed
from cacheproxy.web.cures import Cures
from cacheproxy.web.pages import UNKNOWN, Json, PageError, found
from cacheproxy.words import capitalised

Report = Callable[[Exchange, Verdict], TurnReport]
_PROOFS = {
    None: None,
    Basis.RENDERED: "The server rendered both prompts for the proxy: they show it.",
    Basis.COUNTED: "The server counted as many tokens as this cause would leave.",
    Basis.TOLD: "The requests, or the server itself, say so.",
}
_CUT = "The server's own count of the prompt shows it."
_OFF = (
    "The prompt's text is hidden: set show_prompts = true, or allow it here until the proxy ends."
)
_NOTHING = "There is no text to show: the requests agree as far as they can be compared."
_OF_REPORT = (
    *("number", "client", "session", "turn", "reason", "path", "byte", "kind", "advice"),
    *("frequency", "says"),
)
"""Members that the page of a break takes from the report unchanged."""


async def exchanges(recent: Iterable[Exchange]) -> Json:
    """Return the list of the ``recent`` exchanges."""
    return {"exchanges": [listed(exchange) for exchange in recent]}


def detail(exchange: Exchange, report: Report) -> Json:
    """Return an exchange's figures and report, without text of its prompt."""
    verdict = exchange.verdict
    said = {} if verdict is None else report(exchange, verdict).as_json()
    said.pop("excerpts", None)
    return {
        **said,
        "number": exchange.number,
        "method": exchange.received.method,
        "path_asked": exchange.received.path,
        "error": exchange.error,
        "edits": [
            {"rule": rule, "count": count, "why": why} for rule, count, why in exchange.edits
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangePages:
    """The pages of one exchange."""

    cures: Cures  #: the pages of cures, which have the last exchanges
    report: Report  #: makes the report on an exchange, as for the dashboard
    option: Callable[[], str]  #: returns the option with which commands find this proxy

    async def detail(self, _: Request, name: str) -> Json:
        """Return the figures and report of the exchange ``name``, without text of its prompt."""
        return detail(found(self.cures.recent, name), self.report)

    async def diagnosis(self, request: Request, name: str) -> Json:
        """Return the report on ``name``, with excerpts for who may see them; PageError (404)."""
        unknown = "no turn has come through this proxy yet" if name == "last" else UNKNOWN
        exchange = found(self.cures.recent, name, unknown)
        if exchange.has_failed:
            raise PageError(failed(exchange), 404)
        if exchange.verdict is None:
            raise PageError(unknown, 404)
        said = self.report(exchange, exchange.verdict).as_json()
        return said if self.cures.prompts.why_not(request) is None else said | {"excerpts": None}

    async def broken(self, request: Request, name: str) -> Json:
        """Return the details of the break ``name``; ``last``: the last one; PageError (404)."""
        exchange = self._last_break() if name == "last" else found(self.cures.recent, name)
        verdict = exchange.verdict
        if verdict is None or verdict.reason is None:
            raise PageError(f"Request {exchange.number} did not lose the cache.", 404)
        report = self.report(exchange, verdict)
        told = report.as_json()
        is_counted = verdict.reason is Reason.CUT and verdict.basis is Basis.COUNTED
        hidden = self.cures.prompts.why_not(request)
        texts, no_texts = (None, hidden) if hidden else await self._texts(exchange, verdict)
        cure, no_cure = (None, hidden) if hidden else await self._cure(exchange)
        return {
            **{name: told[name] for name in _OF_REPORT},
            "at": exchange.wall,
            "label": exchange.session and exchange.session.label,
            "phrase": phrase(str(verdict.reason), report.rewrite or report.kind),
            "proof": _CUT if is_counted else _PROOFS[verdict.basis],
            "equal": report.equal and report.equal.tokens,
            "prompt": report.prompt and report.prompt.tokens,
            "lost": report.lost and report.lost.tokens,
            "lost_seconds": verdict.seconds_lost,
            "texts": texts,
            "hidden": no_texts,
            "show_prompts": self.cures.prompts.as_json(request),
            "cure": cure,
            "no_cure": no_cure,
        }

    def _last_break(self) -> Exchange:
        """Return the last broken turn, side requests aside; raises PageError (404)."""
        broken = (one for one in self.cures.recent if one.reason is not None and not one.side)
        last = max(broken, key=lambda one: one.wall, default=None)
        if last is None:
            raise PageError("No turn has lost the cache since the proxy started.", 404)
        return last

    async def _texts(self, exchange: Exchange, verdict: Verdict) -> tuple[Json | None, str | None]:
        """Return the changed lines by side (``was``, ``now``), or None and the reason."""
        if not self.cures.prompts.on:
            return None, _OFF
        texts = None if verdict.rewrite is not None else await self.cures.texts(exchange)
        if texts is not None:
            return {side: _lines(texts, side) for side in ("was", "now")}, None
        where = verdict.where
        quotes = None if where is None else quoted(where.was, where.now)
        if quotes is None:
            return None, _NOTHING
        excerpt = {side: _lines(quotes, side) for side in ("was", "now")}
        for line in (*excerpt["was"], *excerpt["now"]):
            line["n"] = None  # an excerpt's place in the text is not known
        return excerpt, None

    async def _cure(self, exchange: Exchange) -> tuple[Json | None, str | None]:
        """Return the cure, which quotes the prompt, or None and the reason, if there is any."""
        if exchange.reason is Reason.CUT:  # the server cut the prompt: no part of it is to blame
            return None, None
        try:
            cure = await self.cures.of(exchange)
        except PageError as error:
            return None, f"{capitalised(str(error))}."
        names = [one.name or one.rules[0] for one in cure.found if one.toml or one.rules]
        if not names:
            why = next((one.why for one in cure.found if one.why), None)
            return None, None if why is None else f"No rule: {why}."
        return self._rule(exchange, cure, names), None

    def _rule(self, exchange: Exchange, cure: Cure, names: list[str]) -> Json:
        """Return the cure of ``exchange`` as the page shows it; ``names``: of its rules."""
        why = cure.why_not
        return {
            "rule": ", ".join(dict.fromkeys(names)),
            "toml": "\n".join(cure.tables),
            "tried": " ".join(one.won.text for one in cure.found if one.won is not None) or None,
            "file": cure.file,
            "command": f"cacheproxy diagnose {cure.number} --propose --apply{self.option()}",
            "applicable": why is None,
            "why_not": why,
            "applied": self.cures.applying.is_applied(exchange.number),
        }


def _lines(texts: Texts, side: str) -> list[Json]:
    return [{"n": line.n, "parts": line.parts} for line in getattr(texts, side)]
