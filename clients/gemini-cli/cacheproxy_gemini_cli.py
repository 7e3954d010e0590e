r"""Gemini CLI for cacheproxy: a rule for tool responses that a resumed session sends twice.

Shape, from requests of Gemini CLI 0.61.0 to ``/v1beta/models/…:streamGenerateContent``. After
``--resume``, a content of the user's role with::

    {"functionResponse": {"name": "run_shell_command", "response": {…}, "id": "run_…_0"}}

has each part twice. A call has one id and one response, so the copy has no information.
"""

from __future__ import annotations

from collections.abc import Iterator

from cacheproxy import (
    REMOVE,
    Client,
    CodeRule,
    Edit,
    Launch,
    Need,
    Request,
    Setup,
    hookimpl,
    quick,
)

CLIENT = Client(name="gemini", agents=("geminicli",))
_GOOGLE = (
    "Gemini CLI speaks only Google's API, so the server behind the proxy must speak it too (a "
    "gateway such as LiteLLM does)"
)


@quick
def _copies(request: Request, _previous: Request | None) -> Iterator[Edit]:
    """Remove each response that is an exact copy of one before it in the same content."""
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


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return variables (geminicli.com/docs: configuration; the last one is in its source)."""
    variables = {"GOOGLE_GEMINI_BASE_URL": need.url, "GEMINI_API_KEY": need.key}
    if need.model is not None:
        variables["GEMINI_MODEL"] = need.model
    if need.needs_header:
        variables["GEMINI_CLI_CUSTOM_HEADERS"] = f"{need.token_header}: {need.token}"
    launch = Launch("gemini", "npm install --global @google/gemini-cli")
    return Setup(variables, warnings=(_GOOGLE,), launch=launch)
