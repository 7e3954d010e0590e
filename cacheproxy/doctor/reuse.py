"""Does it reuse: one prompt behind two volatile heads, with the rules and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cacheproxy.asking import Answer, NoAnswerError, Site
from cacheproxy.client_setup.checkup import Volatile
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.core.servers.profile import Memory
from cacheproxy.doctor.prompt import PATHS, Api, body, rounds_for
from cacheproxy.doctor.upstream import Counters

GOOD = 0.8
"""A repeated prompt of whose whole blocks this part is reused was reused: templates close the last
message in their own way."""
ANSWER_SECONDS = 300.0
"""A busy server answers when a slot is free."""
_FEW, _MOST_SERVERS = 2, 5
"""How often to look whether another server answers: at one, each costs a token, or all of them
where it keeps nothing."""
_NOT_SERVED = (404, 405, 501)
_CONSTANT = Volatile("", (), ("", "", ""), "", "")
"""Where no client is known whose prompt has a volatile head: one prompt is sent again."""

ANY = Memory()
"""Of which nothing is known: any token can be gone back to."""
MaySend = Callable[[int], bool]
"""Whether to send a prompt, by the tokens of one that was sent before it; 0: none was."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One request that was answered: what it cost."""

    usage: Usage  #: as the answer told it
    wall: float  #: seconds until the whole answer
    memory: Memory = ANY  #: that its server keeps prompts in
    is_counted: bool = False  #: whether the reuse is known from counters, not from the answer

    @property
    def share(self) -> float | None:
        """The reused part of the prompt, 0 to 1; None if the server does not say."""
        if self.usage.reused is None or not self.usage.prompt:
            return None
        return self.usage.reused / self.usage.prompt

    @property
    def whole(self) -> int:
        """Tokens that a server can reuse of it, which keeps whole blocks; 0: none, or not known."""
        return self.memory.whole(self.usage.prompt or 0)

    @property
    def is_reused(self) -> bool:
        """Whether the prompt was reused as far as servers do."""
        return bool(self.whole) and (self.usage.reused or 0) >= GOOD * self.whole


@dataclass(slots=True)
class Trial:
    """What came of the requests on one path, in their order; None: not sent, or no answer."""

    path: str  #: of the API
    through_proxy: bool  #: through the one that runs, else through the rules in this process
    first: Shot | None = None  #: through the rules, as ``second``, behind different heads
    second: Shot | None = None  #: see ``first``
    without: Shot | None = None  #: a third head, not edited
    next_turn: Shot | None = None  #: ``without`` a turn later, which some servers repair
    same: Shot | None = None  #: exactly what was sent last: does the server reuse anything at all
    again: Shot | None = None  #: the first, after those unlike it: has one slot a RAM cache
    repeated: Shot | None = None
    """The second, if it was reused, else ``same``, once more and more often until it fares in
    another way: then several servers answer."""
    edited: bool | None = None  #: whether the rules change it; None: the proxy that runs knows
    error: str | None = None  #: why it ended early, one line
    held_back: bool = False  #: it ended, as the next prompt might have pushed out another
    translated: bool = False
    """The server itself does not serve the path; the proxy asks it on another, so nothing was sent
    without the rules."""

    @property
    def is_measured(self) -> bool:
        """Whether it is known what was reused of the second request, and could have been."""
        return self.second is not None and self.second.share is not None and not self.is_short

    @property
    def is_short(self) -> bool:
        """Whether the prompt is too short for the server's blocks to tell anything."""
        return self.second is not None and bool(self.second.usage.prompt) and not self.second.whole

    @property
    def has_several(self) -> bool:
        """Whether several servers answer there: one has a prompt, and another has not."""
        before = self.second if self.works else self.same
        if before is None or self.repeated is None:
            return False
        return before.is_reused is not self.repeated.is_reused

    @property
    def works(self) -> bool:
        """Whether it was reused with the rules."""
        return self.second is not None and self.second.is_reused

    @property
    def works_without(self) -> bool:
        """Whether it was reused without them, too."""
        return self.without is not None and self.without.is_reused


class _EndedError(Exception):
    """The trial ends here; the message says why."""


class _NotServedError(Exception):
    """The server does not know the path."""


class _HeldBackError(Exception):
    """The next prompt is not sent."""


