"""Advice: remedies for a turn's verdict, at this server, with this client.

Each piece names the owner of its setting. If no remedy is known, the advice is "nothing"; it never
names a setting of another server.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import CHANGED, Judgement, Reason, Rewrite, Sign, Verdict
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.kinds.kind import FlagAdvice, ServerKind
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.profile import UNKNOWN, Profile, Reporting, Thinking
from cacheproxy.core.prompt.client import Client

FREQUENCY = {
    ChangeKind.DATE: "changes once a day",
    ChangeKind.CLOCK: "changes with the time",
    ChangeKind.UUID: "different each time",
    ChangeKind.NONCE: "different each time",
    ChangeKind.COUNTER: "counts",
    ChangeKind.PATH: "changes with the folder",
    ChangeKind.GIT: "changes with each edit and commit",
}
"""Kinds of fields that a rule can be proposed for, each with words for how often it changes."""
CURABLE = (*FREQUENCY, ChangeKind.REORDERED)
"""Kinds of changes that a rule can cure; REORDERED: of tools, for which there is one."""
SAID = ("user", "tool", "model")
"""Writers of texts that no rule may change."""
LEFT = "left during prefill"
"""Cause, for client packages: the client gave up before the answer began, and sent it again."""
_OFTEN = 0.1
"""Share of turns: a date that changed in more of them changes not only at midnight."""
_KEEPS = (
    "--keep-thinking yes: the proxy asks the template to keep earlier reasoning, and gives back "
    "what the client dropped"
)


@dataclass(frozen=True, slots=True)
class Advice:
    """One remedy."""

    do: str  #: its place: a server's name, "the client", "see", a command; or "nothing"
    why: str  #: the setting and its effect, or why there is nothing to do


@dataclass(frozen=True, slots=True)
class Changed:
    """The field that changed, as far as it is known."""

    kind: ChangeKind | None = None  #: shape of the change
    source: str = ""  #: writer of the field
    rules: tuple[str, ...] = ()  #: rules that cover it
    on: tuple[str, ...] = ()  #: those of ``rules`` that are on
    seen: tuple[int, int] | None = None  #: number of turns with a change, and of all turns
    captures: tuple[str, ...] = ()  #: files or folders of the captures with it
    number: int | None = None  #: number of the request, if a running proxy remembers it


_NOT_KNOWN = Changed()
_LATE_SERVERS = Advice(
    "the client", "if these are tools of MCP servers, connect them before the first prompt"
)


@dataclass(frozen=True, slots=True)
class _Case:
    """The facts that advice rests on."""

    verdict: Verdict  #: verdict on the turn
    profile: Profile  #: profile of its server
    client: Client | None  #: client that sent it
    changed: Changed  #: field that changed
    server: ServerKind  #: kind of its server

    def of_client(self, cause: str) -> Iterator[Advice]:
        """Yield the advice of the client's package for ``cause``."""
        for why, do, what in self.client.advice if self.client is not None else ():
            if why == cause:
                yield Advice(do, what)

    def set(self, settings: Iterable[FlagAdvice], otherwise: str) -> Iterator[Advice]:
        """Yield the ``settings`` as advice; ``otherwise``: the aim, if no setting is known."""
        found = [Advice(self.server.called, each.text) for each in settings]
        none = f"cacheproxy knows no setting of {self.server.called} {otherwise}"
        yield from found or [Advice("nothing", none)]


def advice(
    verdict: Verdict,
    profile: Profile = UNKNOWN,
    client: Client | None = None,
    changed: Changed = _NOT_KNOWN,
) -> tuple[Advice, ...]:
    """Return the remedies for ``verdict``, the most helpful first; () if all is well.

    ``profile``: that of the turn's server. ``client``: None if no package declares it.
    ``changed``: the field at the break.
    """
    case = _Case(verdict, profile, client, changed, kind_of(profile))
    if verdict.judgement in (Judgement.BREAK, Judgement.CUT):
        return tuple(_about(verdict.reason, case))
    if verdict.judgement is not Judgement.UNKNOWN:
        return ()
    unmeasured = tuple(_unmeasured(case))
    return (*_about(verdict.reason, case), *unmeasured) if verdict.reason else unmeasured


def setup_command(client: Client | None) -> str:
    """Return the command that prints the settings of ``client``, with CLIENT if it has none."""
    return f"cacheproxy env {client.name if client is not None and client.has_setup else 'CLIENT'}"


def waiting(client: Client | None, option: str = "") -> str:
    """Return the setting that makes ``client`` wait for a long prompt, "" if none is known.

    ``option``: option with which the commands in it find the proxy.
    """
    command = setup_command(client)
    told = (what for why, _, what in client.advice if why == LEFT) if client is not None else ()
    return next(iter(told), "").replace(command, command + option)


