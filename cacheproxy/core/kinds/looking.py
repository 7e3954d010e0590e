"""A look at a server: what it is asked for, who it is, what it tells of its memory and its APIs.

Every server gets the same questions first; what they say decides on the others (see ServerKind).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import VERSION_HEADERS, beside
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.headers import credentials_in
from cacheproxy.core.kinds.kind import ServerKind
from cacheproxy.core.kinds.known import all_kinds, kind_called
from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.core.kinds.profile import Memory, Profile, ServerFacts
from cacheproxy.core.kinds.status import (
    ABSENT,
    HEALTH,
    METRICS,
    MODELS,
    Answers,
    Identity,
    Look,
    MetricsPage,
    Sample,
    UpstreamState,
    identity_of,
    number,
    only,
)
from cacheproxy.core.kinds.unknown import UNKNOWN_SERVER
from cacheproxy.core.prompt.request import Request

_LARGEST = 512 << 10
"""Bytes of a page that is read: it is read on the reactor."""
Asking = Generator[str, tuple[int, bytes, str] | None, Answers | None]
"""Yields paths to GET; takes of each answer the status, the body and the header Server, or None."""
Said = tuple[int, Any]
"""A page's status, and its JSON value if that was 200."""
_MEASURES = ("n_params", "size", "n_vocab", "n_ctx_train")
"""What llama-server lists of a model under ``meta``; what it runs with stands there, too."""
_REMIND = 30
"""Looks after which they are asked for again: not every restart shows."""


def marks() -> dict[str, str]:
    """Return the pages by which any model server is told, each with the member that tells."""
    found = dict(kind.mark for kind in all_kinds()) | {MODELS: "data"}
    return {path: found[path] for path in _of_all() if path in found}


def _of_all() -> dict[str, None]:
    """Return the pages that every server is asked for, in this order."""
    return dict.fromkeys((HEALTH, METRICS, *(path for one in all_kinds() for path in one.pages)))


def identify(answers: Answers) -> ServerFacts:
    """Return what the server that gave these answers says of itself."""
    return _recognised(answers)[1]


def _recognised(answers: Answers) -> tuple[ServerKind, ServerFacts]:
    for kind in all_kinds():
        facts = kind.recognised(answers)
        if facts is not None:
            return kind, facts
    return UNKNOWN_SERVER, UNKNOWN_SERVER.recognised(answers) or ServerFacts()


def _wants(path: str, answers: Answers) -> bool:
    """Whether a page that not every server is asked for can tell more of this one."""
    kind, _ = _recognised(answers)
    if kind is not UNKNOWN_SERVER:
        return path in kind.more
    asking = (one for one in all_kinds() if path in one.probes)
    return any(one.may_be is None or one.may_be(answers) for one in asking)


def asking(known: Mapping[str, tuple[int, Any]]) -> Asking:
    """Ask a server for its status pages, whoever gets the paths that this yields.

    It returns what they say; None where the first that is asked for does not answer. ``known``: the
    status and the JSON value of those that need not be asked for.
    """
    statuses: dict[str, int] = {}
    pages: dict[str, Any] = {}
    sample: Sample | None = None
    software, is_there, is_web = "", False, False
    of_all = _of_all()
    others = dict.fromkeys(path for one in all_kinds() for path in (*one.probes, *one.more))
    for path in of_all | others:
        if path in known:
            statuses[path], value = known[path]
            pages |= {path: value} if value is not None else {}
            continue
        if path not in of_all and not _wants(path, Answers(statuses, pages, sample, software)):
            continue
        answer = yield path
        if answer is None:
            if not is_there:
                return None
            continue
        is_there = True
        status, body, said = answer
        statuses[path], software = status, software or said
        is_web |= path == MODELS and status == 200 and body.lstrip()[:1] == b"<"
        if status == 200 and len(body) <= _LARGEST:
            if path == METRICS:
                sample = sample_of(body.decode("utf-8", "replace"))
            elif path != HEALTH:
                pages[path] = parsed(body)
    return Answers(statuses, pages, sample, software, is_web)


def look_of(url: str, wall: float, moment: float, answers: Answers) -> Look:
    """Return the look at a server that answered; arguments as in Look."""
    statuses, sample = answers.statuses, answers.sample
    metrics = MetricsPage.UNKNOWN
    if statuses.get(METRICS) == 200 and sample is not None:
        metrics = MetricsPage.ON
    elif statuses.get(METRICS) in ABSENT or statuses.get(METRICS) == 200:
        metrics = MetricsPage.OFF
    loading = statuses.get(HEALTH) == 503 or 503 in statuses.values()
    model = only(answers.pages.get(MODELS), "data")
    served = _name(model.get("id"))
    kind, server = _recognised(answers)
    state = UpstreamState.LOADING if loading else UpstreamState.UP
    if kind is UNKNOWN_SERVER and answers.is_web:
        state = UpstreamState.STRANGE
    look = Look(
        url=url,
        wall=wall,
        moment=moment,
        state=state,
        metrics=MetricsPage.UNKNOWN if loading else metrics,
        sample=sample,
        server=server,
        served=served or (sample.model if sample is not None else None),
        file=model.get("root") if isinstance(model.get("root"), str) else None,
        measures=_measures(model.get("meta")),
        start=sample.start if sample is not None else None,
    )
    # Which kind it is may not be known yet; each reads its own pages.
    for one in all_kinds() if kind is UNKNOWN_SERVER else (kind,):
        look = one.look(look, answers) if one.look is not None else look
    return look


