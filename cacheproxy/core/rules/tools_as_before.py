"""The rule tools-as-before: what is known of the tools from the turn before stays as it was.

Templates print the tools near the start of the prompt, each as JSON. Clients insert new ones in
alphabetical order (Claude Code 2.1.329 with ToolSearch), list them in another order after an MCP
server was connected anew, or spell a schema in another way.
"""

from __future__ import annotations

from collections.abc import Iterator

from cacheproxy.core.document.alike import alike
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import Edit, Raw
from cacheproxy.core.document.spans import Container, SpelledValue
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import tool_name
from cacheproxy.core.rules.code_rule import CodeRule, quick

_WHY = "tools of the turn before keep their order and spelling; new ones come last"


@quick
def _as_before(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Put the tools in the order of the turn before, each spelled as it was.

    Nothing is done where two tools have one name, or one has none: they cannot be told apart.
    """
    if previous is None or request.dialect is None or request.document is None:
        return
    tools = request.document.array("tools")
    if tools is None or _is_in(previous.body, request.document, tools):
        return
    before = previous.document.array("tools") if previous.document is not None else None
    ours, theirs = _by_name(tools), _by_name(before)
    order = [name for name in theirs if name in ours]
    order += [name for name in ours if name not in theirs]
    for at, name in enumerate(order):
        tool, known = ours[name], theirs.get(name)
        if known is not None and known.spelled != tool.spelled and alike(known.value, tool.value):
            tool = known
        if tool.spelled != tools.items[at].spelled:
            yield Edit(f"/tools/{at}", Raw(tool.spelled.decode()), _WHY)


def _is_in(body: bytes, document: Document, tools: Container) -> bool:
    """Whether the very same tools stand in ``body``, as far from its start or from its end."""
    start = document.entry(("tools",)).value_start
    places = start, start + len(body) - len(document.body)
    return any(body.startswith(tools.spelled, at) for at in places if at >= 0)


def _by_name(tools: Container | None) -> dict[str, SpelledValue]:
    """Return the tools by their names; none of them where they cannot be told apart."""
    items = () if tools is None else tools.items
    found = {name: item for item in items if (name := tool_name(item.value)) is not None}
    return found if len(found) == len(items) else {}


TOOLS_AS_BEFORE = CodeRule("tools-as-before", _WHY, _as_before, needs_previous=True)
