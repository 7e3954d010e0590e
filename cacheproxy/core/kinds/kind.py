"""ServerKind: everything that is true of all servers of one kind, as one value.

Each kind has a module beside this one; ``known`` has the table of all, and plugins add to it.
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
from cacheproxy.core.kinds.status import Answers, CacheConfig, Look, Sample, number, text

Json = dict[str, Any]
UNLIKE = 0.1
"""llama-server's default share of a prompt in common, up to which a slot's prompt is another."""
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", re.ASCII)


class FlagAdvice(NamedTuple):
    """A setting of a server, and its effect."""

    flag: str  #: the setting as it is written, with its value
    does: str  #: its effect, for people

    @property
    def text(self) -> str:
        """Setting and effect, for people."""
        return f"{self.flag}: {self.does}"


class Repair(NamedTuple):
    """A beginning of system text that a server replaces by itself."""

    text: re.Pattern[str]  #: pattern of that beginning
    becomes: str  #: its replacement, as ``re.sub`` takes it


class RenderingPage(NamedTuple):
    """The page where a server renders a conversation, and evaluates nothing."""

    path: str  #: its path; it takes a body of Chat Completions, by POST
    also: Mapping[str, Any] = {}  #: further members of that body
    is_alone: bool = False  #: whether the server's other APIs put prompts together otherwise
    spelled: Callable[[Json], Json] = lambda chat: chat  #: returns the body as this page reads it
    tokenizer: str = ""  #: the page that makes tokens of its text; "": this page returns them


class CounterNames(NamedTuple):
    """The names of a server's figures in its /metrics."""

    prefix: str  #: beginning of each name
    names: Mapping[str, tuple[str, ...]]
    """Names of each figure of ServerFigures, and of ``running``, ``waiting`` and ``kv``: the first
    that is there counts, as the sum of its series."""
    config: str = ""  #: the series whose labels describe the memory, "" for none
    read_config: Callable[[Mapping[str, str]], CacheConfig] | None = None  #: reads these labels
    comes_with_hits: bool = False  #: whether ``reused`` appears only with the first reuse


class LogAdvice(NamedTuple):
    """Advice about events in a server's log, each for people."""

    verbose: str = ""  #: advice if it logs no requests
    verbose_command: str = ""  #: command with which it logs all figures
    memory: str = ""  #: advice if it could not go back in its memory
    evicted: str = ""  #: advice if its RAM cache was full
    ram_off: str = ""  #: advice if its RAM cache is off
    context: str = ""  #: advice if a prompt was too long


_NO_LOG = LogAdvice()


@dataclass(frozen=True, slots=True)
class Recognition:
    """The marks by which a server of the kind is recognised, and the pages to request for that.

    ``owner`` or ``mark`` is enough; ``is_at`` replaces both.
    """

    owner: str = ""  #: owner of its models in /v1/models (``owned_by``), in lower case
    mark: tuple[str, str] = (
        "",
        "",
    )  #: a page, and the member of its JSON object that identifies it
    is_at: Callable[[Answers], bool] | None = None  #: whether these answers are of such a server
    software: str = ""  #: beginning of its header Server, if no other kind's begins so
    pages: tuple[str, ...] = ()
    """Paths that every server is sent (GET), whatever its kind; ``probes`` cost others nothing."""
    probes: tuple[str, ...] = ()  #: paths sent to servers that no kind has recognised yet
    may_be: Callable[[Answers], bool] | None = None
    """Whether ``probes`` are worth sending after these answers; None: always."""
    more: tuple[str, ...] = ()  #: paths sent to recognised servers of this kind alone
    version_page: str = ""  #: the one of these pages whose JSON object has its ``version``
    lasting: tuple[str, ...] = ()
    """Those of its pages that never change while the server runs: they are requested less often."""


