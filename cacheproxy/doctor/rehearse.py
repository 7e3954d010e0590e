"""What the server's chat template does to a conversation with tools, thinking and two questions.

The pages that are asked render it and evaluate nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from cacheproxy.asking import Site
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.server.flags import of_kind
from cacheproxy.core.template.rehearsal import Rehearsal, rehearsing
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.template import answered

_CURE = "; the template keeps it if it is asked to and the client sends it back"
_OPTION = (
    "start the proxy with --keep-thinking yes: the proxy then asks the template, and gives back "
    "what clients drop"
)
_WHEN = {"the date": "once a day", "the time": "each time it changes"}
_WITHOUT_CURE = "; cacheproxy knows no chat_template_kwargs that make the template keep it"
_EITHER_WAY = ", whether the client sends its reasoning back or not"
_IF_SENT = ", if the client sends its reasoning back"
_IF_NOT_SENT = ", if the client does not send its reasoning back"


def of_server(site: Site, now: datetime, model: str | None = None) -> Rehearsal | None:
    """Have the server at ``site`` render it; None: it does not. Never raises."""
    return answered(site, lambda path, name: rehearsing(path, now, name), model)


def check(
    rehearsal: Rehearsal | None, kind: str, record: Record | None = None, keeps: str = ""
) -> list[Finding]:
    """Return the findings; ``kind``: the server's, whose flags are named.

    ``record``: of the proxy before it, which tells what was lost; ``keeps``: what that proxy does
    with earlier reasoning, "" for nothing.
    """
    if rehearsal is None:
        return []
    found = list(_lapsed(rehearsal, record, keeps))
    if rehearsal.clock:
        text = f"the template prints {rehearsal.clock}: the server reads all text behind it again "
        text += _WHEN[rehearsal.clock]
        flag = of_kind(kind).template
        fix = (
            f"start {kind} with {flag}: a copy of the template without that line" if flag else None
        )
        found.append(Finding("template", State.WARN, text, fix))
    if found:
        return found
    text = (
        "this template only appends to a conversation with tools and thinking: the server reads "
        "nothing again at the second user message"
    )
    return [Finding("template", State.OK, text)]


def _lapsed(rehearsal: Rehearsal, record: Record | None, keeps: str) -> Iterator[Finding]:
    for rewrite in Rewrite:
        sent, unsent = (rehearsal.lapse(rewrite, sent_back=back) for back in (True, False))
        lapse = sent or unsent
        if lapse is None or (rewrite is Rewrite.OTHER and rehearsal.clock):
            continue
        if rewrite is Rewrite.THINKING and rehearsal.cure and keeps:
            yield Finding("template", State.OK, f"the template {keeps}")
            continue
        text = lapse.says
        if rewrite is Rewrite.THINKING:
            text += _EITHER_WAY if sent and unsent else _IF_SENT if sent else _IF_NOT_SENT
            text += _CURE if rehearsal.cure else _WITHOUT_CURE
            text += _cost(record)
        elif rewrite is Rewrite.TOOLS:
            text += "; no fix is known"
        cured = rewrite is Rewrite.THINKING and rehearsal.cure is not None
        yield Finding("template", State.WARN, text, _OPTION if cured else None)


def _cost(record: Record | None) -> str:
    """Return what that has cost lately, as the proxy has counted it."""
    turns, tokens = (0, 0) if record is None else record.rewritten(Rewrite.THINKING)
    if record is None or not tokens:
        return ""
    of_all = f"{turns} of the last {len(record.seen)} turns"
    return f"; it cost {tokens:,} tokens in {of_all}, as the proxy counted them"
