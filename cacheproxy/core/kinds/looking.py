"""A look at a server: its status pages are read for its kind, its memory and its APIs.

Every server is asked for the same pages first; these determine the others (see ServerKind).
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
"""Bytes of a page at most that is parsed, since that is done on the reactor."""
Asking = Generator[str, tuple[int, bytes, str] | None, Answers | None]
"""Yields paths to GET; is sent status, body and header Server of each answer, None without one."""
Said = tuple[int, Any]
"""A page's status, and its JSON value if that was 200."""
_MEASURES = ("n_params", "size", "n_vocab", "n_ctx_train")
"""Members of a model's ``meta`` at llama-server that are the model's, not the server's settings."""
_REMIND = 30
"""Looks after which remembered pages are asked for again, since a restart may be missed."""


def marks() -> dict[str, str]:
    """Return the pages that any model server is recognised by, each with the decisive member."""
    found = dict(kind.recognition.mark for kind in all_kinds()) | {MODELS: "data"}
    return {path: found[path] for path in _of_all() if path in found}


def _of_all() -> dict[str, None]:
    """Return the pages that every server is asked for, in this order."""
    own = (path for one in all_kinds() for path in one.recognition.pages)
    return dict.fromkeys((HEALTH, METRICS, *own))


def identify(answers: Answers) -> ServerFacts:
    """Return the facts about the server that gave these ``answers``."""
    return _recognised(answers)[1]


def _recognised(answers: Answers) -> tuple[ServerKind, ServerFacts]:
    for kind in all_kinds():
        facts = kind.recognised(answers)
        if facts is not None:
            return kind, facts
    return UNKNOWN_SERVER, UNKNOWN_SERVER.recognised(answers) or ServerFacts()


def _wants(path: str, answers: Answers) -> bool:
    """Whether the page at ``path``, which not every server is asked for, can help with this one."""
    kind, _ = _recognised(answers)
    if kind is not UNKNOWN_SERVER:
        return path in kind.recognition.more
    marks = (one.recognition for one in all_kinds() if path in one.recognition.probes)
    return any(one.may_be is None or one.may_be(answers) for one in marks)


def asking(known: Mapping[str, tuple[int, Any]]) -> Asking:
    """Yield the paths of a server's status pages, for the caller to get; return the answers.

    It returns None if the first page is not answered. ``known``: status and JSON value of the pages
    that need not be asked for.
    """
    statuses: dict[str, int] = {}
    pages: dict[str, Any] = {}
    sample: Sample | None = None
    software, is_there, is_web = "", False, False
    of_all = _of_all()
    marks = (one.recognition for one in all_kinds())
    others = dict.fromkeys(path for one in marks for path in (*one.probes, *one.more))
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
    """Return the Look at a server that gave ``answers``; the other arguments: see there."""
    statuses, sample = answers.statuses, answers.sample
    kind, server = _recognised(answers)
    if sample is None and kind.reading.sample is not None:
        sample = kind.reading.sample(answers)
    metrics = MetricsPage.UNKNOWN
    if sample is not None and (statuses.get(METRICS) == 200 or sample is not answers.sample):
        metrics = MetricsPage.ON
    elif statuses.get(METRICS) in ABSENT or statuses.get(METRICS) == 200:
        metrics = MetricsPage.OFF
    loading = statuses.get(HEALTH) == 503 or 503 in statuses.values()
    model = only(answers.pages.get(MODELS), "data")
    served = _name(model.get("id"))
    state = UpstreamState.LOADING if loading else UpstreamState.UP
    if kind is UNKNOWN_SERVER and answers.is_web:
        state = UpstreamState.STRANGE
    meta = model.get("meta")
    found = [number(meta.get(name)) for name in _MEASURES] if isinstance(meta, dict) else []
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
        measures=(" ".join(map(str, found)) if any(found) else None),
        start=sample.start if sample is not None else None,
    )
    # While the server's kind is not known, every kind reads its own pages.
    for one in all_kinds() if kind is UNKNOWN_SERVER else (kind,):
        look = one.reading.look(look, answers) if one.reading.look is not None else look
    return look


