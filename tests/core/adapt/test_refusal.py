"""What an upstream says of a request that it turns down, and nothing of the request."""

import gzip
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.adapt.late import refuses_late, wants_turns
from cacheproxy.core.adapt.refusal import LARGEST, WITHHELD, ErrorReader, read
from cacheproxy.core.prompt.request import Request
from tests.core.held import most_held

TYPED = 'Say "hello" to the green kingfisher,\nand do not forget its 3 çhicks: bring a worm or two'
BODY = {"model": "qwen3:8b", "messages": [{"role": "user", "content": TYPED}], "max_tokens": 1}
KEY = "sk-test-4f9a8b7c6d5e4f3a2b1c"
TEMPLATE = """Unable to generate parser for this template. Automatic parser generation failed:
------------
While executing CallExpression at line 19, column 72 in source:
...nd not loop.first -%}{{- raise_exception('System message must be at the beginnin...
                                           ^
Error: Jinja Exception: System message must be at the beginning."""
"""llama-server's, word for word."""


def asked(body=BODY, *, headers=(), ascii_=True):
    body = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=ascii_).encode()
    return Request("POST", "/v1/messages", headers, body)


def said(body, *requests, headers=(), pieces=1000):
    refusal = ErrorReader(headers)
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    for start in range(0, len(body), pieces):
        refusal.feed(body[start : start + pieces])
    return refusal.said(*(requests or (asked(),)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"code": 400, "message": "no such slot", "type": "x"}}, "no such slot"),
        ({"type": "error", "error": {"type": "x", "message": "no such slot"}}, "no such slot"),
        ({"error": "model not found"}, "model not found"),
        ({"message": "no such slot"}, "no such slot"),
        ({"detail": "Not Found"}, "Not Found"),
        (
            {"detail": [{"loc": ["body", "messages", 0], "msg": "Field required", "input": BODY}]},
            "body.messages.0: Field required",
        ),
        ("no such slot", "no such slot"),
        (["no such slot"], "no such slot"),
        (b"Unauthorized\n", "Unauthorized"),
        ({"error": {"message": TEMPLATE}}, "System message must be at the beginning."),
        ({"error": {"message": "two\n\tlines \x1b[31mred\u202e"}}, "two lines [31mred"),
        ({"error": {"message": "A" * 500}}, "A" * 159 + "…"),
        ({"error": "model 'qwen3:8b' not found"}, "model 'qwen3:8b' not found"),
        ({"error": "Expected 'content' to be a string"}, "Expected 'content' to be a string"),
    ],
)
def test_the_message_in_whichever_shape(body, words):
    """One line of at most 160 characters, all of them printable."""
    assert said(body) == words
    assert said(body, pieces=1) == words


@pytest.mark.parametrize(
    "body",
    [b"", b"  ", b"{}", b"[]", b"{", b'{"error": {"code": 500}}', b'{"error": 7}',
     b"<html><title>502 Bad Gateway</title></html>", b'{"message": "\\u12"', b"[" * 8000,
     b'{"error":' * 500 + b'"x"' + b"}" * 500],
)  # fmt: skip
def test_a_body_without_a_message_says_nothing(body):
    assert said(body) is None


def test_only_the_first_kilobytes_are_kept():
    """The message is found in them, though the rest is missing."""
    assert said({"error": {"message": "too long", "of": "x" * 100_000}}) == "too long"
    assert said({"of": "x" * 100_000, "error": {"message": "too long"}}) is None
    refusal = ErrorReader(())
    assert most_held(lambda: refusal.feed(b"x" * 1000), 1000) < 100_000


GZIP = ((b"Content-Encoding", b"gzip"),)
PACKED = gzip.compress(json.dumps({"error": {"message": "no such slot"}}).encode(), mtime=0)


