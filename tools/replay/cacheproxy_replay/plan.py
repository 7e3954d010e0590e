"""The choice of captured requests to send, and the few changes to each of them.

Law 1 holds here too: the token limit, the stream flag, and the model if one is named are spliced
into the body's own text; the rest stays as it was captured.

A pass starts cold by a mark at the start of its prompts, or by emptying the slots. A mark works
with every server, also with one that caches prompts in memory beside its slots; it makes each
prompt some twenty tokens longer. Emptied slots leave the prompts as captured, but only llama-server
with ``--slot-save-path`` can do that, and its other cache (``--cache-ram``) stays.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.dialects.ollama import OLLAMA
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.kinds.llama_cpp import SLOTS, slots_of
from cacheproxy.core.privacy.redact import REDACTED
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.http_client import CommandError, Site
from cacheproxy.record.exchange import Exchange

_NOT_SENT = frozenset(
    {
        *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect"),
        *("host", "content-length", "content-type", "accept-encoding", "proxy-connection"),
        *("authorization", "x-api-key", "api-key", "cookie", "proxy-authorization", "via"),
    }
)
"""Headers that are not sent: those of the captured connection, and credentials."""

_PLAIN = re.compile(r"[\x20-\x7e\t]*")
_WHY = "replayed"
_HEAD = 300
"""Characters, at most, of a first line that may be a header for rules, and stays the first."""
_COLD = "cold start"


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The requests to send."""

    items: tuple[Exchange, ...]
    """The requests in order, numbered from 1, as they are sent except for mark and rules."""
    answers: int  #: tokens to generate for each, at most
    left_out: tuple[str, ...] = ()  #: numbers of requests not sent, with reasons, in words


def plan(captured: Iterable[Exchange], *, answers: int = 1, model: str | None = None) -> ReplayPlan:
    """Return the requests to send, each asking for ``answers`` tokens at most."""
    ready: list[Request] = []
    reasons: dict[str, int] = {}
    for one in captured:
        why = _unfit(one.received)
        if why is None:
            ready.append(prepared(one.received, answers=answers, model=model))
        elif why:
            reasons[why] = reasons.get(why, 0) + 1
    items = tuple(Exchange(one, number=number) for number, one in enumerate(ready, start=1))
    left_out = tuple(
        f"{count} request{'s' if count > 1 else ''}: {why}" for why, count in reasons.items()
    )
    return ReplayPlan(items, answers, left_out)


def prepared(request: Request, *, answers: int, model: str | None = None) -> Request:
    """Return ``request`` as it is sent: limited to ``answers`` tokens, and streamed.

    Without a stream the time to the first token could not be measured.
    """
    body, dialect = request.json, request.dialect
    assert body is not None
    assert dialect is not None
    wanted = dialect.limited(body, answers)
    if dialect is not OLLAMA or body.get("stream") is False:
        wanted["stream"] = True
    if dialect is CHAT:  # else most servers report no usage in a stream
        options = body.get("stream_options")
        wanted["stream_options"] = (options if isinstance(options, dict) else {}) | {
            "include_usage": True
        }
    if model is not None:
        wanted["model"] = model
    return replace(
        with_members(request, wanted),
        target=_target(request),
        headers=tuple(_kept(request.headers)),
    )


def with_members(request: Request, members: dict[str, Any]) -> Request:
    """Return ``request`` with ``members`` in its body: replaced in place, or put at its start."""
    document, body = request.document, request.json
    assert document is not None
    assert body is not None
    text = apply(
        document, [Edit(f"/{name}", new, _WHY) for name, new in members.items() if name in body]
    ).decode()
    added = {name: new for name, new in members.items() if name not in body}
    if added:
        start = text.index("{") + 1
        comma = "," if body else ""
        text = text[:start] + json.dumps(added, separators=(",", ":"))[1:-1] + comma + text[start:]
    return request.with_text(text)


