"""Fold a request through the normalizers, one at a time; a report for each, and who failed."""

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
"""Edits that code may make in one request: an endless generator has to end somewhere."""
_T = TypeVar("_T")
_MOST_ERROR = 300


class RuleReport(Struct, frozen=True):
    """What one normalizer did to one request."""

    rule: str  #: its name
    edits: tuple[Edit, ...] = ()  #: that it made
    error: str | None = None  #: why it was left out; None: it was not
    is_slow: bool = False  #: its pattern took too long, and would in the next request


class Normalized(NamedTuple):
    """A request after the normalizers; the same object if none had anything to say."""

    request: Request  #: after all of them
    reports: tuple[RuleReport, ...] = ()  #: of those that did something, or failed


class GivenUpError(Exception):
    """A call of others' code gave nothing; says why, or nothing where that was said before."""


@dataclass(frozen=True, slots=True)
class PluginCall(Generic[_T]):
    """A call of others' code: to be awaited, and made by whoever drives. Raises GivenUpError."""

    name: str  #: as the log calls it
    function: Callable[[], _T]  #: that is to be called

    def __await__(self) -> Generator[PluginCall[_T], _T | GivenUpError, _T]:
        """Hand the call to the driver, and return what it gave."""
        given = yield self
        if isinstance(given, GivenUpError):
            raise given
        return given


SLOW_PATTERN: PluginCall[None] = PluginCall("", lambda: None)
"""Nothing to call: a pattern took too long, and others may. Who drives may go on elsewhere."""


def advance(work: Coroutine[PluginCall[Any], Any, _T], given: Any = None) -> _T | PluginCall[Any]:
    """Go on with ``work`` up to its next call of others' code, or to its end.

    ``given``: what the call before came to, or a GivenUpError.
    """
    try:
        return work.send(given)
    except StopIteration as end:
        result: _T = end.value
        return result


def run(work: Coroutine[PluginCall[Any], Any, _T]) -> _T:
    """Return what ``work`` comes to; others' code is called here and now, without any guard."""
    step = advance(work)
    while isinstance(step, PluginCall):
        step = advance(work, step.function())
    return step


def normalize(
    request: Request, normalizers: Iterable[Normalizer], previous: Request | None = None
) -> Normalized:
    """Fold ``request`` through those ``normalizers`` that are for its client, without any guard."""
    own = [one for one in normalizers if is_for(one, request)]
    request.searched_for(words_of(own))
    return run(fold(request, compiled(own), previous))


def words_of(normalizers: Iterable[Normalizer]) -> Words:
    """Return the literals of ``normalizers``, to be looked for at once."""
    return _words_of(tuple(dict.fromkeys(text for one in normalizers for text in one.literals)))


@lru_cache(maxsize=64)
def _words_of(texts: tuple[str, ...]) -> Words:
    return Words(texts)


async def fold(
    request: Request, rules: Iterable[CompiledRule], previous: Request | None = None
) -> Normalized:
    """Fold ``request`` through ``rules``; each sees the result of the earlier ones.

    They are for its client, and the request is searched for their literals (``words_of``). Never
    raises on account of a rule (law 4): one that fails, or whose edits cannot be made, is left out
    and named in its report. A body that is no JSON object is not touched. What is neither a row in
    a table nor ``quick`` is others' code, which gets its own parsed JSON.
    """
    reports: list[RuleReport] = []
    body, held = b"", frozenset[Any]()
    for rule, literals, is_here in rules:
        if literals:
            if request.body is not body:
                body, held = request.body, request.literals.held
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
        said = str(error).removeprefix("raised ")  # a report names the exception alone
        return request, RuleReport(normalizer.name, error=said) if said else None


def step(
    request: Request,
    normalizer: Normalizer,
    previous: Request | None = None,
    *,
    shown: Request | None = None,
) -> tuple[Request, RuleReport | None]:
    """Take ``request`` through one normalizer: the request after it, and its report if any.

    ``shown``: an equal request that the normalizer gets to see instead, so that nothing it does to
    that one reaches others. Whatever it raises is its own failure, a SystemExit as well; only a
    KeyboardInterrupt goes on, which may be the user's.
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
    except BaseException as error:  # law 4; whatever its class, its text is not ours
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
    if not is_rule and changed.document is None:  # a Raw may be anything
        return request, RuleReport(
            normalizer.name, error=f"no JSON is left: {changed.not_understood}"
        )
    return changed, RuleReport(normalizer.name, edits)


def may_fire(normalizer: Normalizer, request: Request) -> bool:
    """Whether the body holds one of the normalizer's literals, if it names any."""
    literals = normalizer.literals
    if not literals:
        return bool(request.body)
    return any(map(request.literals.__contains__, literals))


def is_for(normalizer: Normalizer, request: Request) -> bool:
    """Whether ``request`` is one of the client that the normalizer belongs to (law 10)."""
    client = getattr(normalizer, "client", None)
    return client is None or client.sent(request)


def describe(error: BaseException) -> str:
    """Return the kind of ``error`` without its text, which may quote a prompt.

    Our own errors name places, never contents, so they are given whole, but for their length.
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
    """What went wrong with one rule or hook."""

    failed: int = 0  #: times
    timed_out: int = 0  #: times
    dropped: int = 0  #: records that were never shown to it
    left_out: bool = False  #: it is not called any more


class Failures:
    """The counts, by the names that the log uses. Written to on one thread alone."""

    def __init__(self) -> None:
        self._counts: dict[str, FailureCount] = {}

    def of(self, name: str) -> FailureCount:
        """Return the count of ``name``, to be read or raised."""
        return self._counts.setdefault(name, FailureCount())

    def forgive(self, name: str) -> None:
        """Say that ``name`` is called again."""
        if name in self._counts:
            self._counts[name].left_out = False

    def as_dict(self) -> dict[str, dict[str, int | bool]]:
        """Return all counts as plain values; those who never failed are not in it."""
        return {name: asdict(count) for name, count in sorted(self._counts.items())}
