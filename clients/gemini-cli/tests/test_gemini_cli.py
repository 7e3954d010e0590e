"""A resumed Gemini CLI session: each tool response once, and all else to the letter."""

import json

import cacheproxy_gemini_cli
import pytest

from cacheproxy.testing import (
    assert_idempotent,
    assert_untouched,
    find_captures,
    load_capture,
    normalized,
    request,
    rules_of,
)

(CAPTURE,) = find_captures("gemini-resume.jsonl", __file__)
RULES = rules_of(cacheproxy_gemini_cli)
PATH = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
AGENT = {"User-Agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)"}


def response(call, output="done"):
    told = {"name": "run_shell_command", "response": {"output": output}, "id": call}
    return {"functionResponse": told}


def turn(*parts, headers=AGENT):
    return request({"contents": [{"parts": list(parts), "role": "user"}]}, PATH, headers)


def responses(one):
    return [
        part["functionResponse"]["id"]
        for content in one.json["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]


def test_a_resumed_session_sends_each_response_once():
    """As the first process did; what else it changes, stays."""
    sent = [one for one in load_capture(CAPTURE) if one.json]
    for one in sent:
        after = normalized(RULES, one)
        ids = responses(after)
        assert len(ids) == len(set(ids))
        assert (after.body == one.body) == (len(responses(one)) == len(ids))
        assert_idempotent(RULES, one)
    first, last = (normalized(RULES, sent[number]).json["contents"] for number in (1, -1))
    assert first[2] == last[2]


@pytest.mark.parametrize(
    "parts",
    [
        (response("a"), response("b")),
        (response("a"), response("a", "other")),
        (response(""), response("")),
        ({"text": json.dumps(response("a"))}, {"text": json.dumps(response("a"))}),
    ],
)
def test_what_is_not_the_same_response_stays(parts):
    assert_untouched(RULES, turn(*parts))


def test_the_same_response_in_another_content_stays():
    contents = [{"parts": [response("a")], "role": "user"}] * 2
    assert_untouched(RULES, request({"contents": contents}, PATH, AGENT))


def test_other_clients_are_left_alone():
    assert_untouched(RULES, turn(response("a"), response("a"), headers={"User-Agent": "curl/8"}))
    assert len(responses(normalized(RULES, turn(response("a"), response("a"))))) == 1
