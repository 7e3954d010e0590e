"""How a pass starts cold: by a mark at the start of its prompts, or by emptying the slots.

A mark works with every server, also with one that keeps prompts in memory beside its slots; it
makes each prompt some twenty tokens longer. Emptied slots leave the prompts as captured, but only
llama-server with ``--slot-save-path`` has that, and what it keeps elsewhere (``--cache-ram``)
stays.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from cacheproxy.asking import CommandError, Site
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.llama_cpp import SLOTS, slots_of

_HEAD = 300
"""Characters: a first line no longer than this may be a header that rules look for there."""
_WHY = "cold start"


def new_mark() -> str:
    """Return a mark that no prompt has had before."""
    return f"[cacheproxy replay {secrets.token_hex(8)}]"


def marked(request: Request, mark: str) -> Request:
    """Return ``request`` with ``mark`` where a chat template begins: first tool, system text.

    A short first line of the system text keeps its place: clients put headers there, and rules
    look for them at the head.
    """
    document = request.document
    assert document is not None
    edits = [*_in_tools(request.json or {}, mark), *_in_text(request, mark)]
    return request.with_body(apply(document, edits))


def erase(site: Site) -> None:
    """Empty all slots of the server at ``site``. Raises CommandError if it does not do that."""
    slots = slots_of(site.tell(SLOTS))
    done = [site.tell(f"{SLOTS}/{slot.id}?action=erase", {}) is not None for slot in slots]
    if not done or not all(done):
        raise CommandError(
            f"{site.url} cannot empty its slots: use --cold mark, or start llama-server with "
            "--slots and --slot-save-path DIR"
        )


def _in_tools(body: dict[str, Any], mark: str) -> Iterator[Edit]:
    tools = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        path = _description(tool, f"/tools/{index}")
        if path is not None:
            yield Edit(path, f"{mark}\n", _WHY, (0, 0))
            return


def _description(value: Any, path: str) -> str | None:
    """Return where the first description of a tool stands."""
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
    texts = list(_first_texts(request))
    if not texts:
        return
    (path, head), *others = texts
    line = head.find("\n", 0, _HEAD)
    if line >= 0:
        yield Edit(path, f"{mark}\n", _WHY, (line + 1, line + 1))
    elif len(head) > _HEAD:
        yield Edit(path, f"{mark}\n", _WHY, (0, 0))
    elif others:
        yield Edit(others[0][0], f"{mark}\n", _WHY, (0, 0))
    else:
        yield Edit(path, f"\n{mark}", _WHY, (len(head), len(head)))


def _first_texts(request: Request) -> Iterator[tuple[str, str]]:
    """The texts of the system prompt, or of the first message if there is none: path and text."""
    body = request.json or {}
    messages = request.dialect.items if request.dialect is not None else ""
    for name in ("system", "instructions", messages, "prompt"):
        value = body.get(name)
        found = list(_texts(f"/{name}", value))
        if found:
            yield from found
            return


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Texts in ``value``: itself, or those of its blocks, or of the first message that has any."""
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
