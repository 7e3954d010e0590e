"""The lines that ``cacheproxy run`` prints before the client starts and after it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from cacheproxy.cli.running import get_json
from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.core.diagnose.cure import Cure
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.kinds.placement import DOES, Late
from cacheproxy.http_client import (
    CommandError,
    NoAnswerError,
    Site,
    is_loopback,
    proxy_option,
    shown,
)
from cacheproxy.words import counted, span, visible

_REQUESTS, _DATA = "/_cacheproxy/requests", "/_cacheproxy/data?window=15m"
_CURE, _DIAGNOSIS = "/_cacheproxy/cure/", "/_cacheproxy/diagnose/"
_LOOKS, _PAUSE = 10, 0.2
"""Times that the rows are asked for again at most, and seconds before each."""
_NO_CURE = ("nothing", "see", "see all")

Json = dict[str, Any]


def first_line(page: Json, client: str) -> str:
    """Return the first line: the server, and what is done for ``client``; ``page``: health page."""
    first = page["upstream"]
    server = first.get("server") or {}
    url = str(first["url"])
    where = f":{urlsplit(url).port or 80}" if is_loopback(url) else shown(url)
    context = server.get("context")
    facts = [server.get("model"), f"{context:,} context" if isinstance(context, int) else None]
    told = ", ".join(filter(None, facts))
    line = f"{server.get('kind') or 'model server'} at {where}" + (f" ({told})" if told else "")
    others = len(page["upstreams"]) - 1
    line += f" and {counted(others, 'other server')}" if others > 0 else ""
    return visible("; ".join([line, *_handled(page, client)]))


def _handled(page: Json, client: str) -> Iterator[str]:
    """Yield what the proxy does for ``client``: about late system messages, and by its rules."""
    late = (page.get("placement") or {}).get("late")
    if late in set(Late) and Late(late).harms:
        yield f"it {DOES[late]}: handled"
    rules = [name for name, whose in (page.get("clients") or {}).items() if whose == client]
    if rules:
        yield f"{counted(len(rules), 'rule')} for {client}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a client: its requests since it was started."""

    site: Site  #: the proxy
    client: str  #: its name in sessions
    began: float  #: start of the run, seconds since the epoch
    is_own: bool  #: whether the proxy was started for this run, so that all requests are its own

    def last_line(self, *, cure: bool) -> str:
        """Return the summary of the run, or that the proxy has ended; "" if no prompt came.

        ``cure``: write the rule that cures what broke into the config file.
        """
        try:
            rows = self._settled()
        except (CommandError, NoAnswerError):
            return "the proxy ended before the client did"
        if not rows:
            return ""
        turns = [row for row in rows if row["turn"] and not row["side"] and not row["failed"]]
        breaks = [row for row in turns if row["reason"] is not None]
        said = [counted(len(turns), "turn"), *_reuse(rows)]
        failed = sum(row["failed"] for row in rows)
        said += [f"{counted(failed, 'request')} refused"] if failed else []
        if not breaks:
            return visible(f"{', '.join([*said, 'no break'])}. {self._crowd()}".rstrip())
        kinds = dict.fromkeys(str(row["shape"] or row["reason"]) for row in breaks)
        said.append(f"{counted(len(breaks), 'break')} ({', '.join(kinds).replace('_', ' ')})")
        return visible(f"{', '.join(said)}. {self._cured(breaks, cure=cure)}".rstrip())

    def is_silent(self) -> bool:
        """Whether no prompt has come so far, and none is being answered; False if not known."""
        try:
            data = get_json(self.site.url, _DATA, self.site.headers)
            return not data["prefills"] and not any(self._rows())
        except (CommandError, NoAnswerError):
            return False

    def _settled(self) -> list[Json]:
        """Return the rows, read until no more come: a broken last turn is still being examined."""
        rows = list(self._rows())
        for _ in range(_LOOKS):
            time.sleep(_PAUSE)
            before, rows = rows, list(self._rows())
            if len(rows) == len(before):
                break
        return rows

    def _rows(self) -> Iterator[Json]:
        """Yield the run's requests with a prompt, from the proxy's pages; raises CommandError."""
        query: Json = {"from": int(self.began)}
        while query.get("before", 0) is not None:
            page = get_json(self.site.url, f"{_REQUESTS}?{urlencode(query)}", self.site.headers)
            for row in page["requests"]:
                is_prompt = row["turn"] or (row["failed"] and row["client"])
                is_ours = self.is_own or row["client"] == self.client
                if is_prompt and is_ours and row["at"] >= self.began:
                    yield row
            query["before"] = page["next"]

    def _cured(self, breaks: list[Json], *, cure: bool) -> str:
        """Return a sentence on the costliest break: its cure (applied if ``cure``), else advice."""
        dearest = max(breaks, key=lambda row: row["lost"] or 0)
        number, option = dearest["number"], proxy_option(self.site.url)
        page = f"{_CURE}{number}"
        try:
            if Cure.from_json(get_json(self.site.url, page, self.site.headers)).why_not is None:
                if cure:
                    done = get_json(self.site.url, f"{page}/apply", self.site.headers, post=True)
                    return f"Cured: {done['said']}"
                if self.is_own:
                    return f"Cure, when it breaks again: cacheproxy run --cure {self.client}"
                return f"Cure: cacheproxy diagnose {number} --propose --apply{option}"
        except CommandError:
            pass  # no rule can cure it
        if dearest["reason"] == Reason.EVICTED and (crowd := self._crowd()):
            return crowd
        return self._advice(number) if self.is_own else f"Why: cacheproxy diagnose {number}{option}"

    def _crowd(self) -> str:
        """Return a sentence on the setting that conversations need here, "" if none is known."""
        try:
            cards = get_json(self.site.url, _DATA, self.site.headers)["todo"]
        except (CommandError, NoAnswerError):
            return ""
        return next((card["why"] for card in cards if card["id"] == "crowd"), "")

    def _advice(self, number: int) -> str:
        """Return the first advice on request ``number`` with something to do, "" if none has."""
        try:
            page = get_json(self.site.url, f"{_DIAGNOSIS}{number}", self.site.headers)
        except CommandError:
            return ""
        advice = TurnReport.from_json(page).advice
        return next((f"{one.do}: {one.why}" for one in advice if one.do not in _NO_CURE), "")


def _reuse(rows: list[Json]) -> Iterator[str]:
    """Yield ``90 % reused``, or that it is not told, and, from 1 s on, ``about 3 min saved``."""
    reused, evaluated = (sum(row[name] or 0 for row in rows) for name in ("reused", "evaluated"))
    known = reused + evaluated
    yield f"{reused / known:.0%} reused".replace("%", " %") if known else "reuse not told"
    saved = sum(row["saved_seconds"] or 0 for row in rows)
    if saved >= 1:
        yield f"about {span(saved)} saved"
