"""Advice: what can be done about a turn's verdict, at this server, with this client.

Each piece names whose setting it is. If nothing is known to help, it says so; it never names a
setting of another server.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import (
    CHANGED,
    Judgement,
    Reason,
    Rewrite,
    Sign,
    Verdict,
)
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
"""Kinds of fields that a rule can be proposed for, and how often they change."""
CURABLE = (*FREQUENCY, ChangeKind.REORDERED)
"""Kinds of changes for which there is a rule, or one can be proposed: tools keep their order."""
SAID = ("user", "tool", "model")
"""Who writes texts that no rule may change."""
LEFT = "left during prefill"
"""Why a client sends a prompt again: it gave up before the answer began."""
_OFTEN = 0.1
"""Of the turns: a date that changed in more of them changes not only at midnight."""
_KEEPS = (
    "--keep-thinking yes: the proxy asks the template to keep earlier reasoning, and gives back "
    "what the client dropped"
)


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that can be done, and what it does."""

    do: str  #: whose it is to do, or "nothing"
    why: str  #: what it does


@dataclass(frozen=True, slots=True)
class Changed:
    """The field that changed, as far as it is known."""

    kind: ChangeKind | None = None  #: the shape of what changed
    source: str = ""  #: who wrote it
    rules: tuple[str, ...] = ()  #: those that cover it
    on: tuple[str, ...] = ()  #: of these, those that are on
    seen: tuple[int, int] | None = None  #: in how many turns of how many it changed
    captures: tuple[str, ...] = ()  #: files or folders of them
    number: int | None = None  #: of the request, where a running proxy remembers it


_NOT_KNOWN = Changed()
_LATE_SERVERS = Advice(
    "the client", "if these are tools of MCP servers, connect them before the first prompt"
)


@dataclass(frozen=True, slots=True)
class _Case:
    """All that a piece of advice may rest on."""

    verdict: Verdict  #: on the turn
    profile: Profile  #: of its server
    client: Client | None  #: that sent it
    changed: Changed  #: the field that changed
    server: ServerKind  #: what kind of server that is

    def of_client(self, cause: str) -> Iterator[Advice]:
        """Yield what the client's package advises where ``cause`` is why."""
        for why, do, what in self.client.advice if self.client is not None else ():
            if why == cause:
                yield Advice(do, what)

    def set(self, settings: Iterable[FlagAdvice], otherwise: str) -> Iterator[Advice]:
        """Yield the settings of this server; ``otherwise``: what none is known for."""
        found = [Advice(self.server.called, each.says) for each in settings]
        none = f"cacheproxy knows no setting of {self.server.called} {otherwise}"
        yield from found or [Advice("nothing", none)]


def advice(
    verdict: Verdict,
    profile: Profile = UNKNOWN,
    client: Client | None = None,
    changed: Changed = _NOT_KNOWN,
) -> tuple[Advice, ...]:
    """Return what can be done about ``verdict``, the most helpful first; () where all is well.

    ``profile``: of the server that the turn went to. ``client``: None where no
    package declares it. ``changed``: the field at the break.
    """
    case = _Case(verdict, profile, client, changed, kind_of(profile))
    if verdict.judgement in (Judgement.BREAK, Judgement.CUT):
        return tuple(_about(verdict.reason, case))
    if verdict.judgement is not Judgement.UNKNOWN:
        return ()
    unmeasured = tuple(_unmeasured(case))
    return (*_about(verdict.reason, case), *unmeasured) if verdict.reason else unmeasured


def setup_command(client: Client | None) -> str:
    """Return the command that prints what ``client`` has to be told, as far as it is known."""
    return f"cacheproxy env {client.name if client is not None and client.has_setup else 'CLIENT'}"


def waiting(client: Client | None, option: str = "") -> str:
    """Return what makes ``client`` wait while a prompt is read, "" where no package says it.

    ``option``: the one by which our commands in it find the proxy.
    """
    command = setup_command(client)
    told = (what for why, _, what in client.advice if why == LEFT) if client is not None else ()
    return next(iter(told), "").replace(command, command + option)


def is_curable(verdict: Verdict) -> bool:
    """Whether a rule may be proposed for what broke a turn: by its shape, and who wrote it."""
    changed, where = CHANGED.intersection((verdict.reason, verdict.beneath)), verdict.where
    return (
        bool(changed) and where is not None and where.kind in CURABLE and where.source not in SAID
    )


def may_be_curable(reason: str, shape: str | None) -> bool:
    """Whether a rule may be proposed, as far as the names of ``reason`` and ``shape`` tell.

    Of messages they do not tell who wrote them: mostly not the client.
    """
    return reason in CHANGED - {Reason.MESSAGES_CHANGED} and shape in CURABLE


def often(kind: ChangeKind | None, seen: tuple[int, int] | None) -> str:
    """Return how often a field of that kind changes, "" where nobody knows; ``seen``: how often."""
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
    """What parts the prompts comes first: where they do not part, nobody has to go back."""
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