def _name(value: Any) -> str | None:
    return value[:120] if isinstance(value, str) and value and value.isprintable() else None


def profile_from_look(look: Look, before: Profile | None = None) -> Profile:
    """Return the profile by ``look``; ``before``: that by earlier looks at the same server.

    A value that a look does not report has not changed.
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
        memory=(kind.reading.memory or _context)(look, known.memory),
        reporting=kind.reporting_of(server.version),
        flag=kind.settings.reports,
        counts_reuse=counts or known.counts_reuse,
        reuses=is_on if not kind.reuse.is_never else False,
        start=look.start or known.start,
        told_by="its status pages",
    )


def _context(look: Look, before: Memory) -> Memory:
    context = look.server.context if look.server is not None else None
    return replace(before, context=context or before.context)


def lasting() -> tuple[str, ...]:
    """Return the pages that do not change while the server runs; the cheapest first."""
    return (*(path for kind in all_kinds() for path in kind.recognition.lasting), MODELS)


class KnownPages:
    """The pages of one upstream that need no second request, with their answers.

    Each look calls ``begin``, ``take`` for every page, and ``settle``. A missing page can appear
    only with another server, or after a restart; the list of models changes only then, too. For
    some servers each request is costly.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all pages: the next server may be another."""
        self._said: dict[str, Said] = {}
        self._looks = 0
        self._who: Identity | None = None
        self._kind = self._software = ""

    def begin(self) -> Mapping[str, Said]:
        """Begin a look: return the pages that need not be asked for in it.

        At least one page always is asked for, to see whether the server is up.
        """
        self._looks += 1
        if self._looks > _REMIND:
            self._looks = 1
            self._said = {path: said for path, said in self._said.items() if said[0] in ABSENT}
        known = dict(self._said)
        if kind_called(self._kind).settings.metrics and not self._reports_start:
            # The beginning of the counters must be known exactly, but older servers, which do not
            # report their start, may be restarted within a second, now with --metrics.
            known.pop(METRICS, None)
        if HEALTH in known:
            alive = (path for path in lasting() if path in known and known[path][0] == 200)
            known.pop(next(alive, HEALTH))
        return known

    def take(self, path: str, status: int, value: Any) -> None:
        """Remember a page's answer, if it does not change while the server runs."""
        if status in ABSENT or (status == 200 and path in lasting()):
            self._said[path] = status, value

    def settle(self, look: Look, software: str = "") -> tuple[Look, bool]:
        """Return ``look`` without uncertain values, and whether to ask for all pages again.

        That is done at once if it shows another server, or a restart: the beginning of its pages,
        above all of its counters, must be known exactly. ``software``: the header Server of its
        answers.
        """
        if look.state is not UpstreamState.UP:
            self.forget()
            return look, False
        is_sure = look.start is not None or not self._reports_start
        self._who, is_another = identity_of(look, self._who)
        if is_another or (self._software and software and software != self._software):
            self.forget()
            return look, True
        self._software = software or self._software
        if look.server is not None:
            self._kind = look.server.kind
        if METRICS in self._said and look.sample is None and not is_sure:
            # the server may have been restarted
            look = replace(look, metrics=MetricsPage.UNKNOWN)
        return look, False

    @property
    def _reports_start(self) -> bool:
        return self._who is not None and self._who[0] is not None


def question(request: Request, dialect: Dialect) -> Request:
    """Return a request that a server of ``dialect`` refuses without evaluating anything.

    It has the credentials of ``request``, since some servers check these first.
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
    """Return whether the answer to ``question`` comes from a server of its dialect.

    None: the answer does not show it (a gateway whose server is down). LM Studio answers 200 to
    every path, with ``Unexpected endpoint`` in the body; a server that knows the path may answer
    404 about a model that it does not have, in Anthropic's form.
    """
    if status in (429, 502, 503, 504, 508):
        return None
    if status in (404, 405, 410, 501):
        return b'"not_found_error"' in body and b"model" in body
    return not (status == 200 and b"Unexpected endpoint" in body)
