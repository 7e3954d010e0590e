"""Codex for cacheproxy: the marks of its requests, and their sessions and threads.

Shapes, from its public sources (``codex-rs``) and from requests of 0.169.0. A session has one
thread of its own and one more for each subagent. They are named by headers, and again by
``client_metadata`` in the body, which a gateway that drops headers passes on:

- ``session-id`` and ``thread-id`` (in the body ``session_id`` and ``thread_id``); all
  threads of a session have its ``prompt_cache_key``;
- in versions without a ``thread-id``, ``session_id`` is the thread's, and
  ``x-codex-parent-thread-id`` is the thread that a subagent works for;
- ``x-openai-subagent``: the kind of subagent (``collab_spawn``, ``review``, ``compact``).

There are no rules: within a session Codex only appends, the date included. The one member that may
change is ``external_web_access`` of its ``web_search`` tool, which follows the sandbox mode. It is
a permission, which is not ours to pin, and llama.cpp shows a tool of that type to no model.
"""

from __future__ import annotations

from cacheproxy import Client, Launch, Need, Request, Setup, hookimpl, quick

CLIENT = Client(
    name="codex",
    agents=("codex",),
    title="Codex",
    waits_for_head=True,
    names_agents=True,
    start="base URL {url}/v1",
    sends_late="Codex sends a second one at the head",
    headers=("x-codex-turn-metadata", "x-codex-window-id"),
    advice=(
        (
            "left during prefill",
            "Codex",
            "stream_idle_timeout_ms = 3600000 for its provider, as cacheproxy env codex prints it",
        ),
    ),
    # One prompt for each family of models; the first is for models that Codex does not know.
    head=(
        "You are a coding agent running in the Codex CLI, a terminal-based coding assistant",
        "You are Codex, based on GPT-",
        "You are Codex, a coding agent based on GPT-",
        "You are Codex, an agent based on GPT-",
        "You are GPT-5.1 running in the Codex CLI, a terminal-based coding assistant",
        "You are GPT-5.2 running in the Codex CLI, a terminal-based coding assistant",
    ),
)
_HEADERS = (
    (b"session-id", b"session_id"),
    (b"thread-id",),
    (b"x-codex-parent-thread-id",),
    (b"x-openai-subagent",),
)
_KEYS = ("session_id", "thread_id", "x-codex-parent-thread-id", "x-openai-subagent")
_NO_RESPONSES = "Codex needs /v1/responses, and the model server does not have it"


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return the session; for a subagent's request with a colon and its thread (or kind)."""
    said = [request.first_header(names) for names in _HEADERS]
    if said[0] is None:
        said = _from_metadata(request)
    session, thread, parent, kind = said
    if session is not None and thread is None and parent is not None:
        session, thread = parent, session
    agent = thread if thread != session else None
    agent = agent or kind
    return session if session is None or agent is None else f"{session}:{agent}"


def _from_metadata(request: Request) -> list[str | None]:
    """Return the names in the body, used for requests without the headers."""
    body = request.json if "client_metadata" in request.literals else None
    metadata = body.get("client_metadata") if body is not None else None
    found = [metadata.get(key) if isinstance(metadata, dict) else None for key in _KEYS]
    return [value if isinstance(value, str) and value else None for value in found]


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return Codex's file (developers.openai.com/codex/config-reference), for Responses alone."""
    provider = f"model_providers.{need.provider}"
    chosen = [f"model = {Setup.quoted(need.model_name)}", f'model_provider = "{need.provider}"']
    if need.context is not None:
        chosen.append(f"model_context_window = {need.context}")
    lines = [
        f'name = "{need.provider}"',
        f"base_url = {Setup.quoted(need.openai)}",
        'wire_api = "responses"',
        f"stream_idle_timeout_ms = {need.patience * 1000}",  # default: 300 seconds
    ]
    if need.key_variable is not None:
        lines.append(f'env_key = "{need.key_variable}"')
    if need.needs_header:
        lines.append(f'env_http_headers = {{ "{need.token_header}" = "CACHEPROXY_TOKEN" }}')
    options = (*chosen, f"{provider} = {{ {', '.join(lines)} }}")
    lacks = need.serves("/v1/responses") is False
    return Setup(
        file="~/.codex/config.toml",
        content="\n".join([*chosen, "", f"[{provider}]", *lines]) + "\n",
        notes=need.key_notes,
        warnings=(_NO_RESPONSES,) if lacks else (),
        launch=Launch(
            "codex",
            "npm install --global @openai/codex",
            tuple(word for option in options for word in ("-c", option)),
        ),
    )
