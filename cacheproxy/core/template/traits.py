"""Traits of a chat template besides placement: how it renders a turn once the next one begins.

The questions work like those on placement (see ``rendering``). The same turn is rendered while it
waits for the model and after the user has answered, with its reasoning and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.clock import clock_in
from cacheproxy.core.servers.kind import RenderingPage
from cacheproxy.core.servers.profile import Profile, Thinking, ThinkingProfile
from cacheproxy.core.template.rendering import (
    BARE_ENDED,
    BARE_OPEN,
    ENDED,
    HEAD,
    KEEPERS,
    ONE,
    OPEN,
    RESULT,
    SAYS,
    THOUGHT,
    TWO,
    Asking,
    Rendered,
    asking,
    render,
    turn,
)


class TemplateAnswer(NamedTuple):
    """What a page told of a template."""

    model: str  #: that was asked, "" for whichever the server has
    profile: Profile  #: with the page, the placement, and what else it shows


def learning(
    found: list[TemplateAnswer],
    page: RenderingPage,
    named: str,
    now: datetime,
    formats: Sequence[str] = (),
) -> Asking[None]:
    """Ask ``page`` for all that it tells, and append that to ``found``.

    First the placement, which a request may wait for. ``named``: the model to ask for where the
    server wants one. Raises NoPageError.
    """
    for model in ("", named) if named else ("",):
        placement = yield from asking(page, model)
        if placement is not None:
            known = Profile(placement=placement, page=page.path)
            found.append(TemplateAnswer(model, known))
            traits = yield from asking_traits(page, model, now, formats)
            found.append(
                TemplateAnswer(model, replace(traits, placement=placement, page=page.path))
            )
            return


def asking_traits(
    page: RenderingPage, model: str = "", now: datetime | None = None, formats: Sequence[str] = ()
) -> Asking[Profile]:
    """Ask ``page`` as ``rendering.asking`` does, where a template was found there.

    ``now``: by the server's clock, as far as we know; ``formats``: see ``clock_formats``.
    Raises NoPageError.
    """
    rendered: dict[str, str | None] = {}
    sent_back, bare = turn(THOUGHT), turn()
    for name, question in (
        (ENDED, sent_back[ENDED]),
        (BARE_OPEN, bare[OPEN]),
        (BARE_ENDED, bare[ENDED]),
    ):
        rendered[name] = yield from render(page, question, model)
    keeper, way = None, Thinking.KEPT if _shows(rendered, ENDED) else Thinking.UNKNOWN
    if _shows(rendered, ENDED) is False:
        rendered[OPEN] = yield from render(page, sent_back[OPEN], model)
        is_shown = _shows(rendered, OPEN)
        if is_shown is not None:
            way = Thinking.DROPPED if is_shown else Thinking.NEVER_SHOWN
        for name, value in KEEPERS if is_shown else ():
            asked = sent_back[ENDED] | {"chat_template_kwargs": {name: value}}
            text = yield from render(page, asked, model)
            if text is not None and THOUGHT in text:
                keeper, way = (name, value), Thinking.ON_REQUEST
                break
    text = rendered[ENDED] or rendered[BARE_ENDED] or ""
    return Profile(
        thoughts=ThinkingProfile(way, keeper, _writes_empty(rendered)),
        order=order_of(text),
        tools_last=0 <= text.find(TWO) < text.find(SAYS),
        system_last=0 <= text.find(TWO) < text.find(HEAD),
        clock=clock_in(text, now, formats) if now is not None else "",
    )


def order_of(text: str) -> PromptOrder | None:
    """Return what a rendered prompt begins with, None where it lacks the system text or a tool."""
    head, tool = text.find(HEAD), text.find(SAYS)
    if head < 0 or tool < 0:
        return None
    return PromptOrder.TOOLS_FIRST if tool < head else PromptOrder.SYSTEM_FIRST


def _shows(rendered: Rendered, name: str) -> bool | None:
    """Whether the reasoning stands in an answer, None where there is none to look at."""
    text = rendered.get(name)
    return THOUGHT in text if text is not None and RESULT in text else None


def _writes_empty(rendered: Rendered) -> bool:
    """Whether a turn that never had reasoning is rendered otherwise once it has ended.

    Looked at is what stands between the user's text and the tool's result. The tools may be there,
    too, in templates that write them into the last user message: that is another matter.
    """
    turns = []
    for name in (BARE_OPEN, BARE_ENDED):
        text = rendered.get(name) or ""
        start, end = text.find(ONE), text.find(RESULT)
        if not 0 <= start < end or SAYS in text[start:end]:
            return False
        turns.append(text[start:end])
    return turns[0] != turns[1]