def is_curable(verdict: Verdict) -> bool:
    """Whether a rule may be proposed for the change that broke a turn: by its shape and writer."""
    changed, where = CHANGED.intersection((verdict.reason, verdict.beneath)), verdict.where
    return (
        bool(changed) and where is not None and where.kind in CURABLE and where.source not in SAID
    )


def may_be_curable(reason: str, shape: str | None) -> bool:
    """Whether a rule may be proposed, by the names of ``reason`` and ``shape`` alone.

    These do not show the writer of a message, which is mostly not the client.
    """
    return reason in CHANGED - {Reason.MESSAGES_CHANGED} and shape in CURABLE


def often(kind: ChangeKind | None, seen: tuple[int, int] | None) -> str:
    """Return words for how often a field of ``kind`` changes, "" if unknown; ``seen``: counts."""
    if kind is ChangeKind.DATE and _is_often(seen):
        return ""
    return FREQUENCY.get(kind, "") if kind is not None else ""


def _about(reason: Reason | None, case: _Case) -> Iterator[Advice]:
    yield from _BY_REASON.get(reason or Reason.UNKNOWN, _UNKNOWN)(case)


def _unmeasured(case: _Case) -> Iterator[Advice]:
    flag = case.profile.flag or case.server.settings.reports
    if flag and case.profile.reporting in (Reporting.FLAGGED, Reporting.UNKNOWN):
        yield Advice(
            case.server.called, f"{flag}: with this flag the server reports what it reused"
        )
    elif case.profile.reporting is Reporting.NEVER:
        yield Advice("nothing", f"{case.server.called} does not say what it reuses")


def _evicted(case: _Case) -> Iterator[Advice]:
    if Sign.RESTARTED in case.verdict.evidence:
        yield Advice("nothing", "the server was restarted; this happens once")
        return
    evidence, settings = case.verdict.evidence, case.server.settings
    room: Iterable[FlagAdvice] = settings.room
    if settings.room_for is not None:
        was_taken, is_full = Sign.OTHERS in evidence, Sign.FULL in evidence
        memory = case.profile.memory
        has_ram, slots = memory.has_ram, memory.slots
        room = settings.room_for(was_taken=was_taken, is_full=is_full, has_ram=has_ram, slots=slots)
        if was_taken and slots != 1 and settings.for_crowd is not None:
            yield Advice("see", "cacheproxy doctor names the setting, if this happens often")
            if not (room := tuple(room)):
                return
    yield from case.set(room, "that gives prompts more memory")


def _checkpoint(case: _Case) -> Iterator[Advice]:
    """Yield advice on the change first: without one, the server need not go back."""
    if case.verdict.beneath is not None:
        yield from _about(case.verdict.beneath, case)
    points = case.server.settings.points
    yield from case.set(points, "that makes more places to go back to")


def _template(case: _Case) -> Iterator[Advice]:
    rewrite = case.verdict.rewrite
    if rewrite is Rewrite.THINKING:
        yield from _thinking(case)
    elif rewrite is Rewrite.KEPT:
        why = "this happens once: from now on the template keeps earlier reasoning"
        yield Advice("nothing", why)
    elif rewrite is Rewrite.HOISTED:
        yield from case.of_client(rewrite)
        yield Advice("the proxy", "--placement auto (the default) keeps such messages in place")
    elif rewrite is Rewrite.TOOLS:
        why = "no fix is known: this template moves the tools to each new user message"
        yield Advice("nothing", f"{why} (as Mistral Small 3.2's and Nemo's do)")
    elif rewrite is Rewrite.CLOCK:
        yield Advice("nothing", "if the template prints only the date: one slow turn a day")
        yield from _own_template(case, "without the line that prints the time")
    else:
        yield Advice("nothing", "no fix is known: the template changed text it had rendered")


def _thinking(case: _Case) -> Iterator[Advice]:
    thoughts = case.profile.thoughts
    if thoughts.asked_by is not None:
        yield Advice("the proxy", _KEEPS)
        flag = case.server.with_kwargs(thoughts.asked_by)
        if flag:
            yield Advice(case.server.called, f"{flag}: for clients that send their reasoning back")
    elif thoughts.way is Thinking.DROPPED:
        why = "this template cannot keep earlier reasoning: the turn before is read again"
        yield Advice("nothing", why)
        yield from _own_template(case, "that keeps it")
    else:
        yield Advice("see", "cacheproxy doctor tells whether this template can keep reasoning")


def _own_template(case: _Case, which: str) -> Iterator[Advice]:
    if case.server.settings.template:
        yield Advice(
            case.server.called, f"{case.server.settings.template}: with a copy of it {which}"
        )