@dataclass(frozen=True, slots=True)
class StatusReading:
    """The functions that read a server's own pages; the text of each names its result."""

    facts: Callable[[Answers], ServerFacts] | None = None
    """Its facts; None: version, model and context are read as most servers spell them."""
    look: Callable[[Look, Answers], Look] | None = None
    """The look, completed by what its own pages show: slots, the start of the process."""
    memory: Callable[[Look, Memory], Memory] | None = None
    """The memory of its prompts, from a look and what was known before; None: the context alone."""
    start: tuple[str, Callable[[Any], str | None]] | None = None
    """A page, and a function of its JSON value whose result differs after a restart."""
    counters: CounterNames | None = None  #: names of the figures in its /metrics
    sample: Callable[[Answers], Sample | None] | None = None
    """Counters from any other pages, None if these have none; called if /metrics has none."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """How a server reuses prompts, and how its answers report that."""

    reporting: Reporting = Reporting.UNKNOWN  #: when its answers report reused tokens
    since: tuple[int, int, int] | None = None
    """The version since which they always do, and before which they never do."""
    is_never: bool = False  #: it reuses nothing, whatever is set
    similarity: float = 0.0
    """Share of itself that a prompt must have in common with a slot's to get that slot, unless the
    server is set to another; 0: it has no slots."""
    shares: Shares = Shares.NEVER
    """When running requests share the beginning of their prompts, until answers show otherwise."""
    moves_heads: bool = False
    """Whether the beginning of a prompt serves one request at a time, until its answer has ended:
    a request waits for that if evaluating the beginning would take longer."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How a server serves prompts: what its API does, renders, mends and loads."""

    batches: bool = False
    """It evaluates as many prompts at a time as its memory has room for: none waits for another."""
    counts_streams: bool = False
    """Streams of Chat Completions report their usage, whether the request wants it or not."""
    progress: tuple[Dialect, ...] = ()
    """The APIs whose streams report the progress of a prompt, if the request wants it."""
    repairs: Mapping[Dialect | None, Repair] = field(default_factory=dict)
    """Repairs that it makes in prompts by itself, by dialect of the request; None: in all."""
    rendering: RenderingPage | None = None  #: the page that renders a conversation
    loads_models: bool = False
    """A request for a model has it loaded, and perhaps another one unloaded."""
    warms_at: str = ""
    """The page that evaluates a prompt given as tokens, and generates nothing. "": no prompt is
    warmed again after a restart, since it unloads models by itself, or nobody has tried."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that advice names, as the server spells them; "", () and None: it has none."""

    reports: str = ""  #: the flag with which its answers report reused tokens
    metrics: str = ""  #: the flag with which it has /metrics; "": it always has
    room: tuple[FlagAdvice, ...] = ()  #: more memory for prompts
    room_for: Callable[..., Iterable[FlagAdvice]] | None = None
    """Those of ``room`` that help where a prompt was dropped. By name: ``was_taken`` (by another
    conversation), ``is_full``, ``has_ram`` and ``slots`` (see Memory). None: all of ``room``."""
    for_crowd: Callable[[Crowd, Memory], CrowdSetting | None] | None = None
    """The setting that several conversations at once need; its result is None if none is needed."""
    caching: FlagAdvice | None = None  #: the prompt cache switched on
    context: str = ""  #: a longer context
    kwargs: str = ""  #: chat_template_kwargs for all requests, with {} for their JSON
    template: str = ""  #: another chat template
    points: tuple[FlagAdvice, ...] = ()  #: more places to go back to
    models: str = ""  #: several models loaded at once
    ram: str = ""  #: the RAM cache for prompts that leave a slot, where it is off
    log: LogAdvice = _NO_LOG  #: advice about its log, if that can be read


@dataclass(frozen=True, slots=True, eq=False)
class ServerKind:
    """Everything that is true of all servers of one kind. "", () and None: not known.

    Only the name has no default: a server that speaks OpenAI's API needs only a ``recognition``
    besides. Functions are called on the reactor; their results depend on their arguments alone.
    """

    name: str  #: as its own documentation spells it
    title: str = ""  #: name in advice; "": ``name``
    port: int = 0  #: default port; 0: not known
    starts: str = ""  #: example of a command that starts it
    recognition: Recognition = Recognition()  #: how it is recognised
    reading: StatusReading = StatusReading()  #: how its pages are read
    reuse: Reuse = Reuse()  #: what it reuses, and how its answers report that
    serving: Serving = Serving()  #: what it does with prompts besides
    settings: Settings = Settings()  #: settings for advice

    @property
    def called(self) -> str:
        """Its name in advice."""
        return self.title or self.name

    def recognised(self, answers: Answers) -> ServerFacts | None:
        """Return the facts of the server that gave these answers; None: it is of another kind."""
        marks, reading = self.recognition, self.reading
        if marks.is_at is not None:
            is_it = marks.is_at(answers)
        else:
            page = answers.pages.get(marks.mark[0])
            is_its = isinstance(page, dict) and marks.mark[1] in page
            is_it = is_its or answers.owner == marks.owner != ""
        if not is_it:
            return None
        if reading.facts is not None:
            return reading.facts(answers)
        page = answers.pages.get(marks.version_page)
        version = text(page.get("version")) if isinstance(page, dict) else None
        context = number(answers.model.get("max_model_len"))
        return ServerFacts(self.name, version, text(answers.model.get("id")), context)

    def reporting_of(self, version: str | None) -> Reporting:
        """Return when answers of a server of this ``version`` report reused tokens."""
        if self.reuse.since is None:
            return self.reuse.reporting
        found = _VERSION.match(version or "")
        if found is None:
            return Reporting.UNKNOWN
        is_new = tuple(map(int, found.groups())) >= self.reuse.since
        return Reporting.ALWAYS if is_new else Reporting.NEVER

    def repair_of(self, dialect: Dialect | None) -> Repair | None:
        """Return the repair that it makes in prompts of ``dialect``, None if it makes none."""
        repairs = self.serving.repairs
        return repairs.get(dialect) or repairs.get(None)

    def with_kwargs(self, member: tuple[str, bool]) -> str:
        """Return the flag that sets a member of chat_template_kwargs, "" if there is none."""
        kwargs = self.settings.kwargs
        return kwargs.format(as_object(member)) if kwargs else ""


def as_object(member: tuple[str, bool]) -> str:
    """Return a member of chat_template_kwargs as a JSON object."""
    return json.dumps({member[0]: member[1]})
