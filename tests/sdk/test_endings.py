"""What the official SDKs show through the proxy, however the upstream's answer ends."""

import itertools
import json

import pytest

from cacheproxy.core.dialects.dialects import spoken
from cacheproxy.core.dialects.stream import COMMENT
from tests.proxy.harness import Client, eventually

from .scripted import OVERLOADED, STREAMS, TEXTS, written

LANGUAGES = ("python", "javascript")
APIS = ("messages", "chat", "responses")
PATHS = dict(zip(APIS, STREAMS, strict=True))
HOW = ("events", "helper")
BEHAVIOURS = {
    "direct": ("ok", "ends"),
    "proxy": ("ok", "pauses", "dies", "ends", "unframed", "cut", "overloaded", "hangs_up"),
}
RETRIES = 2
"""As both SDKs have it when nobody says otherwise."""


def is_sign(event):
    """Whether ``event`` only says that the server is alive."""
    if event.get("type") == "keepalive":
        return True
    return event.get("object") == "chat.completion.chunk" and not any(
        choice["finish_reason"] or any(choice["delta"].values()) for choice in event["choices"]
    )


def without_signs(answer):
    """``answer`` without what the proxy put between the events of a stream."""
    return {
        name: [event for event in value if not is_sign(event)] if isinstance(value, list) else value
        for name, value in answer.items()
    }


each = pytest.mark.parametrize(
    ("language", "api", "how"),
    list(itertools.product(LANGUAGES, APIS, HOW)),
    ids=lambda value: value,
)


@pytest.fixture(scope="session")
def answers(request, upstream, proxy):
    """What a language's SDKs got, ``(where, api, how, behaviour)``, and the requests it took.

    All are asked at once, first without the proxy, then with it.
    """
    known = {}

    def ask(language):
        if language not in known:
            ask = request.getfixturevalue(language)
            known[language] = {}
            for where, url in (("direct", upstream.url), ("proxy", proxy.url)):
                cases = list(itertools.product(APIS, HOW, BEHAVIOURS[where]))
                names = [f"{case[2]}-{'.'.join((where, language, *case[:2]))}" for case in cases]
                jobs = [
                    {"api": case[0], "how": case[1], "model": name, "retries": RETRIES}
                    for case, name in zip(cases, names, strict=True)
                ]
                for case, name, answer in zip(cases, names, ask(url, jobs), strict=True):
                    plain = json.loads(json.dumps(answer).replace(name, "m"))
                    known[language][where, *case] = without_signs(plain), upstream.asked[name]
        return known[language]

    return ask


@each
@pytest.mark.parametrize("behaviour", ["ok", "pauses", "unframed", "ends"])
def test_a_stream_is_the_same_without_and_with_the_proxy(answers, language, api, how, behaviour):
    """Event by event, and as the SDK puts it together; asked for once.

    Signs of life at every place change nothing; nor does an end that is the connection's, as
    servers of HTTP/1.0 send it (mlx-lm). Of a clean end that comes too early the proxy makes
    neither more nor less than the SDK does by itself.
    """
    found, alike = answers(language), "ends" if behaviour == "ends" else "ok"
    through, asked = found["proxy", api, how, behaviour]
    assert through == found["direct", api, how, alike][0]
    assert asked == 1
    if alike == "ok":
        texts = TEXTS if how == "events" else ["".join(TEXTS)]
        assert all(text in json.dumps(through, ensure_ascii=False) for text in texts)


@pytest.mark.parametrize("api", APIS)
def test_there_are_pings_at_every_place(upstream, proxy, api):
    """Before the first event, between two, and between the last and the end."""
    dialect, first = spoken(PATHS[api]), b""
    ping = COMMENT if dialect.sign_waits else dialect.sign(first)
    events = STREAMS[PATHS[api]]("steps")
    with Client(proxy.address) as client:
        pieces = client.pieces(client.ask(PATHS[api], b'{"model":"steps"}').begin())
        for event in events:
            assert next(pieces) == ping
            upstream.step.release()
            while (piece := next(pieces)) == ping:
                pass
            assert piece == written(event)
            first = first or piece
            ping = dialect.sign(first)
        assert next(pieces) == ping
        upstream.step.release()
        assert set(pieces) <= {ping}


@each
@pytest.mark.parametrize("behaviour", ["dies", "cut"])
def test_a_stream_that_breaks_off_raises(answers, language, api, how, behaviour):
    """It never looks like an end, what came before is there, and nobody asks again.

    Where its end is the connection's, nobody could tell without the proxy: the SDKs then return a
    part for the whole.
    """
    answer, asked = answers(language)["proxy", api, how, behaviour]
    assert answer["error"]["status"] is None
    told = "\n".join(answer["error"]["chain"])
    assert ("incomplete chunked read" if language == "python" else "other side closed") in told
    assert len(answer["events"]) == (4 if how == "events" else 0)
    assert asked == 1


@each
def test_a_busy_upstream_is_asked_again_by_the_sdk_alone(answers, language, api, how):
    """Status, Retry-After and body arrive; the proxy adds no request to those of the SDK."""
    answer, asked = answers(language)["proxy", api, how, "overloaded"]
    error = answer["error"]
    assert (error["status"], error["after"]) == (529, "0.1")
    assert error["body"] in (OVERLOADED, OVERLOADED["error"])  # openai's shows the inner one
    assert asked == RETRIES + 1


@each
def test_an_upstream_that_hangs_up_is_asked_again_by_the_sdk_alone(answers, language, api, how):
    """Our sentence stands in the SDK's exception; again, no request is the proxy's own."""
    answer, asked = answers(language)["proxy", api, how, "hangs_up"]
    assert answer["error"]["status"] == 502
    assert "cacheproxy: the upstream closed the connection before" in answer["error"]["chain"][0]
    assert asked == RETRIES + 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_leaving_within_a_stream_closes_the_upstream(request, upstream, proxy, language):
    """However the SDK does it."""
    names = {api: f"endless-{language}.{api}" for api in APIS}
    jobs = [{"api": api, "how": "leave", "model": name} for api, name in names.items()]
    answers = request.getfixturevalue(language)(proxy.url, jobs)
    assert [len(answer["value"]) for answer in answers] == [2] * len(APIS)
    eventually(lambda: upstream.left >= set(names.values()))
    assert all(upstream.asked[name] == 1 for name in names.values())
