"""The official SDKs read signs of life, streams made of whole bodies, and late errors."""

from __future__ import annotations

import itertools
import json

import pytest

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from tests.core.dialects.forms import STREAMS, streamed, whole
from tests.proxy.harness import CHUNKED, Upstream

APIS = {CHAT: "chat", RESPONSES: "responses", MESSAGES: "messages"}
TOO_LONG = "request (90000 tokens) exceeds the available context size (32768 tokens)"
ERRORS = {
    "long": (400, TOO_LONG),
    "busy": (429, "slow down"),
    "loading": (503, "Loading model"),
    "who": (401, "who are you?"),
}
TYPES = {
    CHAT: ("openai.types.chat", "ChatCompletion", "ChatCompletionChunk"),
    RESPONSES: ("openai.types.responses", "Response", "ResponseStreamEvent"),
    MESSAGES: ("anthropic.types", "Message", "RawMessageStreamEvent"),
}
OTHERS = {"timings", "output_text"}
"""What SDKs leave out, or add."""
each = pytest.mark.parametrize("name", STREAMS)
in_both = pytest.mark.parametrize("language", ["python", "javascript"])


def signed(dialect, events, places):
    """The stream of ``events`` with a sign of life before each of those at ``places``."""
    found = b""
    for place, event in enumerate(events):
        first = b"".join(events[:place])[:4096]
        found += (dialect.sign(first) if place in places else b"") + event
    return found


def variants():
    """Each stream that is asked for, by its name, and its dialect."""
    found = {}
    for name, (dialect, events) in STREAMS.items():
        counted = next((at for at, one in enumerate(events) if b'"usage": {"prompt' in one), 99)
        inside = range(1, min(counted + 1, len(events)))
        found[f"{name}-plain"] = dialect, b"".join(events)
        found[f"{name}-first"] = dialect, signed(dialect, events, [0])
        found[f"{name}-inside"] = dialect, signed(dialect, events, inside)
        found[f"{name}-made"] = dialect, streamed(dialect, whole(dialect, *events))
    for (dialect, api), (kind, error) in itertools.product(APIS.items(), ERRORS.items()):
        found[f"{api}-{kind}"] = dialect, dialect.deferred_error(*error, False)
        if not dialect.sign_waits:
            waited = dialect.sign(b"") + dialect.deferred_error(*error, False)
            found[f"{api}-{kind}-waited"] = dialect, waited
    return found


@pytest.fixture(scope="module")
def answers(request):
    """What an SDK says of each variant, by its name and how it asks."""
    known, streams = {}, variants()

    def answer(peer, received):
        model = json.loads(received.body)["model"]
        peer.send(CHUNKED)
        peer.chunk(streams[model][1])
        peer.send(b"0\r\n\r\n")

    server = Upstream()
    server.reset(answer)

    def ask(language):
        if language not in known:
            jobs = [
                {"api": APIS[dialect], "how": how, "model": model}
                for (model, (dialect, _)), how in itertools.product(
                    streams.items(), ("helper", "events")
                )
            ]
            found = request.getfixturevalue(language)(server.url, jobs)
            known[language] = {
                (job["model"], job["how"]): one for job, one in zip(jobs, found, strict=True)
            }
        return known[language]

    yield ask
    server.close()


@in_both
@each
def test_signs_within_a_stream_change_nothing(answers, name, language):
    """At every place between its first event and its usage: in the middle of a call, too."""
    said = answers(language)
    assert "value" in said[f"{name}-plain", "helper"]
    assert said[f"{name}-inside", "helper"] == said[f"{name}-plain", "helper"]
    assert "value" in said[f"{name}-inside", "events"]


@in_both
@each
def test_a_sign_before_a_stream_leaves_its_answer(answers, name, language):
    """Python's helper for chats takes the ids of the first chunk; and who must wait, waits."""
    said, dialect = answers(language), STREAMS[name][0]
    assert "value" in said[f"{name}-first", "events"]
    expected, found = said[f"{name}-plain", "helper"], said[f"{name}-first", "helper"]
    if dialect.sign_waits:
        assert "response.created" in found["error"]["chain"][0]
        return
    if dialect is CHAT and language == "python":
        ours = {"id": "", "created": 0, "model": ""}
        expected = {"value": expected["value"] | ours}
    assert found == expected


@in_both
@each
def test_a_whole_body_is_what_the_sdk_makes_of_the_stream(answers, name, language):
    """And of the stream that is made of the body, but for what the SDK adds or does not know.

    OpenAI's for JavaScript keeps the last piece of reasoning alone.
    """
    dialect, events = STREAMS[name]
    body = plain(whole(dialect, *events))
    said = answers(language)
    assert plain(said[f"{name}-made", "helper"]["value"]) == body
    if (language, name) != ("javascript", "calls"):
        assert plain(said[f"{name}-plain", "helper"]["value"]) == body


@each
def test_whole_bodies_and_streams_are_valid(name):
    """By the official SDK's types, taken strictly; so are signs before and in a chat."""
    pydantic = pytest.importorskip("pydantic")
    dialect, events = STREAMS[name]
    module, answer, event = TYPES[dialect]
    types = pytest.importorskip(module)
    body = whole(dialect, *events)
    pydantic.TypeAdapter(getattr(types, answer)).validate_json(json.dumps(body), strict=True)
    made = streamed(dialect, body)
    if dialect is CHAT:
        made += dialect.sign(b"") + dialect.sign(b"".join(events))
    for one in made.split(b"\n\n"):
        data = one.partition(b"data: ")[2]
        if data not in (b"", b"[DONE]"):
            pydantic.TypeAdapter(getattr(types, event)).validate_json(data, strict=True)


@in_both
@pytest.mark.parametrize("how", ["helper", "events"])
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("dialect", APIS, ids=APIS.get)
def test_a_late_error_is_raised(answers, dialect, kind, how, language):
    """With the server's message, at once and after a sign; never a clean end."""
    said = answers(language)
    message = ERRORS[kind][1]
    if dialect is MESSAGES and message is TOO_LONG:
        message = "prompt is too long: 90000 tokens > 32768 maximum"
    for name in (f"{APIS[dialect]}-{kind}", f"{APIS[dialect]}-{kind}-waited"):
        if (name, how) in said:
            assert message in said[name, how]["error"]["chain"][0]
    if dialect is not MESSAGES:
        code = said[f"{APIS[dialect]}-{kind}", how]["error"]["body"]["code"]
        assert (code == "context_length_exceeded") == (kind == "long")


def plain(value):
    """``value`` without members that are null or empty, and without what the SDKs differ in."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    left_out = OTHERS | ({"index"} if "function" in value else set())
    return {
        name: plain(one)
        for name, one in value.items()
        if one not in (None, [], {}) and name not in left_out and not name.startswith("parsed")
    }
