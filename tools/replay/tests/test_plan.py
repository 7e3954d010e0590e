"""What is sent differs from what was captured by the limit, the stream flag and the model."""

import json

import pytest
from cacheproxy_replay.plan import headers_of, plan, prepared

from cacheproxy.core.prompt.request import Request
from tests.record.recorded import recorded

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"


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
