"""The same prompt as chat, and translated as Messages: the real server says the same."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

pytest.importorskip("openai")

from cacheproxy.core.http1.sse import EventReader
from cacheproxy.testing import request
from cacheproxy.translate.chat import ChatToMessages
from tests.translate.chat.events import CHUNK, COMPLETION, assembled

from .replay import by_way_of, end_of_a_prompt, erase, post

pytestmark = pytest.mark.llama

PATH = "/v1/chat/completions"
ASKED = {"model": "random", "max_tokens": 12, "temperature": 0}
SCHEMA = {
    "type": "object",
    "properties": {"where": {"type": "string", "enum": ["up", "down"]}, "n": {"maximum": 1e5}},
    "required": ["where"],
}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look there.", "parameters": SCHEMA},
}
SYSTEM = {"role": "system", "content": "Be brief."}
SAID = {"role": "user", "content": "Where does it lie? Größe: 3 \U0001f600"}


def call(name, arguments):
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": arguments}}


CALLED = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_content": "Up or down?",
    "tool_calls": [call("call_1", '{"where":"up","n":1.5}'), call("call_2", '{"where":"down"}')],
}
RESULTS = [
    {"role": "tool", "tool_call_id": "call_1", "content": "nothing"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "a cat"}]},
]
STEERED = [SAID, CALLED, *RESULTS, {"role": "user", "content": "Look up again."}]
"""What the user says stands right behind the results."""
HISTORY = [
    *STEERED,
    {"role": "assistant", "content": "There is a cat."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "now?"}],
    },
]
CASES = {
    "plain": {"messages": [SAID]},
    "system": {"messages": [SYSTEM, SAID]},
    "results": {"messages": [SYSTEM, SAID, CALLED, *RESULTS], "tools": [TOOL]},
    "results and a text": {"messages": [SYSTEM, *STEERED], "tools": [TOOL]},
    "history": {"messages": [SYSTEM, *HISTORY], "tools": [TOOL], "tool_choice": "auto"},
    "two texts in a row": {"messages": [SAID, SAID]},
}


def native(url, body):
    return post(url, PATH, json.dumps(body).encode())


def translated(url, body):
    """Return (status, body) for the client of a chat ``body``, by way of the Messages API."""
    return by_way_of(url, ChatToMessages(created=1234), request(body, PATH))


def message_of(answer, *, stream, ours):
    """(message, finish reason, usage): what both ways must agree in."""
    if stream:
        *found, done = [one.data for one in EventReader().feed(answer)]
        assert done == b"[DONE]"
        values = [json.loads(one) for one in found]
        if ours:
            for value in values:
                CHUNK.validate_python(value, strict=True)
        message, finish, usage = assembled(values)
    else:
        value = json.loads(answer)
        if ours:
            COMPLETION.validate_python(value, strict=True)
        [choice] = value["choices"]
        message, finish, usage = choice["message"], choice["finish_reason"], value["usage"]
    message = {name: said for name, said in message.items() if said is not None}
    return message, finish, usage


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "stream"])
@pytest.mark.parametrize("case", CASES)
def test_the_server_says_the_same(case, stream, llama):
    """The same text, the same end, the same usage: cold, and then from the server's cache."""
    body = ASKED | CASES[case] | {"stream": stream, "stream_options": {"include_usage": True}}
    found = {}
    for way in (native, translated):
        erase(llama.url)
        answers = []
        for _ in range(2):
            status, answer = way(llama.url, body)
            assert status == 200
            answers.append(message_of(answer, stream=stream, ours=way is translated))
        found[way] = answers
    assert found[native][0][0]["content"]
    assert found[translated] == found[native]
    cold, warm = (usage for _, _, usage in found[translated])
    assert cold["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm["prompt_tokens_details"]["cached_tokens"] == warm["prompt_tokens"] - 1


@pytest.mark.parametrize("case", CASES)
def test_each_way_reuses_what_the_other_left(case, llama):
    """It is the same prompt, token by token."""
    body = ASKED | CASES[case]
    for first, second in ((native, translated), (translated, native)):
        erase(llama.url)
        first(llama.url, body)
        usage = json.loads(second(llama.url, body)[1])["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_a_conversation_reuses_the_turn_before(llama):
    """Wherever its messages are cut, a late system message among them."""
    late = {"role": "system", "content": "Now be quick."}
    messages = [SYSTEM, *HISTORY, late, CALLED, *RESULTS, late, SAID]
    end = end_of_a_prompt(llama.url)
    erase(llama.url)
    usages = []
    for length, message in enumerate(messages, start=1):
        if message["role"] not in ("system", "assistant") or message is late:
            body = ASKED | {"max_tokens": 1, "tools": [TOOL], "messages": messages[:length]}
            usages.append(json.loads(translated(llama.url, body)[1])["usage"])
    for before, now in pairwise(usages):
        assert now["prompt_tokens"] > before["prompt_tokens"]
        assert now["prompt_tokens_details"]["cached_tokens"] >= before["prompt_tokens"] - end


def test_a_stop_ends_the_text_at_the_same_place(llama):
    """And is no part of it, be it in the middle or all there is."""
    whole = json.loads(native(llama.url, ASKED | CASES["plain"])[1])["choices"][0]["message"]
    text = whole["content"]
    for stop in (text[len(text) // 2 :][:3], text[:3]):
        body = ASKED | CASES["plain"] | {"stop": ["#never#", stop]}
        answers = (json.loads(way(llama.url, body)[1]) for way in (native, translated))
        own, ours = (answer["choices"][0] for answer in answers)
        assert ours["finish_reason"] == own["finish_reason"] == "stop"
        assert ours["message"]["content"] == own["message"]["content"] == text[: text.index(stop)]
