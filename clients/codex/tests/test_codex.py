"""Whose requests are Codex's, and which thread of which session they are."""

import pytest
from cacheproxy_codex import CLIENT, cacheproxy_session

from cacheproxy.core.conversation.session import parent_of, session_of
from cacheproxy.core.prompt.client import Clients
from cacheproxy.testing import find_captures, from_another, load_capture, request

PATH = "/v1/responses"
HEADS = (
    "You are a coding agent running in the Codex CLI, a terminal-based coding assistant. You.",
    "You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI.",
    "You are Codex, a coding agent based on GPT-5. You and the user share.",
    "You are Codex, an agent based on GPT-5.",
    "You are GPT-5.2 running in the Codex CLI, a terminal-based coding assistant. Be.",
)
OWN = (
    {"User-Agent": "codex_cli_rs/0.98.0 (Debian 12.0.0; x86_64) xterm"},
    {"User-Agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64)"},
    {"User-Agent": "Codex Desktop/0.108.0"},
    {"User-Agent": "an-editor/1.0", "x-codex-turn-metadata": "{}"},
    {"User-Agent": "an-editor/1.0", "X-Codex-Window-Id": "s:0"},
)
OTHERS = ("claude-cli/2.1.329", "opencode/1.18.33", "QwenCode/0.24.4", "Cline/3.40")
HEAD = "You are a coding agent running in the Codex CLI, a terminal-based coding assistant."


def turn(system, headers, *said, **more):
    """A request with ``system`` as Codex sends it now, and what the user said."""
    messages = [
        {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
        for role, text in (("developer", system), *[("user", text) for text in said])
    ]
    return request({"input": messages, **more}, PATH, headers)


@pytest.mark.parametrize("headers", OWN)
def test_its_own_headers_tell(headers):
    assert CLIENT.sent(turn("Be kind.", headers, "hi"))


@pytest.mark.parametrize("agent", ["litellm/1.80.0", "AsyncOpenAI/Python 2.20.0", ""])
@pytest.mark.parametrize("head", HEADS)
def test_behind_a_gateway_the_beginning_of_the_prompt_tells(head, agent):
    """In the first message, or in the instructions of earlier versions."""
    headers = {"User-Agent": agent}
    for one in (turn(head, headers), request({"instructions": head, "input": []}, PATH, headers)):
        assert CLIENT.sent(one)
        assert Clients([CLIENT]).name_of(one) == "codex"


@pytest.mark.parametrize("agent", [*OTHERS, "OpenAI/JS 6.26.0", ""])
@pytest.mark.parametrize("head", HEADS)
def test_its_words_in_another_clients_request_do_not_tell(agent, head):
    """Later in the system text, or from a user."""
    headers = {"User-Agent": agent}
    metadata = {"session_id": "s", "thread_id": "t"}
    one = turn(f"You are somebody. {head}", headers, head, client_metadata=metadata)
    assert not CLIENT.sent(one)
    if agent in OTHERS:
        assert not CLIENT.sent(from_another(turn(head, headers, "hi")))


@pytest.mark.parametrize(
    ("headers", "session", "root"),
    [
        ({"session-id": "s", "thread-id": "s"}, "s", None),
        ({"session-id": "s", "thread-id": "t", "x-openai-subagent": "collab_spawn"}, "s:t", "s"),
        ({"session-id": "s", "thread-id": "u", "x-openai-subagent": "review"}, "s:u", "s"),
        ({"session-id": "s", "thread-id": "s", "x-openai-subagent": "compact"}, "s:compact", "s"),
        ({"session_id": "s"}, "s", None),
        ({"session_id": "t", "x-codex-parent-thread-id": "s"}, "s:t", "s"),
        ({"session_id": "t", "x-openai-subagent": "review"}, "t:review", "t"),
    ],
)
@pytest.mark.parametrize("place", ["headers", "body"])
def test_a_thread_of_a_session_is_an_agent_that_works_for_it(headers, session, root, place):
    """Two subagents of one kind are two; behind a gateway the body says what headers said."""
    agent = {"User-Agent": "codex_exec/0.169.0"}
    if place == "headers":
        one = turn("Be kind.", {**agent, **headers}, "hi", prompt_cache_key="key")
    else:
        names = {"session-id": "session_id", "thread-id": "thread_id"}
        metadata = {names.get(name, name): value for name, value in headers.items()}
        one = turn("Be kind.", agent, client_metadata=metadata, prompt_cache_key="key")
    found = session_of(Clients([CLIENT]).introduce(one), cacheproxy_session(one))
    assert found[:2] == ("codex", session)
    parent = parent_of(one, found)
    assert (parent and parent.id) == root


@pytest.mark.parametrize("metadata", [None, [], "s", {}, {"session_id": 5}, {"session_id": ""}])
def test_without_either_cacheproxy_decides(metadata):
    """By the key of the prompt cache, which all threads of a session share."""
    one = turn(HEAD, {}, "hi", client_metadata=metadata, prompt_cache_key="key")
    assert cacheproxy_session(one) is None
    assert session_of(one).id == "key"
    assert cacheproxy_session(request(b"no json client_metadata", PATH)) is None


@pytest.mark.parametrize("path", find_captures("codex*.jsonl", __file__), ids=str)
def test_recorded_requests_are_told_with_and_without_their_headers(path):
    """Whose they are, and of which thread: two in the one with a subagent."""
    sessions = set()
    for one in load_capture(path):
        if not one.json:
            continue
        sessions.add(cacheproxy_session(one))
        bare = request(one.body, one.target)
        assert CLIENT.sent(one)
        assert CLIENT.sent(bare)
        assert cacheproxy_session(bare) == cacheproxy_session(one)
    assert len(sessions) == (2 if "subagent" in path.name else 1)
    main, *helpers = sorted(sessions, key=len)
    assert all(helper.startswith(f"{main}:") for helper in helpers)