def headers_of(request: Request, more: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send, with ``more``, in which the key is, if there is one."""
    captured = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return captured | dict(more)


def _unfit(request: Request) -> str | None:
    """Return why ``request`` is not sent ("": no need to report it), None if it is."""
    if request.method != "POST":
        return ""
    if not endpoint_of(request.path).purpose.evaluates:
        return "left out: it only counts tokens"
    if request.dialect is None:
        return "left out: this command does not know its API"
    if request.json is None:
        return f"left out: its body is {request.not_understood}"
    return None


def _target(request: Request) -> str:
    """Return the target of its API on local servers; captures of gateways have other paths."""
    path, dialect = request.path, request.dialect
    is_chat = endpoint_of(path).purpose is Purpose.CHAT
    if dialect is not None and is_chat and not path.endswith(dialect.path):
        path = dialect.path
    _, mark, query = request.target.partition("?")
    return path + mark + query


def _kept(headers: Headers) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers to send: the first of each name, in plain ASCII and not redacted."""
    seen: set[str] = set()
    for name, value in headers:
        lowered = name.decode("latin-1").lower()
        usable = _PLAIN.fullmatch(value.decode("latin-1")) and lowered not in seen
        if lowered not in _NOT_SENT and usable and value != REDACTED.encode():
            seen.add(lowered)
            yield name, value


def new_mark() -> str:
    """Return a new, random mark."""
    return f"[cacheproxy replay {secrets.token_hex(8)}]"


def marked(request: Request, mark: str) -> Request:
    """Return ``request`` with ``mark`` in both texts that may begin a prompt: first tool, system.

    A short first line of the system text stays the first: clients put headers there, and rules
    look for them at the head.
    """
    document = request.document
    assert document is not None
    edits = [*_in_tools(request.json or {}, mark), *_in_text(request, mark)]
    return request.with_body(apply(document, edits))


def erase(site: Site) -> None:
    """Empty all slots of the server at ``site``. Raises CommandError if it refuses."""
    slots = slots_of(site.tell(SLOTS))
    done = [site.tell(f"{SLOTS}/{slot.id}?action=erase", {}) is not None for slot in slots]
    if not done or not all(done):
        raise CommandError(
            f"{site.url} cannot empty its slots: use --cold mark, or start llama-server with "
            "--slots and --slot-save-path DIR"
        )


def _in_tools(body: dict[str, Any], mark: str) -> Iterator[Edit]:
    """Yield the edit that puts ``mark`` into the first description in a tool, if there is one."""
    tools = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        path = _description(tool, f"/tools/{index}")
        if path is not None:
            yield Edit(path, f"{mark}\n", _COLD, (0, 0))
            return


def _description(value: Any, path: str) -> str | None:
    """Return the path of the first description in a tool, None if it has none."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("description"), str):
        return f"{path}/description"
    for key in ("function", "input_schema", "parameters"):
        found = _description(value.get(key), f"{path}/{key}")
        if found is not None:
            return found
    return None


def _in_text(request: Request, mark: str) -> Iterator[Edit]:
    """Yield the edit that puts ``mark`` into the first text, behind a first line that is short."""
    texts = list(_first_texts(request))
    if not texts:
        return
    (path, head), *others = texts
    line = head.find("\n", 0, _HEAD)
    if line >= 0:
        yield Edit(path, f"{mark}\n", _COLD, (line + 1, line + 1))
    elif len(head) > _HEAD:
        yield Edit(path, f"{mark}\n", _COLD, (0, 0))
    elif others:
        yield Edit(others[0][0], f"{mark}\n", _COLD, (0, 0))
    else:
        yield Edit(path, f"\n{mark}", _COLD, (len(head), len(head)))


def _first_texts(request: Request) -> Iterator[tuple[str, str]]:
    """Yield path and text of each system text, or of the first message's texts if there is none."""
    body = request.json or {}
    messages = request.dialect.items if request.dialect is not None else ""
    for name in ("system", "instructions", messages, "prompt"):
        value = body.get(name)
        found = list(_texts(f"/{name}", value))
        if found:
            yield from found
            return


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in ``value``: itself, its blocks', or those of the first message with any."""
    if isinstance(value, str) and value:
        yield path, value
    for index, inner in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(inner, dict):
            continue
        if isinstance(inner.get("text"), str):
            yield f"{path}/{index}/text", inner["text"]
        elif "content" in inner:
            found = list(_texts(f"{path}/{index}/content", inner["content"]))
            if found:
                yield from found
                return
