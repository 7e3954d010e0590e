r"""goose for cacheproxy: the date and hour in its system text, and its sessions.

Shapes, from goose's sources (``crates/goose/src/prompts/system.md``,
``crates/goose/src/agents/prompt_manager.rs``, ``crates/goose/src/session_context.rs``):

- system text, in older versions::

      You are a general-purpose AI agent called goose, created by Block, …
      goose is being developed as an open-source software project.

      The current date is 2025-09-30 14:00.

  of the hour in which the process began; before that, of the second;

- the header ``agent-session-id``, which other programs send, too.

goose sends no user agent; the beginning of its system text tells its requests.
"""

from __future__ import annotations

from cacheproxy import SYSTEM_HEAD, Client, Launch, Need, Request, Rule, Setup, hookimpl, quick

CLIENT = Client(
    name="goose",
    advice=(
        (
            "left during prefill",
            "goose",
            "cacheproxy run goose sets OPENAI_TIMEOUT and GOOSE_STREAM_TIMEOUT",
        ),
    ),
    head=(
        "You are a general-purpose AI agent called goose, created by ",
        "You are a general-purpose AI agent called Goose, created by ",
        "You are a specialized subagent within the goose AI framework",
    ),
)
PIN_DATE = Rule(
    name="goose-pin-date",
    where=SYSTEM_HEAD,
    pattern=(
        r"\AYou are a general-purpose AI agent called [Gg]oose, created by [^\n]*\n(?:[^\n]+\n)?"
        r"\nThe current date is (?P<volatile>\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}(?::\d{2})?)?)\.\n"
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"The current date is now \g<volatile>.",
    literals=("The current date is ",),
)
RULES = (PIN_DATE,)
_INSTALL = (
    "curl -fsSL https://github.com/block/goose/releases/download/stable/download_cli.sh | bash"
)


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return the session that goose names in a header; a subagent has one of its own."""
    return request.header("agent-session-id") or None


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return variables (goose-docs.ai: environment variables, providers); the path is as usual."""
    variables = {
        "GOOSE_PROVIDER": "openai",
        "OPENAI_HOST": need.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": need.key,
    }
    if need.model is not None:
        variables["GOOSE_MODEL"] = need.model
    if need.context is not None:
        variables["GOOSE_CONTEXT_LIMIT"] = str(need.context)
    if need.needs_header:
        variables["OPENAI_CUSTOM_HEADERS"] = f"{need.token_header}={need.token}"
    # 600 seconds for a request, and 150 between two lines, otherwise
    limits = dict.fromkeys(("OPENAI_TIMEOUT", "GOOSE_STREAM_TIMEOUT"), str(need.patience))
    return Setup(variables, launch=Launch("goose", _INSTALL), limits=limits)
