"""What Anthropic's SDKs say of a chat server's scripted answers, translated on their way.

With Python and JavaScript: whole answers and streams, and what breaks off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.proxy.harness import Proxy

from .chat_cases import BROKEN, CASES, ERRORS, TURNS
from .speaking import ODD, Speaking
from .translated import javascript_in, message_said, python

pytest.importorskip("anthropic")

LANGUAGES = ("python", "javascript")
NAMED = CASES | BROKEN | ERRORS
ASKED = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stop_sequences": ["##"]}
RESULTS = [
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_c", "content": "a cat"},
            {"type": "tool_result", "tool_use_id": "call_d", "content": "no", "is_error": True},
        ],
    }
]
"""Of the calls in ``TURNS``."""


@pytest.fixture(scope="module")
def speaking() -> Iterator[Speaking]:
    upstream = Speaking(NAMED | {"turns": TURNS})
    yield upstream
    upstream.close()
    assert not upstream.errors


@pytest.fixture(scope="module")
def translating(speaking, tmp_path_factory):
    """The proxy."""
    folder = tmp_path_factory.mktemp("translating")
    with Proxy(folder, "--upstream", speaking.url, "--dialect", "openai") as proxy:
        yield proxy
        assert "Traceback" not in proxy.output
        assert "critical: " not in proxy.output


@pytest.fixture(scope="module")
def asked(request, speaking, translating):
    """What a language's SDK got, by (case, how); and what the upstream got in two turns."""
    known = {}

    def ask(language):
        if language not in known:
            function = python
            if language == "javascript":
                function = javascript_in(request.getfixturevalue("_packages"))
            jobs = {
                (name, how): {"url": translating.url, "how": how, "body": ASKED | {"model": name}}
                for name, case in NAMED.items()
                for how in ("create", "events", "helper")
                if how != "create" or case.answer is not None
            }
            answers = dict(zip(jobs, function(list(jobs.values())), strict=True))
            speaking.bodies.clear()
            job = {"url": translating.url, "how": "turns", "results": RESULTS}
            [answer] = function([job | {"body": ASKED | {"model": "turns"}}])
            known[language] = answers, answer, speaking.bodies["turns"]
        return known[language]

    return ask


def each(cases, *how):
    """Run a test for every language, case and way to ask."""
    places = [
        (language, name, one)
        for language in LANGUAGES
        for name, case in cases.items()
        for one in how
        if one != "create" or case.answer is not None
    ]
    return pytest.mark.parametrize(
        ("language", "name", "how"), places, ids=["-".join(place) for place in places]
    )


@each(CASES, "create", "helper")
def test_an_answer_says_what_the_server_said(asked, language, name, how):
    """At once, and as the SDK's own helper puts a stream together."""
    answer = asked(language)[0][name, how]
    assert message_said(answer["value"]) == CASES[name].expected


@each(BROKEN, "events", "helper")
def test_a_stream_that_is_not_whole_raises(asked, language, name, how):
    """It never looks like an end; what the server said of it stands in the exception."""
    answer = asked(language)[0][name, how]
    assert "value" not in answer
    told = "\n".join(answer["error"]["chain"])
    raises = BROKEN[name].raises
    if raises is not None:
        assert raises in told
    else:
        cut = "incomplete chunked read" if language == "python" else "other side closed"
        assert cut in told
    if how == "events" and "at-once" not in name:
        assert answer["events"], "what came before is there"


@each(BROKEN, "create")
def test_an_answer_that_is_none_raises(asked, language, name, how):
    """A server error of the SDK's own, never an answer."""
    answer = asked(language)[0][name, how]
    assert "value" not in answer
    assert answer["error"]["status"] >= 500
    assert (BROKEN[name].raises or "the server") in answer["error"]["chain"][0]


@each(ERRORS, "create", "events", "helper")
def test_an_error_is_the_api_s_own(asked, language, name, how):
    """Status, type, words and Retry-After, in the SDK's exception."""
    error = asked(language)[0][name, how]["error"]
    expected = ERRORS[name].expected
    assert (error["status"], error["after"]) == (expected["status"], expected["after"])
    inner = error["body"].get("error", error["body"])
    assert inner["type"] == expected["type"]
    assert expected["said"] in inner["message"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_second_turn_extends_the_first(asked, language):
    """Whatever the SDK makes of an answer: what goes up again begins as the first request did.

    The calls have the server's own ids, and the arguments its own text.
    """
    _, answer, bodies = asked(language)
    assert "value" in answer
    first, second = (body.decode() for body in bodies)
    assert second.startswith(first[: _end_of_messages(first)])
    said = json.loads(second)["messages"]
    assert said[1]["reasoning_content"] == "One or two?"
    assert [call["id"] for call in said[1]["tool_calls"]] == ["call_c", "call_d"]
    assert said[1]["tool_calls"][0]["function"]["arguments"] == ODD
    results = [("call_c", "a cat"), ("call_d", "Error: no")]
    assert [(one["tool_call_id"], one["content"]) for one in said[2:]] == results


def _end_of_messages(body):
    """Return where the array of messages would go on."""
    start = body.index('"messages":[') + len('"messages":')
    return json.JSONDecoder().raw_decode(body, start)[1] - 1
