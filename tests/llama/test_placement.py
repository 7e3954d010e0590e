"""Late system messages before the real server, on templates that take, move, refuse or drop them.

Through the proxy no template costs an error or the history: each turn evaluates what is new.
"""

import json
import random

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.http_client import Site
from tests.proxy.harness import eventually, free_port

from .replay import PATHS, TOLERANCE, erase
from .templates import TEMPLATES

pytestmark = pytest.mark.llama

HARMS = {"strict": "refused", "hoist": "hoisted", "drop": "dropped", "turns": "refused"}
TURNS = 6
_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "wait", "outside"]
_random = random.Random(13)
LONG = [" ".join(_random.choices(_WORDS, k=300)) for _ in range(TURNS + 1)]
WORDS = "\n".join(LONG)


def conversation(api):
    """Yield the body of each turn: a question or a tool's result, and a countdown behind it."""
    messages = []
    for number in range(TURNS):
        if number % 2:
            messages += called(api, f"call{number:05}", LONG[number])
        else:
            messages += [answered(api)] if messages else []
            messages.append({"role": "user", "content": LONG[number]})
        messages.append({"role": "system", "content": f"wait {1000 - number} outside"})
        yield body_of(api, messages)


def answered(api):
    """What the assistant said."""
    if api != "responses":
        return {"role": "assistant", "content": "over a dog"}
    text = {"type": "output_text", "text": "over a dog", "annotations": []}
    item = {"type": "message", "id": "m", "status": "completed"}
    return item | {"role": "assistant", "content": [text]}


def called(api, name, returned):
    """A tool's call and its result."""
    if api == "messages":
        use = {"type": "tool_use", "id": name, "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": name, "content": returned}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    if api == "chat":
        call = {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": returned},
        ]
    return [
        {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": name, "output": returned},
    ]


def body_of(api, messages):
    schema = {"type": "object", "properties": {}}
    tool = {"name": "look", "description": "a look"}
    body = {"model": "random", "max_tokens": 1}
    if api == "messages":
        return body | {
            "system": LONG[-1],
            "tools": [tool | {"input_schema": schema}],
            "messages": messages,
        }
    tool |= {"parameters": schema}
    if api == "chat":
        head = {"role": "system", "content": LONG[-1]}
        tools = [{"type": "function", "function": tool}]
        return body | {"tools": tools, "messages": [head, *messages]}
    tools = [{"type": "function", "strict": False, **tool}]
    limits = {"model": "random", "max_output_tokens": 1}
    return limits | {"instructions": LONG[-1], "tools": tools, "input": messages}


def post(url, api, body):
    """The status, and what the server says of the prompt."""
    answer = Site(url).post(PATHS[api], json.dumps(body).encode())
    return answer.status, usage_of(answer.json()) if answer.status == 200 else Usage()


def talk(url, api):
    """Hold the conversation; return the statuses and the usages."""
    return list(zip(*(post(url, api, body) for body in conversation(api)), strict=True))


def evaluated(usages):
    return sum(usage.evaluated for usage in usages)


def ideal(usages):
    """What is evaluated if each turn adds to the one before it."""
    return 1.01 * usages[-1].prompt + TURNS * TOLERANCE


def whole_log(proxy, turns):
    """What the proxy has said, when it has said something of so many turns."""
    eventually(lambda: proxy.log().count("s first") >= turns)
    return proxy.log()


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_turn_fails_and_each_evaluates_what_is_new(serve, name):
    """In all three APIs; where the template takes them in place, nothing is edited."""
    server = serve(name, WORDS)
    with Proxy(server.url) as proxy:
        for api in PATHS:
            erase(server.url)
            statuses, usages = talk(proxy.url, api)
            assert set(statuses) == {200}, (api, proxy.log())
            assert evaluated(usages) <= ideal(usages), (api, usages)
        log = whole_log(proxy, len(PATHS) * TURNS)
    assert log.count("(placed ") == (len(PATHS) * TURNS if name in HARMS else 0)
    assert log.count("(logged once;") == (name in HARMS)
    assert "HTTP 400" not in log


@pytest.mark.parametrize("api", PATHS)
def test_without_the_proxy_they_cost_the_request_or_the_history(serve, api):
    """The measure is sharp."""
    statuses, _ = talk(serve("strict", WORDS).url, api)
    assert set(statuses) == {400}
    statuses, usages = talk(serve("hoist", WORDS).url, api)
    assert set(statuses) == {200}
    assert evaluated(usages) > 2 * usages[-1].prompt


@pytest.mark.parametrize("api", PATHS)
def test_another_template_between_two_turns_heals_within_the_request(serve, api):
    """The server is started again on the same port with another model."""
    port = free_port()
    server = serve("inline", WORDS, port=port)
    with Proxy(server.url) as proxy:
        bodies = list(conversation(api))
        assert post(proxy.url, api, bodies[0])[0] == 200
        for name, body in zip(("strict", "turns"), bodies[1:], strict=False):
            server.close()
            server = serve(name, WORDS, port=port)
            assert post(proxy.url, api, body)[0] == 200, proxy.log()
        assert post(proxy.url, api, bodies[3])[0] == 200
        assert "HTTP 400" not in whole_log(proxy, 4)
