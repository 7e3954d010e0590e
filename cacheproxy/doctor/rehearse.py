"""What the server's chat template does to a conversation with tools, thinking and two questions.

The pages that are asked render it and evaluate nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from cacheproxy.asking import Site
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.server.flags import as_object, of_kind
from cacheproxy.core.template.rehearsal import Lapse, Rehearsal, rehearsing
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.template import answered

_CURE = "; it keeps it if asked to, of clients that send it back, as Claude Code does"
_WHEN = {"the date": "once a day", "the time": "whenever it has changed"}
_WITHOUT_CURE = "; no chat_template_kwargs that are known make it keep it"
_EITHER_WAY = ", whether the client sends its reasoning back or not"
_IF_SENT = ", where the client sends its reasoning back"
_IF_NOT_SENT = ", where the client does not send its reasoning back"


def of_server(site: Site, now: datetime, model: str | None = None) -> Rehearsal | None:
    """Have the server at ``site`` render it; None: it does not. Never raises."""
    return answered(site, lambda path, name: rehearsing(path, now, name), model)


def check(rehearsal: Rehearsal | None, kind: str) -> list[Finding]:
    """Return the findings; ``kind``: the server's, whose flags are named."""
    if rehearsal is None:
        return []
    found = list(_lapsed(rehearsal, kind))
    if rehearsal.clock:
        text = f"the template prints {rehearsal.clock}: what stands behind it is read again "
        text += _WHEN[rehearsal.clock]
        flag = of_kind(kind).template
        fix = f"start {kind} with {flag}, a copy without that line" if flag else None
        found.append(Finding("template", State.WARN, text, fix))
    if found:
        return found
    text = (
        "a conversation with tools and thinking only grows in this template: nothing is read "
        "again at the second user message"
    )
    return [Finding("template", State.OK, text)]


def _lapsed(rehearsal: Rehearsal, kind: str) -> Iterator[Finding]:
    for rewrite in Rewrite:
        sent, unsent = (rehearsal.lapse(rewrite, sent_back=back) for back in (True, False))
        lapse = sent or unsent
        if lapse is None or (rewrite is Rewrite.OTHER and rehearsal.clock):
            continue
        text = lapse.says
        if rewrite is Rewrite.THINKING:
            text += _EITHER_WAY if sent and unsent else _IF_SENT if sent else _IF_NOT_SENT
            text += _CURE if rehearsal.cure else _WITHOUT_CURE
        elif rewrite is Rewrite.TOOLS:
            text += "; there is no cure"
        yield Finding("template", State.WARN, text, _fix(lapse, rehearsal, kind))


def _fix(lapse: Lapse, rehearsal: Rehearsal, kind: str) -> str | None:
    if lapse.rewrite is not Rewrite.THINKING or rehearsal.cure is None:
        return None
    server = of_kind(kind)
    if flag := server.with_kwargs(rehearsal.cure):
        return f"start {server.name} with {flag}"
    return f"chat_template_kwargs {as_object(rehearsal.cure)} in the client's requests"
