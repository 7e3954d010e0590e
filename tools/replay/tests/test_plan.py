"""Which captured requests are sent, and what of each is changed; how a pass starts cold."""

import json

import pytest
from cacheproxy_replay.plan import erase, headers_of, marked, new_mark, plan, prepared

from cacheproxy.core.prompt.request import Request
from cacheproxy.http_client import CommandError, Site
from tests import conversation
from tests.peer import NOBODY
from tests.record.recorded import recorded

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
LONG = "word " * 100


def request(body, target=CHAT, headers=()):
    return Request("POST", target, headers, body.encode())


def body_of(body, target=CHAT, **options):
    return prepared(request(body, target), **({"answers": 1} | options)).body.decode()


def test_every_other_byte_stays_as_it_was():
    """Spacing, key order, escapes, duplicate keys and number spelling survive."""
    odd = '{ "stream" :true, "max_tokens": 3e4 ,"x":1.0,"x":[ ],"messages":[{"a":"\\ud83d\\/"}]}'
    assert body_of(odd, MESSAGES) == odd.replace("3e4", "1")


@pytest.mark.parametrize(
    ("target", "body", "limits"),
    [
        (MESSAGES, {"messages": [], "max_tokens": 9}, {"max_tokens": 7}),
        (CHAT, {"messages": []}, {"max_tokens": 7}),
        (CHAT, {"max_completion_tokens": 9}, {"max_completion_tokens": 7}),
        (RESPONSES, {"input": []}, {"max_output_tokens": 7}),
        ("/completion", {"prompt": "", "n_predict": -1}, {"n_predict": 7}),
        ("/api/chat", {"options": {"seed": 1}}, {"options": {"seed": 1, "num_predict": 7}}),
    ],
)
def test_the_limit_in_each_dialect(target, body, limits):
    sent = json.loads(body_of(json.dumps(body), target, answers=7))
    assert {name: sent[name] for name in limits} == limits
    names = {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "options"}
    assert names & set(sent) == set(limits)
    assert sent.get("stream", True) is True


def test_a_chat_stream_is_asked_for_its_usage():
    sent = json.loads(body_of('{"stream_options":{"x":1},"stream":false}'))
    assert sent["stream_options"] == {"x": 1, "include_usage": True}
    assert sent["stream"] is True


def test_the_model_is_replaced_only_when_one_is_named():
    assert json.loads(body_of('{"model":"a"}'))["model"] == "a"
    assert json.loads(body_of('{"model":"a"}', model="b"))["model"] == "b"
    assert json.loads(body_of("{}", model="b"))["model"] == "b"


@pytest.mark.parametrize(
    ("target", "goes"),
    [
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/api/v1/chat/completions", "/api/v1/chat/completions"),
        ("/backend-api/codex/responses", "/v1/responses"),
        ("/chat/completions", "/v1/chat/completions"),
    ],
)
def test_the_path_is_that_of_a_local_server(target, goes):
    assert prepared(request("{}", target), answers=1).target == goes


def test_no_credential_and_nothing_of_the_connection_is_sent():
    headers = (
        (b"Authorization", b"redacted"),
        (b"x-api-key", b"sk-1"),
        (b"Content-Length", b"5"),
        (b"X-Odd", b"redacted"),
        (b"X-Claude-Code-Session-Id", b"abc"),
    )
    sent = headers_of(prepared(request("{}", headers=headers), answers=1), {})
    assert sent.pop("X-Claude-Code-Session-Id") == "abc"
    assert sent == {}
    assert headers_of(request("{}"), {"X-Api-Key": "key"}) == {"X-Api-Key": "key"}


def test_what_cannot_be_sent_is_said_once_per_kind():
    def post(target, body=b"{}"):
        return recorded("POST", target, (), body)

    made = plan(
        [
            recorded("HEAD", "/"),
            post("/v1/messages/count_tokens"),
            post("/v1beta/models/g:streamGenerateContent"),
            post("/v1beta/models/g:streamGenerateContent"),
            post(CHAT, b"{"),
            post(CHAT),
        ]
    )
    assert [item.number for item in made.items] == [1]
    assert [line.partition(":")[0] for line in made.left_out] == [
        "1 request",
        "2 requests",
        "1 request",
    ]


def mark_in(target, body):
    return json.loads(marked(Request("POST", target, (), json.dumps(body).encode()), "M").body)


def test_no_two_marks_are_alike():
    assert new_mark() != new_mark()


@pytest.mark.parametrize("dialect", conversation.PATHS)
def test_the_system_text_and_the_first_tool_are_marked(dialect):
    body = conversation.body(dialect, 1)
    sent = json.dumps(mark_in(conversation.PATHS[dialect].partition("?")[0], body))
    assert sent.count("M\\n") == 2
    assert '"M\\nReads a file' in sent
    assert "nonce-00011eef\\nM\\nYou are" in sent


def test_a_header_alone_in_its_block_stays_alone():
    blocks = [{"type": "text", "text": "x-header: 1"}, {"type": "text", "text": LONG}]
    sent = mark_in("/v1/messages", {"system": blocks, "messages": []})
    assert [block["text"] for block in sent["system"]] == ["x-header: 1", f"M\n{LONG}"]


@pytest.mark.parametrize(
    ("text", "with_mark"),
    [(LONG, f"M\n{LONG}"), ("short", "short\nM"), ("head\nbody", "head\nM\nbody")],
)
def test_a_prompt_without_system_text_is_marked_in_its_first_message(text, with_mark):
    sent = mark_in("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]})
    assert sent["messages"][0]["content"] == with_mark


def test_a_tool_without_a_description_leaves_the_mark_to_the_next():
    tools = [{"type": "web_search"}, {"name": "t", "parameters": {"description": "d"}}]
    sent = mark_in("/v1/responses", {"tools": tools, "input": "hi"})
    assert sent["tools"][1]["parameters"]["description"] == "M\nd"
    assert sent["input"] == "hi\nM"


def test_a_server_that_cannot_empty_its_slots_is_told():
    with pytest.raises(CommandError, match="--slot-save-path"):
        erase(Site(NOBODY))
