"""Does it reuse: one prompt, two volatile headers, with the rules and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cacheproxy.core.normalize import normalize
from cacheproxy.core.request import Request
from cacheproxy.core.rules import Normalizer
from cacheproxy.core.usage import Usage, usage_of
from cacheproxy.doctor.prompt import PATHS, Api, Header, body
from cacheproxy.doctor.site import Answer, NoAnswerError, Site

GOOD = 0.8
"""A repeated prompt of which this part is reused was reused: servers keep whole blocks only, and
compute the last tokens anew."""
ANSWER_SECONDS = 300.0
"""A busy server answers when a slot is free."""
_NOT_SERVED = (404, 405, 501)
_FIRST, _SECOND = Header("1a2", "a1b2c"), Header("3b4", "d3e4f")
_OTHER, _OTHER_CCH = Header("5c6", "0a9b8"), Header("5c6", "7c6d5")

Send = Callable[[bytes], Answer]


@dataclass(frozen=True, slots=True)
class Shot:
    """One request that was answered: what it cost; ``wall`` in seconds until the whole answer."""

    usage: Usage
    wall: float

    @property
    def share(self) -> float | None:
        """The reused part of the prompt, 0 to 1; None if the server does not say."""
        if self.usage.reused is None or not self.usage.prompt:
            return None
        return self.usage.reused / self.usage.prompt

    @property
    def is_reused(self) -> bool:
        """Whether the prompt was reused as far as servers do."""
        return (self.share or 0.0) >= GOOD


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of the requests on one path, in their order; None: not sent, or no answer.

    ``first``, ``second``: through the rules, with different headers. ``without``: a third
    header, not edited. ``cch_only``: the same again but for the cch, which llama.cpp repairs by
    itself on ``/v1/messages``. ``same``: exactly what was sent before, which tells whether the
    server reuses anything at all. ``again``: the first once more, after those unlike it: on a
    server with one slot it tells whether the RAM cache is on.

    ``through_proxy``: through the one that runs, else through the rules in this process.
    ``edited``: whether the rules changed anything, None where the proxy that runs knows.
    ``error``: why it ended early, one line. ``held_back``: it ended because the next prompt might
    have pushed out another.
    """

    path: str
    through_proxy: bool
    first: Shot | None = None
    second: Shot | None = None
    without: Shot | None = None
    cch_only: Shot | None = None
    same: Shot | None = None
    again: Shot | None = None
    edited: bool | None = None
    error: str | None = None
    held_back: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether the server said what it reused of the second request."""
        return self.second is not None and self.second.share is not None

    @property
    def works(self) -> bool:
        """Whether it was reused with the rules."""
        return self.second is not None and self.second.is_reused

    @property
    def works_without(self) -> bool:
        """Whether it was reused without them, too."""
        return self.without is not None and self.without.is_reused


class _EndedError(Exception):
    """The trial ends here; the message says why, or is empty if the path is not served."""


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
    may_send: Callable[[], bool] = lambda: True,
    has_one_slot: bool = False,
) -> Trial | None:
    """Send the requests; None if the server does not serve the path of ``api``.

    Three of about 600 tokens, of which one or two are computed; a fourth where it tells more.
    ``mark``: text that no earlier prompt has, so that the first is cold. ``may_send``: asked
    before each prompt that is unlike those before. ``has_one_slot``: whether ``again`` tells
    something. Never raises.
    """
    path = PATHS[api]
    found: dict[str, Shot] = {}
    edited: bool | None = None

    def edit(data: bytes) -> bytes:
        return normalize(Request("POST", path, (), data), rules).request.body

    def send(name: str, header: Header, *, with_rules: bool, is_new: bool = False) -> Shot:
        if is_new and not may_send():
            raise _HeldBackError
        data = body(api, model, header, mark)
        site = upstream
        if with_rules and proxy is not None:
            site = proxy
        elif with_rules:
            data = edit(data)
        found[name] = _shot(site, path, data)
        return found[name]

    if proxy is None:
        edited = edit(plain := body(api, model, _FIRST, mark)) != plain
    error, held_back = None, False
    try:
        send("first", _FIRST, with_rules=True, is_new=True)
        second = send("second", _SECOND, with_rules=True, is_new=proxy is None and not edited)
        without = send("without", _OTHER, with_rules=False, is_new=True)
        if api == "messages" and not without.is_reused:
            send("cch_only", _OTHER_CCH, with_rules=False, is_new=True)
        if not second.is_reused and second.share is not None:
            last = _OTHER_CCH if "cch_only" in found else _OTHER
            send("same", last, with_rules=False)
        if has_one_slot and second.is_reused and not without.is_reused:
            send("again", _FIRST, with_rules=True)
    except _HeldBackError:
        held_back = True
    except _EndedError as ended:
        if not found and not str(ended):
            return None
        error = str(ended) or f"{path} was served once, and then no more"
    return Trial(path, proxy is not None, **found, edited=edited, error=error, held_back=held_back)


def _shot(site: Site, path: str, data: bytes) -> Shot:
    try:
        answer = site.post(path, data, ANSWER_SECONDS)
    except NoAnswerError as error:
        raise _EndedError(f"no answer to a request on {path}: {error}") from None
    said = answer.said()
    if answer.status in _NOT_SERVED and "model" not in said.lower():
        raise _EndedError
    if answer.status != 200:
        raise _EndedError(f"{path} answered {answer.status}{f' ({said})' if said else ''}")
    return Shot(usage_of(answer.json()), answer.seconds)
