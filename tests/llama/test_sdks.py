"""The official SDKs see through the proxy what they see without it."""

from __future__ import annotations

import os
import signal

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.child.process import ChildProxy as Proxy

from .replay import erase

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.llama

MODEL = "random"
SAME = {"seed": 1, "temperature": 0}
"""The server of these tests ignores the model's wish to end: it goes on until max_tokens."""
TOO_LONG = [{"role": "user", "content": " of" * 70_000}]
SCHEMA = {
    "type": "object",
    "properties": {"where": {"type": "string", "enum": ["up", "down"]}},
    "required": ["where"],
}
SAID = [{"role": "user", "content": "Where does it lie? Größe: 3 \U0001f600"}]

ANTHROPIC_TOOL = {"name": "look", "description": "Look there.", "input_schema": SCHEMA}
ANTHROPIC_HISTORY = [
    *SAID,
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "up"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "nothing"}],
    },
]
FUNCTION = {"name": "look", "description": "Look there.", "parameters": SCHEMA}
CHAT_TOOL = {"type": "function", "function": FUNCTION}
CALL = {"name": "look", "arguments": '{"where": "up"}'}
CHAT_HISTORY = [
    {"role": "system", "content": "Be brief."},
    *SAID,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "nothing"},
]
RESPONSES_HISTORY = [
    {"type": "message", **SAID[0]},
    {"type": "function_call", "call_id": "call_1", **CALL},
    {"type": "function_call_output", "call_id": "call_1", "output": "nothing"},
]

VOLATILE = {
    "id", "item_id", "created", "created_at", "completed_at", "timings",
}  # fmt: skip


def plain(value):
    """What an SDK returned, without the fields that differ from one answer to the next."""
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if key not in VOLATILE}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def speak_anthropic(url):
    return anthropic.Anthropic(
        base_url=url,
        api_key="none",
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(trust_env=False),
    )


def speak_openai(url):
    return openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def messages(client, **more):
    asked = {"model": MODEL, "max_tokens": 12, "messages": SAID, "extra_body": SAME}
    return client.messages.create(**asked | more)


def chat(client, **more):
    asked = {"model": MODEL, "max_tokens": 12, "messages": SAID, "extra_body": SAME}
    return client.chat.completions.create(**asked | more)


def responses(client, **more):
    asked = {"model": MODEL, "max_output_tokens": 12, "input": SAID, "extra_body": SAME}
    return client.responses.create(**asked | more)


def messages_helper(client):
    asked = {"model": MODEL, "max_tokens": 12, "messages": SAID, "extra_body": SAME}
    with client.messages.stream(**asked) as stream:
        events = [plain(event) for event in stream]
        return [*events, stream.get_final_text()]


