"""What is translated, and into what: one transcript of requests, one of answers, one of streams."""

import json

import pytest

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import request
from cacheproxy.translate.counting import estimate
from cacheproxy.translate.reading import TranslationError
from cacheproxy.translate.stream import COMMENT, CommentFinder
from cacheproxy.translate.translation import MessagesToChat, chat_of, models
from tests import transcript
from tests.translate.streams import feed_all

from .chunks import USAGE, assert_valid, events, exchange, message_of
from .conversations import chat, turned

HELLO = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
    "completion": "/v1/completions",
}


def said(*messages, **more):
    return chat({"messages": list(messages), **more})["messages"]


def sent(more, target="/v1/messages", headers=None):
    """The target and headers of a request."""
    asked = MessagesToChat(request(HELLO | more, target, headers)).sent
    return asked.target, {name.decode(): value.decode() for name, value in asked.headers}


def body(text):
    """The chat body for a Messages body, in its own spelling."""
    return turned(text).body.decode()


def refused(*bodies):
    """What a request is refused for that has one wrong value."""
    for each in bodies:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            chat(HELLO | each)
        yield error.value.place if str(error.value).startswith(f"{error.value.place}: ") else None


def completion(message=None, finish="stop", **more):
    choice = {"index": 0, "message": message or {}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": USAGE, **more}


def answer(value, status=200, spellings=None, **asked):
    """The status and the body of an answer; a message is valid by the SDK's types."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    got = exchange(spellings, **asked).answer(status, body)
    if got.status == 200:
        assert_valid("Message", json.loads(got.body))
    return got.status, json.loads(got.body)


def fails(value):
    """The error of an answer without sense."""
    with pytest.raises(TranslationError) as caught:
        answer(value)
    return str(caught.value)


def content(message=None, finish="stop", **more):
    """What an answer says."""
    got = answer(completion(message, finish, **more))[1]
    return got["stop_reason"], got["content"]


def counted(usage):
    return answer(completion({"content": "a"}, usage=usage))[1]["usage"]


def calling(*arguments, finish="tool_calls", spellings=None):
    """The input of a call with each of ``arguments``, and the id."""
    calls = [
        {"type": "function", "id": "x", "function": {"name": "n", "arguments": one}}
        for one in arguments
    ]
    got = answer(completion({"tool_calls": calls}, finish), spellings=spellings)[1]
    return [block["input"] for block in got["content"]]


def error(value, *statuses):
    """Of an error's body: the status, its type and its message."""
    for status in statuses or (400,):
        got, body = answer(value, status)
        assert (body["type"], body["request_id"]) == ("error", None)
        yield got, *body["error"].values()


def too_long(message, **more):
    return list(error({"error": {"message": message, **more}}, 400, 500))


def stream(*pieces, **asked):
    """What a stream says in short: its events, and the error that ended it, if any."""
    out, error = feed_all(exchange(**asked).stream(), pieces)
    shown = []
    for event in events(out):
        match event:
            case {"delta": {"type": _} as delta}:
                shown.append([*delta.values()][1])
            case {"content_block": block}:
                shown.append(f"<{block['type']}>")
            case {"error": what}:
                shown.append(what)
            case _:
                shown.append(f"{event['type']}")
    return [*shown, *([error] if error else [])]


def whole(*pieces, **asked):
    """Of the message that the pieces make: why it stopped, and what it says."""
    found = message_of(*pieces, **asked)
    return found["stop_reason"], found["stop_sequence"], found["content"]


def used(*pieces):
    return message_of(*pieces)["usage"]


def remembered(spellings, *asked):
    return [spellings.find(*each) for each in asked]


def made(api, body):
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = Request("POST", PATHS[api], (), encoded)
    found = chat_of(asked)
    assert found == chat_of(asked), "the request stays as it was: others look at the same value"
    return found


def responses(*items, **fields):
    found = made("responses", {"model": "m", "input": list(items), **fields})
    return found and found["messages"]


def listed(*models_):
    said = json.loads(models(json.dumps({"object": "list", "data": list(models_)}).encode()))
    for one in said["data"]:
        assert_valid("ModelInfo", one)
    return said


def comments(*pieces):
    finder = CommentFinder()
    found = [part for piece in pieces for part in finder.cut(piece)]
    return ["COMMENT" if part is COMMENT else part.decode() for part in found]


def estimated(**body):
    return json.loads(estimate(request(HELLO | body)))


@pytest.mark.parametrize("surface", ["requests", "answers", "streams", "prompts"])
def test_all_that_is_said(surface):
    """Of the whole translation: whoever changes it reads the difference."""
    transcript.holds(f"{surface}.txt", globals())


def test_an_estimate_is_near_the_truth():
    """Ten words and a full stop are about ten tokens; other scripts are denser."""
    text = "The quick brown fox jumps over the lazy dog. " * 40
    say = lambda words: [{"role": "user", "content": words}]  # noqa: E731
    counts = [
        estimated(messages=say(each))["input_tokens"]
        for each in (text, "abcde fghij. " * 100, "αβγδε ζηθικ. " * 100)
    ]
    assert 0.8 * 400 < counts[0] < 1.25 * 400
    assert counts[1] < counts[2]
    picture = {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}
    assert estimated(messages=say([{"type": "image", "source": picture}]))["input_tokens"] > 1000
    assert estimated(messages=say([{"type": "image", "source": picture}]))["input_tokens"] < 2000
