"""ServerKind: what is true of every server of one kind, as one value.

Each kind has a module beside this one; ``kinds`` has the table of them all, and plugins add to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.kinds.crowds import Crowd, CrowdSetting
from cacheproxy.core.kinds.profile import Memory, Reporting, ServerFacts, Shares
from cacheproxy.core.kinds.status import Answers, CacheConfig, Look, number, text

Json = dict[str, Any]
UNLIKE = 0.1
"""The share of a prompt up to which another is another prompt: what llama-server goes by."""
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", re.ASCII)


class FlagAdvice(NamedTuple):
    """What to set, and what it does."""

    flag: str  #: as it is written, with its value
    does: str  #: for people

    @property
    def says(self) -> str:
        """Both, for people."""
        return f"{self.flag}: {self.does}"


class Repair(NamedTuple):
    """What becomes of a beginning of system text that a server mends by itself."""

    text: re.Pattern[str]  #: what it begins with
    becomes: str  #: what the server makes of it


class RenderingPage(NamedTuple):
    """Where a server renders a conversation for us, and evaluates nothing."""

    path: str  #: takes a body of Chat Completions, by POST
    also: Mapping[str, Any] = {}  #: what it is asked for besides
    is_alone: bool = False  #: prompts of other APIs than that are put together otherwise
    spelled: Callable[[Json], Json] = lambda chat: chat  #: the body as this page reads it
    tokenizer: str = ""  #: the page that makes tokens of its text; "": it tells them itself


class CounterNames(NamedTuple):
    """How a server names the figures on its page of metrics."""

    prefix: str  #: of each name
    names: Mapping[str, tuple[str, ...]]
    """Of each figure of ServerFigures, and of ``running``, ``waiting`` and ``kv``: the first that
    is there counts, the sum of its series."""
    config: str = ""  #: the series that says in its labels how the memory is made, "" for none
    read_config: Callable[[Mapping[str, str]], CacheConfig] | None = None  #: reads these labels
    comes_with_hits: bool = False  #: what was reused is not there until something was


class LogAdvice(NamedTuple):
    """What is advised about what a server's log tells. Each is for people."""

    verbose: str = ""  #: has it log requests
    verbose_tells: str = ""  #: what to start it with, that all figures are there
    memory: str = ""  #: where it could not go back in its memory
    evicted: str = ""  #: where its RAM cache was full
    ram_off: str = ""  #: where that is off
    context: str = ""  #: where a prompt was too long


_NO_LOG = LogAdvice()