def measure(  # noqa: PLR0917 (they are all the parties to a trial)
    api: Api,
    upstream: Site,
    proxy: Site | None,
    rules: Sequence[Normalizer],
    model: str,
    mark: str,
    *,
    may_send: MaySend = lambda _: True,
    has_one_slot: bool = False,
    counters: Counters | None = None,
    memory: Memory = ANY,
    volatile: Volatile | None = None,
) -> Trial | None:
    """Send the requests; None if the server does not serve the path of ``api``.

    Three of about 600 tokens, of which one or two are computed, and a few that are repeated; a
    fourth where it tells more; and longer ones where the server keeps large blocks. ``mark``: text
    that no earlier prompt has, so that the first is cold. ``may_send``: asked before each prompt
    that is unlike those before.
    ``has_one_slot``: whether ``again`` tells something. ``counters``, ``memory``: the server's.
    ``volatile``: what stands before the prompt; None: nothing, and the trial tells nothing of the
    rules. Never raises.
    """
    counters = counters or Counters(upstream, has_them=False)
    prompt = partial(body, api, model, mark=mark, rounds=rounds_for(memory.block or 1))
    trial = Trial(PATHS[api], proxy is not None)
    heads = volatile or _CONSTANT
    trying = _Trying(trial, prompt, heads, upstream, proxy, rules, may_send, counters, memory)
    try:
        trying.send_all(has_one_slot=has_one_slot)
    except _HeldBackError:
        trial.held_back = True
    except _NotServedError:
        if trial.first is None:
            return None
        trial.error = f"{trial.path} answered once, and then no more"
    except _EndedError as ended:
        trial.error = str(ended)
    return trial


@dataclass(slots=True)
class _Trying:
    """One trial under way."""

    trial: Trial  #: what has come of it so far
    prompt: Callable[[str], bytes]  #: its body behind a head
    heads: Volatile  #: what stands before the prompt
    upstream: Site  #: the model server
    proxy: Site | None  #: None: none runs
    rules: Sequence[Normalizer]  #: for where none runs
    may_send: MaySend  #: asked before each prompt unlike those before
    counters: Counters  #: of the server
    memory: Memory  #: of the server
    ours: int = 0  #: tokens of the longest prompt sent so far

    def edit(self, data: bytes) -> bytes:
        return normalize(Request("POST", self.trial.path, (), data), self.rules).request.body

    def send_all(self, *, has_one_slot: bool) -> None:
        trial, (first, other, third) = self.trial, self.heads.texts
        plain = self.prompt(first)
        trial.edited = self.edit(plain) != plain if self.proxy is None else None
        self.send("first", first, with_rules=True, is_new=True)
        is_new = self.proxy is None and not trial.edited and first != other
        second = self.send("second", other, with_rules=True, is_new=is_new)
        is_lost = not second.is_reused and second.share is not None
        if second.is_reused:
            self.repeat(second, other, _FEW, with_rules=True)
        if first == other:
            if is_lost:
                self.send_same(other, with_rules=True)
            return
        try:
            without = self.send("without", third, with_rules=False, is_new=True)
        except _NotServedError:
            if self.proxy is None:
                raise
            if is_lost:
                self.send_same(other, with_rules=True)
            trial.translated = True
            return
        later = self.heads.next_turn
        if trial.path == PATHS["messages"] and not without.is_reused:
            self.send("next_turn", later, with_rules=False, is_new=True)
        if is_lost:
            self.send_same(later if trial.next_turn else third, with_rules=False)
        if has_one_slot and second.is_reused and not without.is_reused:
            self.send("again", first, with_rules=True)

    def send_same(self, head: str, *, with_rules: bool) -> None:
        """Send what was sent last, which a single server has now, if it keeps anything."""
        same = self.send("same", head, with_rules=with_rules)
        if same.share is not None:
            self.repeat(same, head, _MOST_SERVERS, with_rules=with_rules)

    def repeat(self, shot: Shot, head: str, most: int, *, with_rules: bool) -> None:
        """Send it until it fares unlike ``shot``: a router may give it to another server."""
        for _ in range(most):
            is_new = not shot.is_reused
            again = self.send("repeated", head, with_rules=with_rules, is_new=is_new)
            if again.is_reused is not shot.is_reused:
                break

    def send(self, name: str, head: str, *, with_rules: bool, is_new: bool = False) -> Shot:
        if is_new and not self.may_send(self.ours):
            raise _HeldBackError
        data, site = self.prompt(head), self.upstream
        if with_rules and self.proxy is not None:
            site = self.proxy
        elif with_rules:
            data = self.edit(data)
        before = self.counters.figures()
        answer = _answer(site, self.trial.path, data)
        usage, is_counted = self.counters.with_reuse(usage_of(answer.json()), before)
        shot = Shot(usage, answer.seconds, self.memory, is_counted)
        setattr(self.trial, name, shot)
        self.ours = max(self.ours, usage.prompt or 0)
        return shot


def _answer(site: Site, path: str, data: bytes) -> Answer:
    try:
        answer = site.post(path, data, ANSWER_SECONDS)
    except NoAnswerError as error:
        raise _EndedError(f"no answer to a request on {path}: {error}") from None
    said = answer.said()
    if answer.status in _NOT_SERVED and "model" not in said.lower():
        raise _NotServedError
    if answer.status != 200:
        raise _EndedError(f"{path} answered {answer.status}{f' ({said})' if said else ''}")
    return answer