def _context(case: _Case) -> Iterator[Advice]:
    memory = case.profile.memory
    context = memory.context or (case.profile.server and case.profile.server.context) or 0
    shares = (memory.slots or 1) if memory.is_unified is False else 1
    now = f" than {context * shares:,} tokens" if context else ""
    if case.server.settings.context:
        parts = f" ({shares} slots share it out)" if shares > 1 else ""
        why = f"{case.server.settings.context} larger{now}{parts}: it was full"
        if case.verdict.reason is Reason.CONTEXT_SHIFTED:
            why += ", so the server dropped its start"
        yield Advice(case.server.called, why)
    yield Advice("the client", f"{setup_command(case.client)} tells the client when to compact")


def _not_cached(case: _Case) -> Iterator[Advice]:
    if Sign.NOT_WANTED in case.verdict.evidence:
        yield Advice("the client", 'without "cache_prompt": false: this request asked for no cache')
        return
    if case.server.reuse.is_never:
        yield Advice(
            "nothing", f"{case.server.called} has no prompt cache: another server would help"
        )
        return
    caching = case.server.settings.caching
    yield from case.set([caching] if caching else (), "for its prompt cache")


def _model(case: _Case) -> Iterator[Advice]:
    yield Advice("nothing", "each model has its own cache")
    yield from case.of_client(Reason.MODEL_CHANGED)
    if case.server.settings.models:
        why = f"{case.server.settings.models}: both models stay loaded, if the memory is enough"
        yield Advice(case.server.called, why)


def _tools(case: _Case) -> Iterator[Advice]:
    if not case.changed.rules and case.changed.kind is not ChangeKind.REORDERED:
        yield from list(case.of_client(Reason.TOOLS_CHANGED)) or (_LATE_SERVERS,)
    yield from _field(case)


def _field(case: _Case) -> Iterator[Advice]:
    changed = case.changed
    captures = [shlex.quote(name) for name in changed.captures]
    if changed.on:
        yield Advice("the proxy", f"rule {changed.on[0]} is on and makes this field constant")
    elif changed.rules:
        name = changed.rules[0]
        yield Advice("a rule", f"{name} is installed but off: --enable {name}")
    elif changed.source in SAID:
        yield Advice("nothing", "a user, a tool or the model wrote this: no rule may change it")
    elif changed.kind in (FREQUENCY if changed.number is None else CURABLE):
        froms = "".join(f" --from {name}" for name in captures)
        live = "" if changed.number is None else f" {changed.number}"
        command = f"diagnose{live} --propose" if live else f"diagnose --propose{froms}"
        yield Advice("a rule", f"cacheproxy {command}")
    elif changed.kind is ChangeKind.MOVED and changed.number is not None:
        why = f"cacheproxy diagnose {changed.number} --propose names a rule that is off and helps"
        yield Advice("a rule", f"{why}, if there is one")
    elif captures:
        where = " ".join(captures)
        yield Advice("see all", f"cacheproxy inspect {where} lists what changes, and where")
    else:
        why = "start the proxy with --capture FOLDER, then run cacheproxy inspect FOLDER"
        yield Advice("see all", why)
    if changed.kind is ChangeKind.DATE and not changed.on and not _is_often(changed.seen):
        yield Advice("nothing", "this happens once a day and costs one slow turn")


def _is_often(seen: tuple[int, int] | None) -> bool:
    return seen is not None and seen[0] > max(1, _OFTEN * seen[1])


def _always(do: str, why: str) -> Callable[[_Case], Iterable[Advice]]:
    return lambda _: (Advice(do, why),)


_UNKNOWN = _always("see", "cacheproxy doctor tells what the server does with prompts")
_BY_REASON: Mapping[Reason, Callable[[_Case], Iterable[Advice]]] = {
    Reason.MODEL_CHANGED: _model,
    Reason.SYSTEM_CHANGED: _field,
    Reason.TOOLS_CHANGED: _tools,
    Reason.MESSAGES_CHANGED: _field,
    Reason.PARAMETERS_CHANGED: _always(
        "the client",
        "sends one value throughout: the template prints it, so that another has the prompt read "
        "anew from there",
    ),
    Reason.PREVIOUS_NOT_FOUND: _always(
        "nothing", "this proxy has not seen the turn before, so it cannot compare"
    ),
    Reason.TEMPLATE_CHANGED: _template,
    Reason.CHECKPOINT: _checkpoint,
    Reason.CONTEXT_SHIFTED: _context,
    Reason.CUT: _context,
    Reason.NOT_CACHED: _not_cached,
    Reason.MOVED: _always(
        "nothing",
        "another server or worker answered than before, which costs one slow turn. If that "
        "happens often, have the router keep each session at one server",
    ),
    Reason.EVICTED: _evicted,
    Reason.UNKNOWN: _UNKNOWN,
}