@pytest.mark.parametrize(
    ("body", "words"),
    [(PACKED, "no such slot"), (PACKED[:-9], "no such slot"), (b"no gzip at all",) * 2],
)
def test_a_packed_body_is_unpacked(body, words):
    assert said(body, headers=GZIP) == (words if isinstance(words, str) else words.decode())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        # nlohmann's parser, as llama-server has it
        (
            'parse error at line 1, column 66: invalid string; last read: \'"Say \\"hello\\" to\'',
            "parse error at line 1, column 66: invalid string; last read: '…'",
        ),
        ("unknown word 'kingfisher, 3'", "unknown word 'kingfisher, 3'"),
        ("cannot read `green kingfisher` here", "cannot read `…` here"),
        (f"cannot read {TYPED}", WITHHELD),
        (f"cannot read {TYPED[30:70]}", WITHHELD),
        # pydantic, as vLLM has it
        (
            f"[{{'type': 'missing', 'msg': 'Field required', 'input': {BODY}}}]",
            "[{'type': 'missing', 'msg': 'Field required'",
        ),
        (
            f"Input should be a list [type=list_type, input_value={TYPED!r}, input_type=str]",
            "Input should be a list [type=list_type",
        ),
    ],
)
@pytest.mark.parametrize("ascii_", [True, False])
def test_what_stands_in_the_request_is_not_quoted(message, words, ascii_):
    assert said({"error": {"message": message}}, asked(ascii_=ascii_)) == words
    assert said({"error": {"message": message}}, asked(b"{}"), asked(ascii_=ascii_)) == words


def test_a_request_that_cannot_be_looked_through_is_not_quoted_either():
    """It is packed, or larger than anybody should wait for."""
    assert said({"error": "no such slot"}, asked(PACKED, headers=GZIP)) == WITHHELD
    assert said({"error": "no such slot"}, asked(b"x" * (9 << 20))) == WITHHELD


def test_keys_are_not_quoted():
    """Neither the one that was sent nor any that looks like one."""
    sent = asked(headers=((b"Authorization", f"Bearer {KEY}".encode()),))
    for key in (KEY, "sk-other-8a7b6c5d4e3f2a1b0c9d"):
        assert key not in said({"error": {"message": f"Incorrect API key: {key}"}}, sent)


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


def test_of_a_long_answer_the_beginning_is_looked_at():
    """In which an error stands; and in no time that grows faster than its length."""
    refusal = REFUSALS[0].encode()
    assert refuses_late(b" " * (LARGEST - len(refusal)) + refusal)
    assert not refuses_late(b" " * LARGEST + refusal)
    assert not refuses_late(b"system message " * 100_000)


DETAILS = [
    {"loc": ["body", "messages", 3, "name"], "msg": "Extra inputs are not permitted"},
    {"loc": ["body", "n"], "msg": "Input should be 1"},
]


@pytest.mark.parametrize(
    ("value", "words", "code", "path"),
    [
        ({"error": {"message": "No.", "type": "Invalid_Request"}}, "No.", "invalid_request", ()),
        ({"error": {"message": "No.", "code": 400}}, "No.", "", ()),
        ({"error": "No."}, "No.", "", ()),
        ({"message": "No.", "type": "BadRequest", "code": 400}, "No.", "badrequest", ()),
        (
            {"detail": DETAILS},
            "body.messages.3.name: Extra inputs are not permitted\nbody.n: Input should be 1",
            "",
            ("messages", 3, "name"),
        ),
        ({"detail": [{"loc": [{}], "msg": 7}]}, '{"detail": [{"loc": [{}], "msg": 7}]}', "", ()),
        ([], "[]", "", ()),
    ],
)
def test_an_error_answer_is_read_whole(value, words, code, path):
    """For whoever mends the request; what has another shape is its own words."""
    assert read(400, json.dumps(value).encode()) == Refusal(400, words, code, path)


def test_of_long_words_both_ends_are_kept():
    """llama-server shows the template, and behind it what that has to say."""
    found = read(500, json.dumps({"error": "first" + "x" * 60_000 + "last"}).encode())
    assert found.words.startswith("first")
    assert found.words.endswith("last")
    assert len(found.words) < 9000
    assert read(400, b"<html>no \xff</html>").words == "<html>no \ufffd</html>"
    assert len(read(400, b"[" * 10_000_000).words) < 9000