def _name(value: Any) -> str | None:
    return value[:120] if isinstance(value, str) and value and value.isprintable() else None


def _measures(meta: Any) -> str | None:
    """Return what tells apart two models of one name."""
    found = [number(meta.get(name)) for name in _MEASURES] if isinstance(meta, dict) else []
    return " ".join(map(str, found)) if any(found) else None


def profile_from_look(look: Look, before: Profile | None = None) -> Profile:
    """Return what ``look`` tells; ``before``: what an earlier look at the same server told.

    What a look does not say has not changed.
    """
    server, known = look.server, before or Profile()
    if server is None:
        return known
    kind, sample = kind_called(server.kind), look.sample
    cache = sample.cache if sample is not None else None
    counts = sample is not None and sample.figures.reused is not None
    is_on = known.reuses if cache is None else cache.reuses
    return Profile(
        server=server,
        memory=(kind.memory or _context)(look, known.memory),
        reporting=kind.reporting_of(server.version),
        flag=kind.flag,
        counts_reuse=counts or known.counts_reuse,
        reuses=is_on if not kind.keeps_none else False,
        start=look.start or known.start,
        told_by="its status pages",
    )


def _context(look: Look, before: Memory) -> Memory:
    context = look.server.context if look.server is not None else None
    return replace(before, context=context or before.context)


def lasting() -> tuple[str, ...]:
    """Return pages that say the same for as long as the server runs; the cheapest first."""
    return (*(kind.version_page for kind in all_kinds() if kind.version_page), MODELS)


class KnownPages:
    """Which pages of one upstream need no second request, and what they said.

    ``begin`` each look, ``take`` what its pages say, ``settle`` it. A missing page can appear only
    with another server, or after a restart; the list of models changes only then, too. For some
    servers each request is costly.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing: whoever comes back may be another."""
        self._said: dict[str, Said] = {}
        self._looks = 0
        self._who: Identity | None = None
        self._kind = self._software = ""

    def begin(self) -> Mapping[str, Said]:
        """Begin a look: return what need not be asked for in it.

        Something always is: whether the server is there must be seen.
        """
        self._looks += 1
        if self._looks > _REMIND:
            self._looks = 1
            self._said = {path: said for path, said in self._said.items() if said[0] in ABSENT}
        known = dict(self._said)
        if kind_called(self._kind).metrics and not self._tells_start:
            # From when it counts must be known exactly, and it may be started anew within a
            # second, then with --metrics: an older one, which does not tell.
            known.pop(METRICS, None)
        if HEALTH in known:
            alive = (path for path in lasting() if path in known and known[path][0] == 200)
            known.pop(next(alive, HEALTH))
        return known

    def take(self, path: str, status: int, value: Any) -> None:
        """Remember what a page said, if that is worth it."""
        if status in ABSENT or (status == 200 and path in lasting()):
            self._said[path] = status, value

    def settle(self, look: Look, software: str = "") -> tuple[Look, bool]:
        """Return ``look`` without what it does not tell, and whether all is to be asked for anew.

        That is at once, when another server, or another start of it, is seen: from when its
        pages are there must be known exactly, above all its counters. ``software``: how it calls
        itself in each answer.
        """
        if look.state is not UpstreamState.UP:
            self.forget()
            return look, False
        is_sure = look.start is not None or not self._tells_start
        self._who, is_another = identity_of(look, self._who)
        if is_another or (self._software and software and software != self._software):
            self.forget()
            return look, True
        self._software = software or self._software
        if look.server is not None:
            self._kind = look.server.kind
        if METRICS in self._said and not is_sure:  # it may have been started anew
            look = replace(look, metrics=MetricsPage.UNKNOWN)
        return look, False

    @property
    def _tells_start(self) -> bool:
        return self._who is not None and self._who[0] is not None


def question(request: Request, dialect: Dialect) -> Request:
    """Return a request that a server of ``dialect`` turns down without evaluating anything.

    It has the credentials of ``request``, since some servers look at these first.
    """
    headers = credentials_in(request.headers, VERSION_HEADERS)
    return replace(
        request,
        method="POST",
        target=beside(request.path, dialect),
        headers=(*headers, (b"Content-Type", b"application/json")),
        body=b"{}",
    )


def is_served(status: int, body: bytes) -> bool | None:
    """Return whether the answer to ``question`` is that of a server of its dialect.

    None: it does not tell (a gateway whose server is down). LM Studio answers 200 to every path
    and says ``Unexpected endpoint`` in the body; a server that knows the path may answer 404 to
    a model it does not have, in Anthropic's form.
    """
    if status in (429, 502, 503, 504, 508):
        return None
    if status in (404, 405, 410, 501):
        return b'"not_found_error"' in body and b"model" in body
    return not (status == 200 and b"Unexpected endpoint" in body)
