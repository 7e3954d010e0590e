"""The fold of a request through the normalizers, one at a time, with a report on each.

``fold``, and what awaits it (``prepare``, ``Plan.session``), are coroutines without an event loop.
A driver runs them: it calls ``advance``, which returns at each ``await`` of one of two things, and
at the end with the result. The drivers are ``run`` and, in the proxy, ``Normalizing.prepare``.

- PluginCall: code of others, which may block. The driver calls its ``function`` where it likes (the
  proxy: in a thread, with a deadline; ``run``: at once) and gives the result to the next
  ``advance``. If there is none, it gives a GivenUpError, which is raised at the ``await``.
- SLOW_PATTERN: there is nothing to call. A rule's pattern has exceeded its time, and the patterns
  after it may do so: the driver gives None, and may call the next ``advance`` in a thread.

An exception of the coroutine comes out of ``advance``. The fold itself raises none on account of a
rule, whatever the rule raises (law 4); only a KeyboardInterrupt, which may be the user's, passes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from cacheproxy.core.document.edits import Edit, splice, splices_of
from cacheproxy.core.document.search import SlowPatternError
from cacheproxy.core.document.words import Words
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CompiledRule, Normalizer, compiled
from cacheproxy.core.rules.rule import Rule

MOST_EDITS = 10_000
"""Edits of one CodeRule in one request at most: a generator may be endless."""
_T = TypeVar("_T")
_MOST_ERROR = 300


class RuleReport(Struct, frozen=True):
    """The edits, or the failure, of one normalizer in one request."""

    rule: str  #: name of the normalizer
    edits: tuple[Edit, ...] = ()  #: edits that it made
    error: str | None = None  #: reason why it was left out, None if it was not
    is_slow: bool = False  #: whether a Rule's pattern took too long: it would in the next request


class Normalized(NamedTuple):
    """The result of a fold."""

    request: Request  #: request after all normalizers: the same object if none changed it
    reports: tuple[RuleReport, ...] = ()  #: a report on each that made edits, or failed


class GivenUpError(Exception):
    """A PluginCall without a result. Its text is the reason; empty if that was reported before."""


@dataclass(frozen=True, slots=True)
class PluginCall(Generic[_T]):
    """An awaitable call of others' code, which the driver makes (see above).

    ``await`` returns the result of ``function``, or raises the driver's GivenUpError.
    """

    name: str  #: name of the rule or hook in the log
    function: Callable[[], _T]  #: function that the driver calls, without arguments

    def __await__(self) -> Generator[PluginCall[_T], _T | GivenUpError, _T]:
        """Yield the call to the driver; return the result that it sends, or raise its error."""
        given = yield self
        if isinstance(given, GivenUpError):
            raise given
        return given


SLOW_PATTERN: PluginCall[None] = PluginCall("", lambda: None)
"""The call awaited after a pattern took too long: the driver may go on in a thread (see above)."""


def advance(work: Coroutine[PluginCall[Any], Any, _T], given: Any = None) -> _T | PluginCall[Any]:
    """Run ``work`` up to its next PluginCall, which is returned, or to its end: then its result.

    ``given``: result of the PluginCall before, or a GivenUpError; None at the start of ``work``.
    """
    try:
        return work.send(given)
    except StopIteration as end:
        result: _T = end.value
        return result


def run(work: Coroutine[PluginCall[Any], Any, _T]) -> _T:
    """Return the result of ``work``, driven here: each PluginCall is made at once, unguarded."""
    step = advance(work)
    while isinstance(step, PluginCall):
        step = advance(work, step.function())
    return step


def normalize(
    request: Request, normalizers: Iterable[Normalizer], previous: Request | None = None
) -> Normalized:
    """Return ``request`` after those ``normalizers`` that are for its client, all run unguarded."""
    own = [one for one in normalizers if is_for(one, request)]
    request.searched_for(words_of(own))
    return run(fold(request, compiled(own), previous))


def words_of(normalizers: Iterable[Normalizer]) -> Words:
    """Return the literals of ``normalizers``, for one search that finds them all."""
    return _words_of(tuple(dict.fromkeys(text for one in normalizers for text in one.literals)))


@lru_cache(maxsize=64)
def _words_of(texts: tuple[str, ...]) -> Words:
    return Words(texts)


async def fold(
    request: Request, rules: Iterable[CompiledRule], previous: Request | None = None
) -> Normalized:
    """Return ``request`` after ``rules``, each of which gets the result of the ones before it.

    The caller has chosen ``rules`` for the request's client, and has had the request searched for
    their literals (``words_of``). ``previous``: the session's request before. A rule that fails, or
    whose edits cannot be made, is left out; its report has the error. A body that is no JSON object
    stays as it is. A rule that is neither a Rule nor ``quick`` is awaited as a PluginCall, with
    parsed JSON of its own.
    """
    reports: list[RuleReport] = []
    held: frozenset[Any] | None = None  # literals in the body as it is now
    for rule, literals, is_here in rules:
        if literals:
            if held is None:
                held = request.literals.present
            if held.isdisjoint(literals):
                continue
        elif not request.body:
            continue
        if is_here:
            request, report = step(request, rule, previous)
        else:
            request, report = await _guarded(request, rule, previous)
        if report is not None:
            reports.append(report)
            held = None
            if report.is_slow:
                await SLOW_PATTERN
    return Normalized(request, tuple(reports))


async def _guarded(
    request: Request, normalizer: Normalizer, previous: Request | None
) -> tuple[Request, RuleReport | None]:
    seen = replace(previous, memo=None) if previous is not None else None

    def take() -> tuple[Request, RuleReport | None]:
        return step(request, normalizer, seen, shown=replace(request, memo=None))

    call: PluginCall[tuple[Request, RuleReport | None]] = PluginCall(normalizer.name, take)
    try:
        return await call
    except GivenUpError as error:
        said = str(error).removeprefix("raised ")  # the report has the exception's name alone
        return request, RuleReport(normalizer.name, error=said) if said else None


def step(
    request: Request,
    normalizer: Normalizer,
    previous: Request | None = None,
    *,
    shown: Request | None = None,
) -> tuple[Request, RuleReport | None]:
    """Return ``request`` after one normalizer, and its report, None if it changed nothing.

    ``shown``: an equal request for the normalizer to read instead, so that no change it makes to
    that object reaches others. Whatever it raises, even SystemExit, becomes the report's error;
    only a KeyboardInterrupt, which may be the user's, is raised.
    """
    is_rule = type(normalizer) is Rule
    try:
        if shown is not None and request.document is None:
            return request, None
        if isinstance(normalizer, Rule):
            edits = normalizer.edits(request, previous)
        else:
            found = normalizer.find(shown or request, previous)
            edits = tuple(islice(found or (), MOST_EDITS + 1))
    except KeyboardInterrupt:
        raise
    except SlowPatternError as error:
        return request, RuleReport(normalizer.name, error=str(error), is_slow=is_rule)
    except BaseException as error:  # law 4; the text is not ours, whatever the class
        return request, RuleReport(normalizer.name, error=kind_of(error))
    if not edits:
        return request, None
    if len(edits) > MOST_EDITS and not is_rule:
        return request, RuleReport(normalizer.name, error=f"more than {MOST_EDITS:,} edits")
    try:
        document = request.document
        splices = splices_of(document, edits) if document is not None else []
        body = splice(request.body, splices)
        if body is request.body:
            return request, None
    except Exception as error:  # law 4
        return request, RuleReport(normalizer.name, error=describe(error))
    changed = request.with_body(body, splices)
    if not is_rule and changed.document is None:  # a Raw may be any text, JSON or not
        return request, RuleReport(
            normalizer.name, error=f"no JSON is left: {changed.not_understood}"
        )
    return changed, RuleReport(normalizer.name, edits)


def may_fire(normalizer: Normalizer, request: Request) -> bool:
    """Whether the body has one of the normalizer's literals; if it names none, any body does."""
    literals = normalizer.literals
    if not literals:
        return bool(request.body)
    return any(map(request.literals.__contains__, literals))


