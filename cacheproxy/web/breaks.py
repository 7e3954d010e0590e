"""GET /_cacheproxy/break/ID|last: a turn that lost the cache: what changed, why, what cures it.

What the prompts say comes from memory, and only where ``prompts`` are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.conversation.verdict import Basis, Verdict
from cacheproxy.core.diagnose.cure import Cure
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.diagnose.texts import Texts, quoted
from cacheproxy.core.judge.explain import phrase
from cacheproxy.observe.recent import Recent
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.cures import Cures, NoCureError
from cacheproxy.web.pages import Answer, answer, said
from cacheproxy.web.prompts import Prompts

_PROOFS = {
    Basis.RENDERED: "The server rendered both prompts for the proxy: they show it.",
    Basis.COUNTED: "The server counted as many tokens as this cause would leave.",
    Basis.TOLD: "The requests, or the server itself, say so.",
}
_OFF = (
    "The prompt's text is hidden: set show_prompts = true, or allow it here until the proxy ends."
)
_NOTHING = "There is no text to show: the requests agree as far as they can be compared."

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaks:
    """The page of a break."""

    recent: Recent  #: the last exchanges
    cures: Cures  #: the page of rules for what broke
    prompts: Prompts  #: whether lines of a prompt may be shown
    report: Callable[[Exchange, Verdict], TurnReport]  #: as the dashboard's
    option: Callable[[], str]  #: returns what a command needs here

    def __call__(self, request: ProxyRequest, name: str) -> bytes | int:
        """Answer with what is known of the exchange called ``name``; ``last``: that broke last."""

        async def page() -> Answer | None:
            exchange = self._last() if name == "last" else self.recent.find(name)
            if exchange is None and name == "last":
                return said("No turn has lost the cache since the proxy started.", 404)
            if exchange is None:
                return None
            verdict = exchange.verdict
            if verdict is None or verdict.reason is None:
                return said(f"Request {exchange.number} did not lose the cache.", 404)
            return await self._shown(request, exchange, verdict)

        return answer(request, page)

    def _last(self) -> Exchange | None:
        for exchange in reversed(list(self.recent)):
            verdict = exchange.verdict
            if verdict is not None and verdict.reason is not None and not exchange.side:
                return exchange
        return None

    async def _shown(self, request: ProxyRequest, exchange: Exchange, verdict: Verdict) -> Json:
        found = self.report(exchange, verdict)
        told = found.as_json()
        kept = ("number", "client", "session", "turn", "reason", "path", "byte", "kind", "advice")
        texts, hidden = await self._texts(request, exchange, verdict)
        cure, no_cure = await self._cure(request, exchange)
        return {
            **{name: told[name] for name in (*kept, "frequency", "says")},
            "at": exchange.wall,
            "phrase": phrase(str(verdict.reason), found.rewrite or found.kind),
            "proof": None if verdict.basis is None else _PROOFS[verdict.basis],
            "equal": found.equal and found.equal.tokens,
            "prompt": found.prompt and found.prompt.tokens,
            "lost": found.lost and found.lost.tokens,
            "lost_seconds": verdict.seconds_lost,
            "texts": texts,
            "hidden": hidden,
            "show_prompts": self.prompts.as_json(request),
            "cure": cure,
            "no_cure": no_cure,
        }

    async def _texts(
        self, request: ProxyRequest, exchange: Exchange, verdict: Verdict
    ) -> tuple[Json | None, str | None]:
        """Return the lines, or why there are none."""
        why = self.prompts.why_not(request)
        if why is not None:
            return None, why
        if not self.prompts.on:
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
            line["n"] = None  # an excerpt does not tell where it stands
        return excerpt, None

    async def _cure(
        self, request: ProxyRequest, exchange: Exchange
    ) -> tuple[Json | None, str | None]:
        """Return the rule for it, which has words of the prompt; or why there is none."""
        hidden = self.prompts.why_not(request)
        if hidden is not None:
            return None, hidden
        try:
            cure = await self.cures.of(exchange)
        except NoCureError as error:
            return None, _sentence(str(error))
        names = [one.name or one.rules[0] for one in cure.found if one.toml or one.rules]
        if not names:
            why = next((one.why for one in cure.found if one.why), None)
            return None, None if why is None else _sentence(f"no rule: {why}")
        return self._rule(exchange, cure, names), None

    def _rule(self, exchange: Exchange, cure: Cure, names: list[str]) -> Json:
        applied = self.cures.applying.is_applied(exchange.number)
        why = cure.why_not
        return {
            "rule": ", ".join(dict.fromkeys(names)),
            "toml": "\n".join(one.toml for one in cure.found if one.toml),
            "tried": " ".join(one.won.says for one in cure.found if one.won is not None) or None,
            "file": cure.file,
            "command": f"cacheproxy diagnose {cure.number} --propose --apply{self.option()}",
            "applicable": why is None,
            "why_not": why,
            "applied": applied,
        }


def _lines(texts: Texts, side: str) -> list[Json]:
    return [{"n": line.n, "parts": line.parts} for line in getattr(texts, side)]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
