"""Where the server's chat template puts a system message that comes late, and what the proxy does.

The proxy learns it and says so on its health page. Where none runs, ``of_server`` is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from cacheproxy.asking import NoAnswerError, Site
from cacheproxy.core.placement.placement import Late
from cacheproxy.core.template import rendering
from cacheproxy.core.template.rendering import Asking
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.record import Record

Told = TypeVar("Told")
PLACE = "start the proxy with --placement user"
OTHER = "start the server with another chat template: llama-server --chat-template-file FILE"
_SECONDS = 2.0
"""For an answer: to render a dozen words takes a server milliseconds."""
_SENDERS = ("claude", "codex")
"""Clients that send system messages besides the first: Codex a second one at the head."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What is known of the template: ``late`` is its way, ``says`` the sentence for people.

    ``late``: inline, user, hoisted, refused, dropped or unknown. ``setting``: the proxy's own.
    ``refuses``: what it refuses and nobody can mend.
    """

    late: str
    says: str
    setting: str = ""
    refuses: tuple[str, ...] = ()

    @property
    def harms(self) -> bool:
        """Whether clients that send late system messages need the proxy here."""
        return self.late in (Late.HOISTED, Late.REFUSED, Late.DROPPED)


def of_health(page: Any) -> Placement | None:
    """Return what the member ``placement`` of a health page says, None if it says nothing."""
    if not isinstance(page, dict):
        return None
    late, says, setting = (page.get(name) for name in ("late", "says", "setting"))
    if not isinstance(late, str) or not isinstance(says, str):
        return None
    mended, refuses = page.get("mended"), page.get("refuses")
    return Placement(
        late,
        mended if isinstance(mended, str) else says,
        setting if isinstance(setting, str) else "",
        tuple(map(str, refuses)) if isinstance(refuses, list) else (),
    )


def of_server(site: Site) -> Placement | None:
    """Ask the model server at ``site`` itself; None: it does not tell. Never raises."""
    found = answered(site, rendering.asking)
    if found is None:
        return None
    return Placement(str(found.late), found.mended, refuses=found.refuses)


def answered(
    site: Site, asking: Callable[[str, str], Asking[Told | None]], model: str | None = None
) -> Told | None:
    """Have the server at ``site`` render what ``asking`` asks; return what that tells, if anything.

    ``asking``: of a page's path and a model's name. Without a name first; then with ``model``, for
    servers that want one. Never raises.
    """
    for path in rendering.PAGES:
        for name in ("", model) if model else ("",):
            questions = asking(path, name)
            try:
                body = next(questions)
                while True:
                    answer = site.post(path, body, _SECONDS)
                    body = questions.send((answer.status, answer.body))
            except NoAnswerError:
                return None
            except rendering.NoPageError:
                break
            except StopIteration as end:
                told: Told | None = end.value
                if told is not None:
                    return told
    return None


def check(placement: Placement | None, record: Record | None) -> list[Finding]:
    """Return the findings on the template, if there is anything to say.

    ``record``: tells whether clients came that send late system messages.
    """
    refuses = [_refused(what) for what in (placement.refuses if placement is not None else ())]
    if placement is not None and placement.late != Late.UNKNOWN:
        return [Finding("template", State.OK, placement.says), *refuses]
    clients = record.clients() if record is not None else {}
    senders = [client for client in _SENDERS if client in clients]
    if not senders:
        return refuses
    text = (
        "it is not known where this server puts system messages in mid-conversation, which "
        f"{senders[0]} sends. If it refuses them, or reads the whole prompt again, the proxy can "
        "send them as user messages"
    )
    return [Finding("template", State.WARN, text, PLACE), *refuses]


def _refused(what: str) -> Finding:
    text = f"the chat template refuses {what}, which the proxy cannot mend: such requests fail"
    return Finding("template", State.WARN, text, OTHER)
