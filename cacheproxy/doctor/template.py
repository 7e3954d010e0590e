"""What the server's chat template does, and what the proxy does about it.

The proxy learns it, and says so on its health page. Where it has not, or none runs, the server is
asked in the same way: it renders a few dozen words, and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial

from cacheproxy.asking import NoAnswerError, Site, have_answered
from cacheproxy.client_setup.finding import Finding, ok, warn
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.placement.placement import Late, Placement
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.kinds import EXAMPLE, all_kinds, kind_called
from cacheproxy.core.servers.profile import Profile, Thinking
from cacheproxy.core.template import rendering
from cacheproxy.core.template.traits import TemplateAnswer, learning, with_template
from cacheproxy.doctor.record import PLACE, Record

OTHER = f"start the server with another chat template: {EXAMPLE.name} {EXAMPLE.template}"
_SECONDS = 2.0
"""For an answer: to render a dozen words takes a server milliseconds."""
_CURE = "; the template keeps it if it is asked to and the client sends it back"
_OPTION = (
    "start the proxy with --keep-thinking yes: the proxy then asks the template, and gives back "
    "what clients drop"
)
_WHEN = {"the date": "once a day", "the time": "each time it changes"}
_WITHOUT_CURE = "; cacheproxy knows no chat_template_kwargs that make the template keep it"


def learned(
    site: Site, profile: Profile, formats: tuple[str, ...] = (), model: str | None = None
) -> Profile:
    """Return ``profile`` with what the server at ``site`` tells of its template. Never raises.

    ``formats``: see ``Look``. ``model``: for servers that want to know it.
    """
    found: list[TemplateAnswer] = []
    for page in (kind.rendering for kind in all_kinds() if kind.rendering is not None):
        questions = learning(found, page, model or "", datetime.now(UTC), formats)
        try:
            have_answered(questions, partial(_render, site, page.path))
        except NoAnswerError:
            break
        except rendering.NoPageError:
            continue
        if found:
            break
    return with_template(profile, found[-1:]) if found else profile


def _render(site: Site, path: str, body: bytes) -> tuple[int, bytes]:
    answer = site.post(path, body, _SECONDS)
    return answer.status, answer.body


def check(
    placement: Placement | None, record: Record | None, clients: Iterable[Client] = ()
) -> list[Finding]:
    """Return the findings on late system messages, if there is anything to say.

    ``record``: tells which of the ``clients`` came that send late system messages.
    """
    refuses = [_refused(what) for what in (placement.refuses if placement is not None else ())]
    if placement is not None and placement.late != Late.UNKNOWN:
        return [ok("template", placement.mended), *refuses]
    seen = record.clients() if record is not None else {}
    senders = [one.name for one in clients if one.sends_late and one.name in seen]
    if not senders:
        return refuses
    text = (
        "it is not known where this server puts system messages in mid-conversation, which "
        f"{senders[0]} sends. If it refuses them, or reads the whole prompt again, the proxy can "
        "send them as user messages"
    )
    return [warn("template", text, PLACE), *refuses]


def _refused(what: str) -> Finding:
    text = f"the chat template refuses {what}, which the proxy cannot mend: such requests fail"
    return warn("template", text, OTHER)


def check_turns(profile: Profile, record: Record | None = None, keeps: str = "") -> list[Finding]:
    """Return the findings on turns: what the server reads again when the next one begins.

    ``record``: of the proxy before it, which tells what was lost; ``keeps``: what that proxy does
    with earlier reasoning, "" for nothing.
    """
    found = [*_thinking(profile, record, keeps), *_moved(profile)]
    if profile.clock:
        text = f"the template prints {profile.clock}: the server reads all text behind it again "
        kind = profile.server.kind if profile.server is not None else ""
        flag = kind_called(kind).template
        fix = (
            f"start {kind} with {flag}: a copy of the template without that line" if flag else None
        )
        found.append(warn("template", text + _WHEN[profile.clock], fix))
    if found or profile.thoughts.way is Thinking.UNKNOWN:
        return found
    text = (
        "this template only appends to a conversation with tools and thinking: the server reads "
        "nothing again at the second user message"
    )
    return [ok("template", text)]


def _thinking(profile: Profile, record: Record | None, keeps: str) -> Iterator[Finding]:
    thoughts = profile.thoughts
    drops = thoughts.way in (Thinking.DROPPED, Thinking.ON_REQUEST)
    if not (drops or thoughts.writes_empty):
        return
    if thoughts.asked_by and keeps:
        yield ok("template", f"the template {keeps}")
        return
    what = "thinking of the turn before" if drops else "empty thinking block that it had written"
    text = _again(f"drops the {what}", "everything after the first user message")
    if drops and thoughts.writes_empty:
        text += ", whether the client sends its reasoning back or not"
    else:
        text += f", if the client {'sends' if drops else 'does not send'} its reasoning back"
    text += (_CURE if thoughts.asked_by else _WITHOUT_CURE) + _cost(record)
    yield warn("template", text, _OPTION if thoughts.asked_by else None)


def _moved(profile: Profile) -> Iterator[Finding]:
    """Yield what stands in the last user message, and so in another place at the next one."""
    is_head = profile.system_last or profile.order is PromptOrder.TOOLS_FIRST
    after = "the whole prompt" if is_head else "everything after the system text"
    for what, is_last in (("tools", profile.tools_last), ("system text", profile.system_last)):
        if is_last:
            text = _again(f"moves the {what}, which it prints in the last user message", after)
            yield warn("template", f"{text}; no fix is known")


def _again(does: str, what: str) -> str:
    return f"at the second user message this template {does}: the server reads {what} again"


def _cost(record: Record | None) -> str:
    """Return what that has cost lately, as the proxy has counted it."""
    turns, tokens = (0, 0) if record is None else record.rewritten(Rewrite.THINKING)
    if record is None or not tokens:
        return ""
    of_all = f"{turns} of the last {len(record.seen)} turns"
    return f"; it cost {tokens:,} tokens in {of_all}, as the proxy counted them"
