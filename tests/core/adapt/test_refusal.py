"""What an upstream says of a request that it turns down, and nothing of the request."""

import gzip
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.adapt.late import refuses_late, wants_turns
from cacheproxy.core.adapt.refusal import ErrorReader
from cacheproxy.core.prompt.request import Request
from tests import transcript

TYPED = 'Say "hello" to the green kingfisher,\nand do not forget its 3 çhicks: bring a worm or two'
BODY = {"model": "qwen3:8b", "messages": [{"role": "user", "content": TYPED}], "max_tokens": 1}


def asked(body=BODY, *, headers=(), ascii_=True):
    body = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=ascii_).encode()
    return Request("POST", "/v1/messages", headers, body)


def said(body, *requests, headers=(), pieces=1000):
    refusal = ErrorReader(headers)
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    for start in range(0, len(body), pieces):
        refusal.feed(body[start : start + pieces])
    return refusal.said(*(requests or (asked(),)))


GZIP = ((b"Content-Encoding", b"gzip"),)
PACKED = gzip.compress(json.dumps({"error": {"message": "no such slot"}}).encode(), mtime=0)


@pytest.mark.parametrize(
    ("body", "words"),
    [(PACKED, "no such slot"), (PACKED[:-9], "no such slot"), (b"no gzip at all",) * 2],
)
def test_a_packed_body_is_unpacked(body, words):
    assert said(body, headers=GZIP) == (words if isinstance(words, str) else words.decode())


texts = st.text(st.sampled_from('abc xyz.,"\\\n\té😀'), min_size=39, max_size=120)


@given(texts, st.text(max_size=40), st.text(max_size=40), st.booleans(), st.booleans())
@example("a" * 39, "'", "'", True, True)
def test_a_longer_run_of_the_request_never_comes_back(typed, before, after, ascii_, as_text):
    body = {"messages": [{"role": "user", "content": typed}]}
    message = f"{before}{typed}{after}"
    answer = message.encode() if as_text else {"error": {"message": message}}
    line = said(answer, asked(body, ascii_=ascii_)) or ""
    for start in range(len(typed) - 38):
        run = " ".join(typed[start : start + 39].split())
        assert len(run) < 39 or run not in line
    assert line.isprintable()
    assert len(line) <= 160


REFUSALS = [
    "System message must be at the beginning.",
    "Only user, assistant and tool roles are supported, got system.",
    (
        "Only user and assistant roles are supported, with the exception of an initial optional "
        "system message!"
    ),
    "Unexpected message role.",
    "Invalid role: system",
    "Unknown role: developer",
    "System role not supported",
    'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
    "Input should be 'user' or 'assistant'",
    'Error rendering prompt with jinja template: "System message must be at the beginning."',
    "system messages are only allowed at the start of the conversation",
]
TURNS = [
    "Conversation roles must alternate user/assistant/user/assistant/...",
    (
        "After the optional system message, conversation roles must alternate "
        "user/assistant/user/assistant/..."
    ),
]
OTHERS = [
    "the request exceeds the available context size, try increasing it",
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "model 'x' not found, try pulling it first",
    "max_tokens: Field required",
    "invalid api key",
    "json.exception.parse_error.101",
    "File Not Found",
    "tools.0.custom.name: Field required",
    "The image could not be decoded",
    "operating system error: disk full",
    "role of thumb",
    "",
]


def bodies(message):
    """The message in the errors of several servers."""
    yield json.dumps({"error": {"code": 400, "message": message, "type": "x"}}).encode()
    yield json.dumps({"error": message}, ensure_ascii=False).encode()
    yield json.dumps({"detail": [{"loc": ["body", "messages", 3], "msg": message}]}).encode()
    yield message.encode()


ERRORS = [
    *((message, True, False) for message in REFUSALS),
    *((message, True, True) for message in TURNS),
    *((message, False, False) for message in OTHERS),
]


@pytest.mark.parametrize(("message", "late", "turns"), ERRORS)
def test_a_refusal_is_told_by_the_words_of_templates_and_servers(message, late, turns):
    """In whichever form the error comes; others go to the client as they came."""
    for body in bodies(message):
        assert (refuses_late(body), wants_turns(body)) == (late, turns)


def test_all_that_is_said():
    transcript.holds("refusal.txt", globals())