def is_for(normalizer: Normalizer, request: Request) -> bool:
    """Whether the normalizer is for all clients, or for the one that sent ``request`` (law 10)."""
    client = getattr(normalizer, "client", None)
    return client is None or client.sent(request)


def describe(error: BaseException) -> str:
    """Return the kind of ``error`` without its text, which may quote a prompt.

    Our own errors name places, never contents: their text is included, cut at ``_MOST_ERROR``.
    """
    if type(error).__module__.startswith("cacheproxy.core"):
        return one_line(f"{type(error).__name__}: {error}", _MOST_ERROR)
    return kind_of(error)


def kind_of(value: object) -> str:
    """Return the name of the class of ``value``."""
    return type(value).__name__


def one_line(text: str, most: int) -> str:
    """Return ``text`` as one printable line of at most about ``most`` characters."""
    cut = text if len(text) <= most else text[:most] + "…"
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")


@dataclass(slots=True)
class FailureCount:
    """The failures of one rule or hook."""

    failed: int = 0  #: number of calls that failed
    timed_out: int = 0  #: number of calls that took too long
    dropped: int = 0  #: number of records that it was never called with
    left_out: bool = False  #: whether it is not called any more


class Failures:
    """The failure counts of rules and hooks, by their names in the log; one thread writes them."""

    def __init__(self) -> None:
        self._counts: dict[str, FailureCount] = {}

    def of(self, name: str) -> FailureCount:
        """Return the count of ``name``, for the caller to read or raise."""
        return self._counts.setdefault(name, FailureCount())

    def forgive(self, name: str) -> None:
        """Note that ``name`` is called again."""
        if name in self._counts:
            self._counts[name].left_out = False

    def as_dict(self) -> dict[str, dict[str, int | bool]]:
        """Return all counts as plain values, without the names that never failed."""
        return {name: asdict(count) for name, count in sorted(self._counts.items())}