ANTHROPIC_CASES = {
    "plain": messages,
    "until a stop sequence": lambda client: messages(
        client, max_tokens=200, stop_sequences=[" to", " in", " not", " the"]
    ),
    "system blocks": lambda client: messages(
        client, system=[{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    ),
    "tools": lambda client: messages(client, messages=ANTHROPIC_HISTORY, tools=[ANTHROPIC_TOOL]),
    "stream": lambda client: list(messages(client, stream=True)),
    "stream with tools": lambda client: list(
        messages(client, messages=ANTHROPIC_HISTORY, tools=[ANTHROPIC_TOOL], stream=True)
    ),
    "stream helper": messages_helper,
    "count_tokens": lambda client: client.messages.count_tokens(
        model=MODEL, messages=ANTHROPIC_HISTORY, tools=[ANTHROPIC_TOOL], system="Be brief."
    ),
    "models": lambda client: client.models.list(),
}
# without the helper for streams of responses: it does not understand llama.cpp's events
OPENAI_CASES = {
    "chat": chat,
    "chat until a stop sequence": lambda client: chat(
        client, max_tokens=200, stop=[" to", " in", " not", " the"]
    ),
    "chat with tools": lambda client: chat(client, messages=CHAT_HISTORY, tools=[CHAT_TOOL]),
    "chat stream": lambda client: list(
        chat(client, stream=True, stream_options={"include_usage": True})
    ),
    "chat stream with tools": lambda client: list(
        chat(client, messages=CHAT_HISTORY, tools=[CHAT_TOOL], stream=True)
    ),
    "responses": lambda client: responses(client, instructions="Be brief."),
    "responses with tools": lambda client: responses(
        client, input=RESPONSES_HISTORY, tools=[{"type": "function", **FUNCTION}]
    ),
    "responses stream": lambda client: list(responses(client, stream=True)),
    "responses stream with tools": lambda client: list(
        responses(
            client,
            input=RESPONSES_HISTORY,
            tools=[{"type": "function", **FUNCTION}],
            stream=True,
        )
    ),
    "models": lambda client: client.models.list(),
}


def both(speak, ask, llama, proxy):
    """The answers without and with the proxy, each from an empty slot, so that usage is equal."""
    erase(llama.url)
    direct = plain(ask(speak(llama.url)))
    erase(llama.url)
    return direct, plain(ask(speak(proxy.url)))


@pytest.mark.parametrize("ask", ANTHROPIC_CASES.values(), ids=ANTHROPIC_CASES)
def test_anthropic_gets_the_same_answer(ask, llama, proxy):
    """Text, usage and the sequence of events are the same, value by value."""
    direct, through = both(speak_anthropic, ask, llama, proxy)
    assert through == direct
    assert direct


@pytest.mark.parametrize("ask", OPENAI_CASES.values(), ids=OPENAI_CASES)
def test_openai_gets_the_same_answer(ask, llama, proxy):
    """Text, usage and the sequence of events are the same, value by value."""
    direct, through = both(speak_openai, ask, llama, proxy)
    assert through == direct
    assert direct


def test_the_answers_that_are_compared_say_something(llama, proxy):
    """Comparing empty answers would prove nothing."""
    assert len(messages(speak_anthropic(proxy.url)).content[0].text) > 12
    assert len(chat(speak_openai(proxy.url)).choices[0].message.content) > 12
    assert len(responses(speak_openai(proxy.url)).output_text) > 12
    assert len(list(messages(speak_anthropic(proxy.url), stream=True))) > 12


def test_a_second_request_reuses_the_first_one_s_prompt(llama, proxy):
    """What the server reports of its cache arrives in the usage of each SDK."""
    erase(llama.url)
    first = messages(speak_anthropic(proxy.url)).usage
    assert first.cache_read_input_tokens == 0
    again = messages(speak_anthropic(proxy.url)).usage
    assert again.cache_read_input_tokens == first.input_tokens - 1
    details = chat(speak_openai(proxy.url)).usage.prompt_tokens_details
    assert details.cached_tokens == first.input_tokens - 1


def error_of(ask):
    with pytest.raises((anthropic.APIError, openai.APIError)) as caught:
        ask()
    error = caught.value
    return type(error), error.status_code, str(error), error.body


REFUSED = {
    "messages, bad": (speak_anthropic, messages, {"messages": [{"role": "user", "content": 7}]}),
    "chat, bad": (speak_openai, chat, {"messages": [{"role": "user", "content": 7}]}),
    "responses, bad": (speak_openai, responses, {"input": [{"type": "message", "content": 7}]}),
    "messages, long": (speak_anthropic, messages, {"messages": TOO_LONG}),
    "chat, long": (speak_openai, chat, {"messages": TOO_LONG}),
    "responses, long": (speak_openai, responses, {"input": TOO_LONG}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "stream"])
@pytest.mark.parametrize("case", REFUSED)
def test_the_server_s_own_refusal_arrives_as_it_is(case, stream, llama, proxy):
    """A bad request and a prompt that is too long raise the same exception, word for word."""
    speak, ask, wrong = REFUSED[case]
    direct = error_of(lambda: ask(speak(llama.url), stream=stream, **wrong))
    through = error_of(lambda: ask(speak(proxy.url), stream=stream, **wrong))
    assert through == direct
    assert direct[1] == 400
    assert ("exceed_context_size" if "long" in case else "invalid_request") in str(direct[3])


def test_what_the_server_does_not_have_is_not_found_either_way(llama, proxy):
    """A path nobody serves is the server's own 404."""
    direct = error_of(speak_anthropic(llama.url).messages.batches.list)
    through = error_of(speak_anthropic(proxy.url).messages.batches.list)
    assert through == direct
    assert direct[:2] == (anthropic.NotFoundError, 404)


@pytest.mark.parametrize(("speak", "ask"), [(speak_anthropic, messages), (speak_openai, chat)])
def test_a_server_that_dies_in_mid_stream_never_looks_like_an_end(speak, ask, llama, tmp_path):
    """The SDK raises, instead of handing out a cut answer as a whole one."""
    model = write_model(tmp_path / "tiny.gguf")
    with (
        LlamaServer(model, n_ctx=131_072, sampling__ignore_eos=True) as server,
        Proxy(server.url) as proxy,
    ):
        events = iter(ask(speak(proxy.url), stream=True, max_tokens=100_000))
        for _ in range(20):
            next(events)
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(Exception) as caught:  # noqa: PT011 (each SDK has its own)
            list(events)
    error = caught.value
    names = {type(one).__name__ for one in (error, error.__cause__)}
    assert "RemoteProtocolError" in names
