"""The same prompt as Messages, and translated as chat: the real server says the same."""

import json

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.http_client import Site
from cacheproxy.testing import request
from cacheproxy.translate.translation import MessagesToChat
from tests.translate.chunks import assembled, assert_valid, events

from .replay import by_way_of, erase, post

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


THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "<think>\n{% if enable_thinking is defined and not enable_thinking %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
"""A template that opens the thinking itself, as those of many models do."""


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
                assert_valid("Message", message)
            answers.append(plain(message))
        found[way] = answers
    assert found[native][0]["content"][0]["text"]
    assert found[translated] == found[native]
    cold, warm = found[translated]
    assert cold["cache_read_input_tokens"] == 0
    assert warm["input_tokens"] == 1


def test_thinking_is_the_server_s_own(serve):
    """As a block of its own there, as ``reasoning_content`` here; a replayed one is read."""
    server = serve(THINKING, n_ctx=4096)
    for messages in (SAID, [*SAID, {"role": "assistant", "content": CALLED[:2]}, *SAID]):
        found = []
        for way in (native, translated):
            erase(server.url)
            message = json.loads(way(server.url, ASKED | {"messages": messages})[1])
            texts = [(block["type"], block[block["type"]]) for block in message["content"]]
            found.append((texts, message["usage"]))
        assert found[0][0] == found[1][0]
        assert len(found[0][0][0][1]) > 12
        assert found[0][1]["input_tokens"] == found[1][1]["input_tokens"]


def test_what_the_proxy_says_besides_is_the_server_s_own(serve):
    """How many tokens there are, that they are too many, and which models it has."""
    server, path = serve("inline", n_ctx=4096), "/v1/messages/count_tokens"
    too_long = ASKED | {"messages": [{"role": "user", "content": " of" * 5000}]}
    with Proxy(server.url, "--dialect", "openai") as proxy:
        for case in ("plain", "system", "tools"):
            body = {"model": "random", **CASES[case]}
            assert native(proxy.url, body, path) == native(server.url, body, path)
        for stream in (False, True):
            status, answer = native(proxy.url, too_long | {"stream": stream})
            error = json.loads(answer)["error"]
            assert (status, error["type"]) == (400, "invalid_request_error")
            assert error["message"].startswith("prompt is too long: ")
        site = Site(proxy.url, {"anthropic-version": "2023-06-01"})
        [model] = site.tell("/v1/models")["data"]
    assert (model["id"], model["type"]) == ("random", "model")
    assert model["max_input_tokens"]


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