@dataclass(frozen=True, slots=True, eq=False)
class ServerKind:
    """What is true of every server of one kind. "", () and None where nothing is known.

    All has a default but the name: of a server that speaks OpenAI's API no more is needed than the
    marks by which it is told. Functions are called on the reactor, and depend on what they get.
    """

    name: str  #: as its own documentation spells it
    title: str = ""  #: in advice, if not its name
    port: int = 0  #: where it listens unless it is told otherwise; 0: nobody knows
    starts: str = ""  #: the command that starts it, as an example

    # How it is recognised.
    owner: str = ""  #: of its models, as /v1/models says it, in small letters
    mark: tuple[str, str] = ("", "")  #: a page, and a member of its JSON object that tells
    is_at: Callable[[Answers], bool] | None = None  #: what tells besides, instead of both
    facts: Callable[[Answers], ServerFacts] | None = None
    """What it says of itself; None: its version, model and context are read as most spell them."""
    software: str = ""  #: how its header Server begins, if no other's does
    pages: tuple[str, ...] = ()
    """Paths that each server is asked for (GET), whatever it is. ``probes`` cost others nothing."""
    probes: tuple[str, ...] = ()  #: paths that others are asked for that nobody has recognised
    may_be: Callable[[Answers], bool] | None = None  #: whether ``probes`` are worth it; None: yes
    more: tuple[str, ...] = ()  #: paths that it alone is asked for, once it is recognised
    version_page: str = ""  #: the one of these that has its ``version``

    # What its pages tell of its memory and its work.
    look: Callable[[Look, Answers], Look] | None = None
    """Returns the look with what its own pages say: slots, the start of the process."""
    memory: Callable[[Look, Memory], Memory] | None = None
    """Returns what holds its prompts; takes what was known before. None: the context alone."""
    start: tuple[str, Callable[[Any], str | None]] | None = None
    """A page, and what reads in its JSON value what is another after a restart."""
    counters: CounterNames | None = None  #: how its page of metrics is read
    metrics: str = ""  #: the flag with which it has that page; "": it always has

    # What it reuses, and how it tells.
    reporting: Reporting = Reporting.UNKNOWN  #: when its answers say what was reused
    reports_since: tuple[int, int, int] | None = None
    """The version since which they always do, and before which never."""
    flag: str = ""  #: has answers say what was reused
    counts_streams: bool = False
    """Its streams of Chat Completions say what they took, asked for usage or not."""
    keeps_none: bool = False  #: it reuses nothing, whatever is set
    similarity: float = 0.0
    """The share of itself that a prompt must have in common with a slot's to get that slot, unless
    the server is told another; 0: it has no slots."""
    batches: bool = False
    """It works at as many prompts at a time as its memory holds: none waits for another's end."""
    shares: Shares = Shares.NEVER
    """When requests that run share the beginning of their prompts, until answers show otherwise."""
    moves_heads: bool = False
    """The beginning of a prompt serves one request at a time, and is free when that answer has
    ended: a request waits for that, where it is sooner than the beginning would be read."""
    repairs: Mapping[Dialect | None, Repair] = field(default_factory=dict)
    """What it mends by itself in prompts, by the dialect that it is spoken to in; None: in all."""
    rendering: RenderingPage | None = None  #: where it shows what it renders
    progress: tuple[Dialect, ...] = ()
    """The APIs in whose streams it says how far it is with a prompt, if it is asked to."""
    loads_models: bool = (
        False  #: whoever asks for a model has it loaded, and perhaps another unloaded
    )
    warms_at: str = ""
    """The page that has a prompt read that is given as tokens, and nothing generated. "": it is not
    warmed again after a restart, since it unloads models by itself, or nobody has tried."""

    # What to advise: settings, as it spells them.
    room: tuple[FlagAdvice, ...] = ()  #: more memory for prompts
    room_for: Callable[..., Iterable[FlagAdvice]] | None = None
    """Of these, what helps where a prompt was dropped. Takes by name: ``was_taken`` (by another
    conversation), ``is_full``, ``has_ram`` and ``slots`` (see Memory). None: all of ``room``."""
    for_crowd: Callable[[Crowd, Memory], CrowdSetting | None] | None = None
    """The setting that several conversations at once need; returns None where its own fits."""
    caching: FlagAdvice | None = None  #: how it is started to keep any
    context: str = ""  #: a longer one
    kwargs: str = ""  #: sets chat_template_kwargs for all requests, {} standing for their JSON
    template: str = ""  #: has it use another chat template
    points: tuple[FlagAdvice, ...] = ()  #: more places to go back to
    models: str = ""  #: keeps several models loaded
    ram: str = ""  #: keeps what leaves a slot, where that is off
    log: LogAdvice = _NO_LOG  #: about what its log tells, if it can be read

    @property
    def called(self) -> str:
        """What it is called in advice."""
        return self.title or self.name

    def recognised(self, answers: Answers) -> ServerFacts | None:
        """Return what a server that answered so says of itself; None: it is of another kind."""
        if self.is_at is not None:
            is_it = self.is_at(answers)
        else:
            page = answers.pages.get(self.mark[0])
            is_its = isinstance(page, dict) and self.mark[1] in page
            is_it = is_its or answers.owner == self.owner != ""
        if not is_it:
            return None
        if self.facts is not None:
            return self.facts(answers)
        page = answers.pages.get(self.version_page)
        version = text(page.get("version")) if isinstance(page, dict) else None
        context = number(answers.model.get("max_model_len"))
        return ServerFacts(self.name, version, text(answers.model.get("id")), context)

    def reporting_of(self, version: str | None) -> Reporting:
        """Return when answers of such a ``version`` say what was reused."""
        if self.reports_since is None:
            return self.reporting
        found = _VERSION.match(version or "")
        if found is None:
            return Reporting.UNKNOWN
        is_new = tuple(map(int, found.groups())) >= self.reports_since
        return Reporting.ALWAYS if is_new else Reporting.NEVER

    def repair_of(self, dialect: Dialect | None) -> Repair | None:
        """Return what it mends in prompts of a dialect."""
        return self.repairs.get(dialect) or self.repairs.get(None)

    def with_kwargs(self, member: tuple[str, bool]) -> str:
        """Return the flag that sets a member of chat_template_kwargs, "" if there is none."""
        return self.kwargs.format(as_object(member)) if self.kwargs else ""


def as_object(member: tuple[str, bool]) -> str:
    """Return a member of chat_template_kwargs as a JSON object."""
    return json.dumps({member[0]: member[1]})
