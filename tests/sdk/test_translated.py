"""What the official SDKs say of scripted answers that were translated on their way.

In both directions, with Python and JavaScript: whole answers and streams, and what breaks off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.proxy.harness import Proxy

from . import chat_cases, messages_cases
from .speaking import ODD, Speaking
from .translated import SAID, chunks_said, javascript_in, python

pytest.importorskip("anthropic")
pytest.importorskip("openai")

LANGUAGES = ("python", "javascript")
SERVED = {"messages": chat_cases, "chat": messages_cases}
"""By the client's API: the cases of a server of the other one."""
PATHS = {"messages": "/v1/chat/completions", "chat": "/v1/messages"}
DIALECTS = {"messages": "openai", "chat": "anthropic"}
WHOLE = {api: module.CASES for api, module in SERVED.items()}
ASKED = {
    "messages": {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "stop_sequences": ["##"],
    },
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
}
TURNS = {
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_c", "content": "a cat"},
                {"type": "tool_result", "tool_use_id": "call_d", "content": "no", "is_error": True},
            ],
        }
    ],
    "chat": [
        {"role": "tool", "tool_call_id": "toolu_one", "content": "a cat"},
        {"role": "tool", "tool_call_id": "toolu_two", "content": "no"},
    ],
}
"""The results of the calls in ``TURNS`` of the cases."""


def _cases(api):
    module = SERVED[api]
    return module.CASES | module.BROKEN | module.ERRORS


@pytest.fixture(scope="module")
def speaking() -> Iterator[Speaking]:
    cases = {PATHS[api]: _cases(api) | {"turns": SERVED[api].TURNS} for api in SERVED}
    upstream = Speaking(cases)
    yield upstream
    upstream.close()
    assert not upstream.errors


@pytest.fixture(scope="module")
def translating(speaking, tmp_path_factory):
    """The proxies, by the API of their clients."""
    folder = tmp_path_factory.mktemp("translating")
    options = {api: ("--upstream", speaking.url, "--dialect", DIALECTS[api]) for api in SERVED}
    with (
        Proxy(folder, *options["messages"]) as messages,
        Proxy(folder, *options["chat"]) as chat,
    ):
        yield {"messages": messages, "chat": chat}
        for proxy in (messages, chat):
            assert "Traceback" not in proxy.output
            assert "critical: " not in proxy.output


@pytest.fixture(scope="module")
def asked(request, speaking, translating):
    """What a language's SDKs got, by (api, case, how); and what the upstream got in two turns."""
    known = {}

    def ask(language):
        if language not in known:
            function = python
            if language == "javascript":
                function = javascript_in(request.getfixturevalue("_packages"))
            jobs = {}
            for api in SERVED:
                for name, case in _cases(api).items():
                    for how in ("create", "events", "helper"):
                        if how == "create" and case.answer is None:
                            continue
                        body = ASKED[api] | {"model": name}
                        if api == "chat" and how != "create":
                            body["stream_options"] = {"include_usage": True}
                        job = {"url": translating[api].url, "api": api, "how": how, "body": body}
                        jobs[api, name, how] = job
            answers = dict(zip(jobs, function(list(jobs.values())), strict=True))
            bodies = {}
            for api in SERVED:
                speaking.bodies.clear()
                job = {"url": translating[api].url, "api": api, "how": "turns"}
                job |= {"body": ASKED[api] | {"model": "turns"}, "results": TURNS[api]}
                [answer] = function([job])
                bodies[api] = answer, speaking.bodies[PATHS[api], "turns"]
            known[language] = answers, bodies
        return known[language]

    return ask


def each(cases, *how):
    """Run a test for every language, API, case and way to ask."""
    places = [
        (language, api, name, one)
        for language in LANGUAGES
        for api in cases
        for name, case in cases[api].items()
        for one in how
        if one != "create" or case.answer is not None
    ]
    return pytest.mark.parametrize(
        ("language", "api", "name", "how"), places, ids=["-".join(place) for place in places]
    )


