"""The same prompt as Messages, and translated as chat: the real server says the same."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("anthropic")

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.testing import request
from cacheproxy.translate.translation import MessagesToChat
from tests.translate.chunks import MESSAGE, assembled, events

from .replay import by_way_of, end_of_a_prompt, erase, post

pytestmark = pytest.mark.llama

SCHEMA = {
    "type": "object",
    "properties": {"where": {"type": "string", "enum": ["up", "down"]}, "n": {"maximum": 1e5}},
    "required": ["where"],
}
ASKED = {"model": "random", "max_tokens": 12, "temperature": 0, "seed": 1}
SAID = [{"role": "user", "content": "Where does it lie? Größe: 3 \U0001f600"}]
TOOL = {"name": "look", "description": "Look there.", "input_schema": SCHEMA}
CALLED = [
    {"type": "thinking", "thinking": "Up or down?", "signature": ""},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "up", "n": 1.5}},
    {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {"where": "down"}},
]
RESULTS = [
    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "nothing"},
    {
        "type": "tool_result",
        "tool_use_id": "toolu_2",
        "content": [{"type": "text", "text": "a cat"}],
    },
]
HISTORY = [
    *SAID,
    {"role": "assistant", "content": CALLED},
    {"role": "user", "content": RESULTS},
    {"role": "assistant", "content": "There is a cat."},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]
CASES = {
    "plain": {"messages": SAID},
    "system": {"messages": SAID, "system": [{"type": "text", "text": "Be brief."}]},
    "tools": {"messages": HISTORY, "tools": [TOOL], "system": "Be brief."},
    "a late system message": {
        "messages": [*HISTORY, {"role": "system", "content": "Now be quick."}],
        "tools": [TOOL],
        "tool_choice": {"type": "auto"},
    },
}


def native(url, body, path="/v1/messages"):
    return post(url, path, json.dumps(body).encode())


def translated(url, body, spellings=None):
    """Return (status, body) for the client of a Messages ``body``, by way of the chat API."""
    # the seed is the server's own extra, of which neither API knows
    return by_way_of(url, MessagesToChat(request(body), spellings), b',"seed":1')


def plain(message):
    """What both ways must agree in."""
    usage = message["usage"]
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    return {
        "content": message["content"],
        "stop_reason": message["stop_reason"],
        "model": message["model"],
        **{name: usage[name] for name in names},
    }


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "stream"])
@pytest.mark.parametrize("case", CASES)
def test_the_server_says_the_same(case, stream, llama):
    """The same text, the same end, the same usage: cold, and then from the server's cache."""
    body = ASKED | CASES[case] | {"stream": stream}
    found = {}
    for way in (native, translated):
        erase(llama.url)
        answers = []
        for _ in range(2):
            status, answer = way(llama.url, body)
            assert status == 200
            message = assembled(events(answer)) if stream else json.loads(answer)
            if way is translated and not stream:
                MESSAGE.validate_python(message, strict=True)
            answers.append(plain(message))
        found[way] = answers
    assert found[native][0]["content"][0]["text"]
    assert found[translated] == found[native]
    cold, warm = found[translated]
    assert cold["cache_read_input_tokens"] == 0
    assert warm["input_tokens"] == 1


def test_a_stop_sequence_ends_the_text_at_the_same_place(llama):
    """Which one it was, this server's chat answer does not tell: there the turn has ended."""
    text = json.loads(native(llama.url, ASKED | CASES["plain"])[1])["content"][0]["text"]
    for stop in (text[len(text) // 2 :][:3], text[:3]):
        body = ASKED | CASES["plain"] | {"stop_sequences": ["#never#", stop]}
        own = json.loads(native(llama.url, body)[1])
        ours = json.loads(translated(llama.url, body)[1])
        assert ours["stop_reason"] == "end_turn"
        assert ours["content"] == own["content"]
        assert "".join(block["text"] for block in ours["content"]) == text[: text.index(stop)]


def test_each_way_reuses_what_the_other_left(llama):
    """It is the same prompt, token by token."""
    for body in (ASKED | CASES["tools"], ASKED | CASES["plain"]):
        for first, second in ((native, translated), (translated, native)):
            erase(llama.url)
            first(llama.url, body)
            message = json.loads(second(llama.url, body)[1])
            assert message["usage"]["input_tokens"] == 1


def test_a_conversation_reuses_the_turn_before(llama):
    """What a turn adds is all that is evaluated, its answer's end apart."""
    erase(llama.url)
    messages = list(SAID)
    last = 0
    end = end_of_a_prompt(llama.url)
    spellings = Spellings()
    for turn in range(4):
        body = ASKED | {"messages": messages, "tools": [TOOL], "system": "Be brief."}
        answer = json.loads(translated(llama.url, body, spellings)[1])
        assert answer["usage"]["cache_read_input_tokens"] >= last - end
        last = answer["usage"]["cache_read_input_tokens"] + answer["usage"]["input_tokens"]
        messages += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": f"And {turn}?"},
        ]
    assert last > 100
