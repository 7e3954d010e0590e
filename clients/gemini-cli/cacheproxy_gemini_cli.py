r"""Gemini CLI for cacheproxy: tool responses that a resumed session sends twice.

Shape, from what Gemini CLI 0.61.0 sent to ``/v1beta/models/…:streamGenerateContent``: after
``--resume``, a content of the user's role with::

    {"functionResponse": {"name": "run_shell_command", "response": {…}, "id": "run_…_0"}}

has each part twice. A call has one id and one response, so the copy says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from cacheproxy import REMOVE, Client, CodeRule, Edit, Request, quick

CLIENT = Client(name="gemini", agents=("geminicli",))


@quick
def _copies(request: Request, _previous: Request | None) -> Iterator[Edit]:
    """Take out each response that stands in its content for the second time, to the letter."""
    contents = (request.json or {}).get("contents")
    for number, content in enumerate(contents if isinstance(contents, list) else ()):
        parts = content.get("parts") if isinstance(content, dict) else None
        seen: dict[str, object] = {}
        for place, part in enumerate(parts if isinstance(parts, list) else ()):
            response = part.get("functionResponse") if isinstance(part, dict) else None
            call = response.get("id") if isinstance(response, dict) else None
            if not isinstance(call, str) or not call:
                continue
            if seen.setdefault(call, part) == part and seen[call] is not part:
                yield Edit(f"/contents/{number}/parts/{place}", REMOVE, RESPONSE_ONCE.why)


RESPONSE_ONCE = CodeRule(
    name="gemini-response-once",
    why="second copy of a tool's response left out",
    find=_copies,
    literals=("functionResponse",),
)
RULES: tuple[CodeRule, ...] = (RESPONSE_ONCE,)