@each(WHOLE, "create", "helper")
def test_an_answer_says_what_the_server_said(asked, language, api, name, how):
    """At once, and as the SDK's own helper puts a stream together."""
    answer = asked(language)[0][api, name, how]
    expected = WHOLE[api][name].expected
    if _raises_by_itself(language, api, how, expected):
        assert answer["error"]["chain"][0].startswith(("LengthFinish", "ContentFilterFinish"))
        return
    said = SAID[api](answer["value"])
    if api == "chat" and how == "create":  # the text of the arguments is the server's own there
        said, expected = _with_values(said), _with_values(expected)
    if (language, api, how) == ("javascript", "chat", "helper"):
        # of a field that its types do not have it keeps the last piece
        said, expected = (one | {"thinking": bool(one["thinking"])} for one in (said, expected))
    assert said == expected


@each({"chat": WHOLE["chat"]}, "events")
def test_chunks_say_what_the_server_said(asked, language, api, name, how):
    """Arguments of calls byte for byte."""
    said = chunks_said(asked(language)[0][api, name, how]["value"])
    assert said == _cases(api)[name].expected


@each({api: module.BROKEN for api, module in SERVED.items()}, "events", "helper")
def test_a_stream_that_is_not_whole_raises(asked, language, api, name, how):
    """It never looks like an end; what the server said of it stands in the exception."""
    answer = asked(language)[0][api, name, how]
    assert "value" not in answer
    told = "\n".join(answer["error"]["chain"])
    raises = _cases(api)[name].raises
    if raises is not None:
        assert raises in told
    else:
        cut = "incomplete chunked read" if language == "python" else "other side closed"
        assert cut in told
    if how == "events" and "at-once" not in name:
        assert answer["events"], "what came before is there"


@each({api: module.BROKEN for api, module in SERVED.items()}, "create")
def test_an_answer_that_is_none_raises(asked, language, api, name, how):
    """A server error of the SDK's own, never an answer."""
    answer = asked(language)[0][api, name, how]
    assert "value" not in answer
    assert answer["error"]["status"] >= 500
    assert (_cases(api)[name].raises or "the server") in answer["error"]["chain"][0]


@each({api: module.ERRORS for api, module in SERVED.items()}, "create", "events", "helper")
def test_an_error_is_the_api_s_own(asked, language, api, name, how):
    """Status, type, words and Retry-After, in the SDK's exception."""
    error = asked(language)[0][api, name, how]["error"]
    expected = _cases(api)[name].expected
    assert (error["status"], error["after"]) == (expected["status"], expected["after"])
    inner = error["body"].get("error", error["body"])
    assert inner["type"] == expected["type"]
    assert expected["said"] in inner["message"]


@pytest.mark.parametrize("api", SERVED)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_second_turn_extends_the_first(asked, language, api):
    """Whatever the SDK makes of an answer: what goes up again begins as the first request did.

    The calls have the server's own ids, and the arguments its own text.
    """
    answer, bodies = asked(language)[1][api]
    assert "value" in answer
    first, second = (body.decode() for body in bodies)
    assert second.startswith(first[: _end_of_messages(first)])
    results = {
        "messages": [("call_c", "a cat"), ("call_d", "Error: no")],
        "chat": [("toolu_one", "a cat"), ("toolu_two", "no")],
    }[api]
    said = json.loads(second)["messages"]
    if api == "messages":
        assert said[1]["reasoning_content"] == "One or two?"
        assert [call["id"] for call in said[1]["tool_calls"]] == ["call_c", "call_d"]
        assert said[1]["tool_calls"][0]["function"]["arguments"] == ODD
        assert [(one["tool_call_id"], one["content"]) for one in said[2:]] == results
    else:
        assert [block.get("id") for block in said[1]["content"]] == [None, "toolu_one", "toolu_two"]
        assert f'"input":{ODD}' in second
        assert [(one["tool_use_id"], one["content"]) for one in said[2]["content"]] == results


def _raises_by_itself(language, api, how, expected):
    """Whether it is OpenAI's helper for Python, on an answer that was cut: it does so always."""
    cut = api == "chat" and expected["reason"] in ("length", "content_filter")
    return cut and (language, how) == ("python", "helper")


def _end_of_messages(body):
    """Return where the array of messages would go on."""
    start = body.index('"messages":[') + len('"messages":')
    return json.JSONDecoder().raw_decode(body, start)[1] - 1


def _with_values(said):
    return said | {"calls": [(name, json.loads(text)) for name, text in said["calls"]]}
