"""A request on its way up: what the rules that look at the turn before are shown."""

import json
from unittest.mock import Mock

import pytest

from cacheproxy.core.conversation.plan import MOST_ID, SessionHook
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.testing import request
from tests import transcript
from tests.core.conversation.proxied import NAMED, Proxy, by_turns


def sent(proxy, tools, words):
    """The tools as they are sent with so many messages; a letter names each."""
    named = [{"name": name, "description": name * 9} for name in tools]
    said = {"messages": by_turns(f"said {at}" for at in range(words)), "tools": named}
    prepared = proxy(request({"system": "You are."} | said, headers=NAMED))
    return "".join(tool["name"] for tool in prepared.request.json["tools"])


def test_of_other_tools_only_the_last_few_requests_are_kept():
    """And they are counted in what the conversation takes."""
    proxy = Proxy(*BUILT_IN)
    for number in range(12):
        sent(proxy, "abcdef" + "ghijklmnopqr"[number], number + 1)
    (lane,) = proxy.store.conversation(Session("client", "s")).lanes
    bodies = [len(other.body) for other in lane.others.values()]
    assert len(bodies) == 3
    assert lane.cost >= sum(bodies) + len(lane.request.body)


CALLS = {
    "/v1/chat/completions": lambda arguments: [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": arguments}]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ],
    "/v1/responses": lambda arguments: [
        {"type": "function_call", "call_id": "c1"} | arguments,
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
    ],
}
FIRST, AGAIN, OTHER = '{"b": 1.0, "a": "é"}', '{"a":"\\u00e9","b":1}', '{"a":"e","b":1}'


@pytest.mark.parametrize("path", CALLS)
def test_a_call_that_is_spelled_anew_is_the_same_answer(path):
    """A client that names no session is known by its answers: GitHub Copilot, which is resumed."""
    proxy, sessions, sent = Proxy(*BUILT_IN), [], []
    for turn in ((), (FIRST,), (AGAIN, "so"), (OTHER, "so")):
        messages = by_turns(["go"])
        for text in turn:
            call = CALLS[path]({"name": "f", "arguments": text})
            messages += call if text != "so" else by_turns([text])
        body = {"input" if "responses" in path else "messages": messages}
        prepared = proxy(request(body, path, {"user-agent": "OpenAI/JS 5.20.1"}))
        sessions.append(prepared.session.id)
        sent.append(json.dumps(prepared.request.json))
    assert sessions[0] == sessions[1] == sessions[2] != sessions[3]
    for text, spelled in zip((FIRST, FIRST, OTHER), sent[1:], strict=True):
        assert json.dumps(text) in spelled


REQUEST = request({})
SECRET = "the secret prompt"
NO_ID = "returned text that is no id: at most 256 printable characters"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        # whatever can be printed on a line
        *((text, (text, None)) for text in ("id", "agent/42", "é/ü 1", "x" * MOST_ID)),
        # most plugins know nothing of most requests
        *((nothing, (None, None)) for nothing in (None, "")),
        # anything else is a failure, of which nothing is told
        (5, (None, "returned int instead of text")),
        (b"id", (None, "returned bytes instead of text")),
        (["id"], (None, "returned list instead of text")),
        (object(), (None, "returned object instead of text")),
        *(
            (text, (None, NO_ID))
            for text in ("x" * (MOST_ID + 1), "a/1\nb", "\x1b[2Ja/1", "\ud83d")
        ),
    ],
)
def test_what_a_plugin_says_of_a_session(said, answer):
    assert SessionHook("p", lambda request: said).answer(REQUEST) == answer


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, RecursionError])
def test_what_it_raises_is_named_without_its_text(error):
    """A SystemExit is as much its own failure as a ValueError."""
    hook = SessionHook("p", Mock(side_effect=error(SECRET)))
    assert hook.answer(REQUEST) == (None, f"raised {error.__name__}")


def test_the_users_interrupt_is_not_swallowed():
    """Ctrl-C in a command that reads captures."""
    with pytest.raises(KeyboardInterrupt):
        SessionHook("p", Mock(side_effect=KeyboardInterrupt)).answer(REQUEST)


def test_all_that_is_said():
    transcript.holds("prepare.txt", globals())
