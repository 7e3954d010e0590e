"""Traits of a chat template besides placement: how it renders a turn once the next one begins.

The questions work like those on placement (see ``rendering``). The same turn is rendered while it
waits for the model and after the user has answered, with its reasoning and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from cacheproxy.core.kinds.clock import clock_in
from cacheproxy.core.kinds.kind import RenderingPage
from cacheproxy.core.kinds.profile import Profile, Thinking, ThinkingProfile
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.template.rendering import (
    BARE_ENDED,
    BARE_OPEN,
    ENDED,
    HEAD,
    KEEPERS,
    ONE,
    OPEN,
    RESULT,
    SPEECH,
    THOUGHT,
    TWO,
    Asking,
    Rendered,
    asking,
    render,
    turn,
)


class TemplateAnswer(NamedTuple):
    """The conclusions on a template from a page's answers."""

    model: str  #: model of the probe, "" for the server's default
    profile: Profile  #: the page, the placement, and other traits


def learning(
    found: list[TemplateAnswer],
    page: RenderingPage,
    named: str,
    now: datetime,
    formats: Sequence[str] = (),
) -> Asking[None]:
    """Probe ``page`` for all traits of the template, and append the conclusions to ``found``.

    The placement comes first, as a request may wait for it. ``named``: the model for a server that
    needs one. Raises NoPageError.
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
    """Probe ``page`` for the traits besides placement; it has been found to render a template.

    ``now``: the server's time, as far as known; ``formats``: see ``clock_formats``.
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
        tools_last=0 <= text.find(TWO) < text.find(SPEECH),
        system_last=0 <= text.find(TWO) < text.find(HEAD),
        clock=clock_in(text, now, formats) if now is not None else "",
    )


def order_of(text: str) -> PromptOrder | None:
    """Return the order of a rendered prompt, None if it lacks the system text or the tool."""
    head, tool = text.find(HEAD), text.find(SPEECH)
    if head < 0 or tool < 0:
        return None
    return PromptOrder.TOOLS_FIRST if tool < head else PromptOrder.SYSTEM_FIRST


def _shows(rendered: Rendered, name: str) -> bool | None:
    """Whether the reasoning is in a rendered text, None if that lacks even the tool's result."""
    text = rendered.get(name)
    return THOUGHT in text if text is not None and RESULT in text else None


def _writes_empty(rendered: Rendered) -> bool:
    """Whether a turn that never had reasoning is rendered otherwise once it has ended.

    The text between the user's text and the tool's result is compared. False if it contains the
    tools, as in templates that write them into the last user message.
    """
    turns = []
    for name in (BARE_OPEN, BARE_ENDED):
        text = rendered.get(name) or ""
        start, end = text.find(ONE), text.find(RESULT)
        if not 0 <= start < end or SPEECH in text[start:end]:
            return False
        turns.append(text[start:end])
    return turns[0] != turns[1]
