"""What chat servers stream, and what becomes of it."""

import json
from functools import cache

import pytest
from hypothesis import settings

from cacheproxy.core.http1.sse import EventReader
from cacheproxy.testing import request
from cacheproxy.translate.translation import MessagesToChat
from tests.translate.streams import through

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 60},
}
DONE = b"data: [DONE]\n\n"


@cache
def _sdks(name):
    """A type of the official SDK, which takes three seconds to import."""
    types = pytest.importorskip("anthropic.types")
    from pydantic import TypeAdapter

    return TypeAdapter(getattr(types, name))


def assert_valid(name, value):
    """Assert that ``value`` is what the official SDK calls ``name``.

    The quick tests take the transcripts' word for it: they have been valid when they were written.
    """
    if settings.get_current_profile_name() != "quick":
        _sdks(name).validate_json(json.dumps(value), strict=True)


def exchange(spellings=None, **more):
    """An exchange whose request has gone up."""
    body = {"model": "asked", "max_tokens": 9, "stream": True, "messages": [], **more}
    return MessagesToChat(request(body), spellings)


def data(value):
    return b"data: %s\n\n" % json.dumps(value).encode()


def chunk(delta=None, finish=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return data({"id": "chatcmpl-1", "model": "m", "choices": [choice], **more})


def call(index, arguments="", **more):
    """A delta of one tool call; ``id`` and ``name`` where they are given."""
    function = {"arguments": arguments}
    if "name" in more:
        function["name"] = more.pop("name")
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def usage(**more):
    return data({"id": "chatcmpl-1", "model": "m", "choices": [], "usage": USAGE, **more})


def events(sent):
    """The events of a stream for the client, each of them valid by the official SDK's types."""
    found = []
    for event in EventReader().feed(sent):
        value = json.loads(event.data)
        assert event.type.decode() == value["type"]
        if value["type"] not in ("ping", "error"):
            assert_valid("RawMessageStreamEvent", value)
        found.append(value)
    return found


def assembled(found):
    """The message that ``events`` make; fails where their order is not that of the API."""
    message, blocks, is_open = None, [], False
    for event in found:
        match event["type"]:
            case "message_start":
                assert message is None
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(blocks)
                assert not is_open
                is_open = True
                blocks.append(dict(event["content_block"]))
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                add(blocks[-1], event["delta"])
            case "content_block_stop":
                assert is_open
                assert event["index"] == len(blocks) - 1
                is_open = False
            case "message_delta":
                assert not is_open
                assert message["stop_reason"] is None
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case "ping":
                pass
            case other:
                assert other == "message_stop"
                assert event is found[-1]
    assert found[-1]["type"] == "message_stop"
    assert message["stop_reason"] is not None
    return message | {"content": blocks}


def add(block, delta):
    fits = {
        "text_delta": ("text", "text", "text"),
        "thinking_delta": ("thinking", "thinking", "thinking"),
        "signature_delta": ("thinking", "signature", "signature"),
        "input_json_delta": ("tool_use", "json", "partial_json"),
    }
    kind, name, source = fits[delta["type"]]
    assert block["type"] == kind
    block[name] = block.get(name, "") + delta[source]


def message_of(*pieces, **asked):
    """The message for a stream of these pieces."""
    return assembled(events(through(exchange(**asked).stream(), pieces)))
