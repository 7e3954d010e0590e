"""Beliefs: conclusions about one upstream, each with its evidence.

The server's pages report some facts, its answers show the others. A belief has one subject, and
holds for one model and one dialect; all of an upstream's are forgotten when another server, or
another model, has taken its place. The process owns them: they survive a reload of the settings.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NamedTuple

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.kinds.profile import UNKNOWN, MemoryKind, Profile, Reporting, with_template
from cacheproxy.core.kinds.status import Identity, Look, UpstreamState, identity_of

_MOST = 64
"""Beliefs of one subject, and models, at most: a client may name any number of models."""
_MOST_FACTS = 1024
"""Facts at most that refusals taught one adaptation about a model: digests of tools or messages."""
Key = tuple[Dialect | None, str]
"""A dialect and a model, for which a belief holds; None or "" for any."""
_ANY: Key = (None, "")


class Subject(NamedTuple):
    """The subject of a belief, and the evidence that it takes."""

    name: str  #: the question that a belief answers, for readers of the code
    decisive: Hashable = None  #: value that counts once seen, whatever the other evidence
    needs: int = 1  #: pieces of evidence that any other value needs
    replaces: bool = False  #: whether only the latest evidence counts


MEMORY = Subject("how far its memory can be rewound, as a MemoryKind", MemoryKind.REWINDABLE)
"""A memory that was seen to rewind is not checkpointed, whatever other evidence there is."""
ORDER = Subject("what its template prints first")
REUSES = Subject("whether it ever reuses anything", True, needs=3)
"""False takes three turns that only appended, and of which nothing was reused."""
REPORTS = Subject("whether answers report reuse", True)
ZERO = Subject("whether answers report reuse of nothing", True)
MOVES = Subject("whether its counter of reused tokens moves", True)
SHARES = Subject("when requests that run share a beginning, as a Shares", replaces=True)
TAKEN = Subject("whether others take a conversation's place, and it is read again", replaces=True)
TEMPLATE = Subject("what its template does, as a Profile", replaces=True)
PLACEMENT = Subject("where late system messages go", replaces=True)
_GROUNDS = {
    MemoryKind.REWINDABLE: "a changed prompt was reused up to the change",
    MemoryKind.CHECKPOINTED: "less was reused than stayed equal, with nothing else in the slot",
}


@dataclass(slots=True)
class Belief:
    """A conclusion about a server, with its evidence."""

    subject: Subject  #: its subject
    evidence: Counter[Any] = field(default_factory=Counter)  #: pieces of evidence by value
    last: float = 0.0  #: time of the last piece, in seconds since the epoch
    value: Any = None
    """The value that the evidence shows; None if no value has enough, or more than all others."""

    def saw(self, value: Hashable, when: float) -> None:
        """Add a piece of evidence for ``value``; ``when``: seconds since the epoch."""
        self.evidence[value] += 1
        self.last = when
        if self.evidence[self.subject.decisive]:
            self.value = self.subject.decisive
            return
        ranked = sorted([*self.evidence.items()], key=itemgetter(1), reverse=True)
        (value, count), (_, other) = [*ranked, (None, 0), (None, 0)][:2]
        self.value = value if count >= self.subject.needs and count > other else None

    @property
    def grounds(self) -> str:
        """The evidence, as a sentence for users."""
        value = self.value
        times, others = self.evidence[value], self.evidence.total() - self.evidence[value]
        seen = "once" if times == 1 else f"{times:,} times"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.last))
        against = f", against it {others:,}" if others else ""
        return f"{_GROUNDS[value]}: seen {seen}{against}, last {when}"


class Beliefs:
    """The beliefs about one upstream, and other facts learned of it.

    ``changes`` grows with every change. ``status``: the profile by its pages, None before they were
    read; ``formats``: see ``Look``. ``who``: the server that all this holds for, None while it is
    down. ``longest``: tokens of the longest prompt, by the model that the request named. ``mends``:
    whether any placement has it, see ``Placement``. ``taught``: facts that refusals taught, by the
    adaptation's name and the key (``core.adapt``). ``probed``: time and refusal of each probe, by
    its digest. ``places`` grows whenever the number of prompts that the server retains may be known
    better. ``wall`` returns seconds since the epoch. Each subject gets its evidence on one thread,
    and is read on any.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.changes = self.places = 0
        self.mends = False
        self.who: Identity | None = None
        self._wall = wall
        self._gone: dict[Key, Belief] = {}
        self._beliefs: dict[Subject, dict[Key, Belief]] = {}
        self._composed = -1, UNKNOWN
        self.forget()

    def looked(self, look: Look) -> bool:
        """Take note of the server's identity; return whether it is another, or has gone down.

        Then all beliefs are forgotten.
        """
        if look.state is UpstreamState.UP:
            self.who, is_other = identity_of(look, self.who)
        else:
            is_other, self.who = self.who is not None, None
        if is_other:
            self.forget()
        return is_other

    def forget(self) -> None:
        """Forget all: another server, or another model, may have taken this one's place.

        A placement is used until another is known, so that placed prompts stay as they are.
        """
        gone = self._gone | self._beliefs.get(PLACEMENT, {})
        self._gone = dict([*gone.items()][-_MOST:])
        self._beliefs, self.longest = {}, dict[str, int]()
        self.taught: dict[tuple[str, Key], Mapping[Hashable, Any]] = {}
        self.probed: dict[Hashable, tuple[float, Any]] = {}
        self.status: Profile | None = None
        self.formats: tuple[str, ...] = ()
        self.changes += 1
        self.places += 1

    def learn(self, status: Profile, formats: tuple[str, ...]) -> None:
        """Take note of ``status``, the profile by the server's pages."""
        self.formats = formats or self.formats
        if status != self.status:
            self.status = status
            self.changes += 1
            self.places += 1

    def saw(self, subject: Subject, value: Hashable, key: Key = _ANY) -> None:
        """Add a piece of evidence for ``value`` of ``subject``."""
        if subject in (MEMORY, ORDER):  # a server of one model serves it under any name
            key = (None, self._served(key[1]))
        beliefs = self._beliefs.setdefault(subject, {})
        if subject.replaces:
            beliefs.pop(key, None)
        belief = beliefs.get(key)
        if belief is None:
            belief = beliefs[key] = Belief(subject)
        before = belief.value
        if before == value == subject.decisive and subject is not MEMORY:
            return  # the value is settled, and this subject's evidence is not shown
        belief.saw(value, self._wall())
        if len(beliefs) > _MOST:
            del beliefs[next(iter(beliefs))]
        self.places += subject is TAKEN
        if subject is PLACEMENT:
            self._gone.pop(key, None)
            placed = (*self._gone.values(), *beliefs.values())
            self.mends = any(one.value.mends for one in placed)
        is_other = subject.replaces or belief.value != before
        self.changes += is_other or subject is MEMORY  # MEMORY's evidence is shown

    def teach(self, adaptation: str, key: Key, facts: Mapping[Hashable, Any]) -> None:
        """Take note that the server accepted, by ``facts``, a request that it had refused.

        A mapping in ``taught`` is replaced, never changed: any thread may read it.
        """
        known = self.taught.pop((adaptation, key), {})
        kept = [(fact, value) for fact, value in known.items() if fact not in facts]
        self.taught[adaptation, key] = dict([*kept, *facts.items()][-_MOST_FACTS:])
        if len(self.taught) > _MOST:
            del self.taught[next(iter(self.taught))]
        self.changes += 1

    def saw_prompt(self, model: str, tokens: int) -> None:
        """Take note of the number of ``tokens`` of a prompt that ``model`` has read."""
        longest = self.longest
        if len(longest) >= _MOST:
            longest.clear()
        self.changes += model not in longest
        longest[model] = max(tokens, longest.get(model, 0))

    def saw_reuse(self, dialect: Dialect, reused: int | None, *, appended: bool = False) -> None:
        """Take note of the ``reused`` tokens that an answer in ``dialect`` reported, None for none.

        ``appended``: whether the request only appended to one that was answered before.
        """
        if (
            reused is None
            or reused < 0
            or (reused and (dialect, "") in self._beliefs.get(REPORTS, ()))
        ):
            return  # no report, or no new evidence
        if not reused:
            self.saw(ZERO, True)
        if reused or appended:
            self.saw(REUSES, bool(reused))
        if reused:
            self.saw(REPORTS, True, (dialect, ""))

    def find(self, subject: Subject, key: Key = _ANY, *, gone: bool = False) -> Any:
        """Return the value believed, None if there is none.

        ``gone``: fall back on the placements learned of the server before.
        """
        beliefs = self._beliefs.get(subject, {})
        found = beliefs.get(key) or (self._gone.get(key) if gone else None)
        return None if found is None else found.value

    def latest(self, subject: Subject) -> Any:
        """Return the value believed last, for any key; None if there is none."""
        beliefs = self._beliefs.get(subject) or self._gone
        return next((one.value for one in reversed(beliefs.values())), None)

    @property
    def profile(self) -> Profile:
        """The upstream's profile; the same object until a belief or a page changes it.

        It may be read on any thread.
        """
        changes, (seen, profile) = self.changes, self._composed
        if seen != changes:
            profile = self._compose()
            self._composed = changes, profile
        return profile

    def _served(self, model: str) -> str:
        return (self.who[1] if self.who is not None else None) or model

    def _values(self, subject: Subject) -> list[Any]:
        return [one.value for one in [*self._beliefs.get(subject, {}).values()]]

    def _common(self, subject: Subject) -> Any:
        """Return the value that all keys of ``subject`` have in common, None if there is none."""
        values = self._values(subject)
        return values[-1] if values and all(one == values[-1] for one in values) else None

    def _compose(self) -> Profile:
        """Return the profile by the server's pages, completed by the beliefs."""
        profile, found = self.status or UNKNOWN, dict[str, Any]()
        if (placement := self._common(PLACEMENT)) is not None:
            profile = replace(profile, placement=placement)
        if templates := self._values(TEMPLATE):
            profile = with_template(profile, templates)
        if profile.order is None and (order := self._common(ORDER)) is not None:
            found["order"] = order
        memory, kind = self._beliefs.get(MEMORY, {}), self._common(MEMORY)
        of_all = {(None, self._served(model)) for model in [*self.longest]} <= memory.keys()
        if kind and of_all and profile.memory.kind is MemoryKind.UNKNOWN:
            found["memory"] = replace(profile.memory, kind=kind)
            found["grounds"] = next(reversed(memory.values())).grounds
        reuses = self.find(REUSES)
        if reuses is not None and (profile.reuses is None or reuses):
            found["reuses"] = reuses
        reporting = self._reporting(profile.reporting)
        if reporting is not profile.reporting:
            found["reporting"] = reporting
        if found:
            found["told_by"] = ", ".join(filter(None, (profile.told_by, "its answers")))
        if self.find(MOVES):
            found["counter_moves"] = True
        return replace(profile, **found) if found else profile

    def _reporting(self, known: Reporting) -> Reporting:
        """Return when answers report reuse: ``known`` of such servers, corrected by evidence."""
        reported = [dialect for dialect, _ in self._beliefs.get(REPORTS, {})]
        if not reported:
            return known
        if known is Reporting.FLAGGED:
            is_flag_set = any(not dialect.reports_reused for dialect in reported if dialect)
            return Reporting.ALWAYS if is_flag_set else known
        if known is Reporting.UNKNOWN or known is Reporting.NEVER:
            return Reporting.ALWAYS if self.find(ZERO) else Reporting.WHEN_SOME
        return known
