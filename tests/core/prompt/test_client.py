"""Whose request it is: told by marks that the client itself writes, at its own place."""

import pytest

from cacheproxy.core.prompt.client import Client, ClientError, Clients
from cacheproxy.testing import from_another, request
from tests import transcript

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
HEAD = "You are Example, made by us."
LINE = "Example-Run: {} (agent)"
EXAMPLE = Client(
    "example",
    agents=("ExampleAgent/",),
    headers=("X-Example-Session",),
    head=("You are Example, made",),
    lines=(r"Example-Run: [0-9a-f]+ \(agent\)",),
)


def system(content, role="system"):
    return {"role": role, "content": content}


def block(text, kind="text"):
    return {"type": kind, "text": text}


PLACES = {
    "messages": (MESSAGES, lambda text: {"system": text}),
    "messages blocks": (MESSAGES, lambda text: {"system": [*map(block, ("", text, "b"))]}),
    "chat": (CHAT, lambda text: {"messages": [system(text)]}),
    "chat blocks": (CHAT, lambda text: {"messages": [system([block(text)], "developer")]}),
    "instructions": (RESPONSES, lambda text: {"instructions": text, "input": "hi"}),
    "input": (RESPONSES, lambda text: {"input": [system([block(text, "input_text")])]}),
    "ollama": ("/api/chat", lambda text: {"messages": [system(text)]}),
}


def said(place, text, agent=None, **headers):
    path, body = PLACES[place]
    headers |= {} if agent is None else {"User-Agent": agent}
    return request(body(text), path, headers)


def everywhere(text):
    """Whether system text tells: in every dialect, as a string or in blocks, with a library.

    One that names another client is the end of it: the text may quote whatever files hold.
    """
    for place in PLACES:
        assert not EXAMPLE.sent(from_another(said(place, text)))
    agents = (None, "OpenAI/JS 7.15.0", "litellm/1.80")
    (found,) = {EXAMPLE.sent(said(place, text, agent)) for place in PLACES for agent in agents}
    return found


def refused(arguments):
    with pytest.raises(ClientError) as raised:
        Client(**{"name": "example", **arguments})
    return str(raised.value)


def test_by_which_marks_a_client_is_known():
    transcript.holds("client.txt", globals())


@pytest.mark.parametrize("text", [HEAD, LINE.format("7f")], ids=["head", "line"])
def test_nothing_that_a_user_or_a_tool_wrote_tells(text):
    """Nor what comes late, nor tools, nor text on a path that we do not know."""
    user, late = system(text, "user"), system(text)
    result = {"type": "tool_result", "tool_use_id": "1", "content": text}
    for body in (
        {"messages": [user]},
        {"messages": [user, late]},
        {"messages": [system(text, "assistant"), late]},
        {"messages": [system([result], "user"), late]},
        {"messages": ["x", late]},
        {"system": "Be kind.", "messages": [user, late]},
        {"system": {"text": text}, "messages": {"0": late}},
        {"system": [block(text, "image"), block(5), None]},
        {"input": text},
        {"input": [user, late]},
        {"tools": [{"name": "t", "description": text}]},
    ):
        for path, _ in PLACES.values():
            assert not EXAMPLE.sent(request(body, path)), (body, path)
    assert not EXAMPLE.sent(request({"system": text}, "/v1/embeddings"))
    assert not EXAMPLE.sent(request("[" * 200_000))


def test_who_is_named_first():
    """A gateway's user agent gives way to a declared client; another client's does not.

    A library's name is nobody's word, though a package may call its client so.
    """
    known = Client("known", agents=("codex",))
    other = Client("other", headers=("x-other",))
    clients = Clients([Client("*"), other, EXAMPLE, known, Client("openai-sdk")])

    def name(text, agent=None, **headers):
        return clients.name_of(clients.introduce(said("chat", text, agent, **headers)))

    assert name(HEAD, "litellm/1.80") == "example"
    assert name(HEAD, **{"x-other": "1"}) == "other"
    assert name(HEAD, "codex/1") == "known"
    assert name(HEAD, "Example/1") == "example"
    assert name("Hello.", "litellm/1.80") == "litellm"
    for text, wanted in ((HEAD, "example"), ("Hello.", "openai-sdk")):
        assert name(text, "OpenAI/JS 7.15.0") == wanted
        assert clients.introduce(said("chat", text, "OpenAI/JS 7.15.0")).speaker == ""
