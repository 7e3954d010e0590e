"""Whose request it is: told by marks that the client itself writes, at its own place."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.client import (
    Client,
    ClientError,
    Clients,
    client_of,
    is_shared,
    lines_outside_code,
)
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule
from cacheproxy.testing import from_another, request
from tests.core.document.test_search import LATE

HEAD = "You are Example, made by us."
LINE = "Example-Run: {} (agent)"
EXAMPLE = Client(
    "example",
    agents=("ExampleAgent/",),
    headers=("X-Example-Session",),
    head=("You are Example, made",),
    lines=(r"Example-Run: [0-9a-f]+ \(agent\)",),
)
PLACES = {
    "messages": ("/v1/messages", lambda text: {"system": text}),
    "messages blocks": (
        "/v1/messages",
        lambda text: {"system": [{"type": "text", "text": part} for part in ("", text, "b")]},
    ),
    "chat": (
        "/v1/chat/completions",
        lambda text: {"messages": [{"role": "system", "content": text}]},
    ),
    "chat blocks": (
        "/v1/chat/completions",
        lambda text: {
            "messages": [{"role": "developer", "content": [{"type": "text", "text": text}]}]
        },
    ),
    "instructions": ("/v1/responses", lambda text: {"instructions": text, "input": "hi"}),
    "input": (
        "/v1/responses",
        lambda text: {
            "input": [{"role": "system", "content": [{"type": "input_text", "text": text}]}]
        },
    ),
    "ollama": ("/api/chat", lambda text: {"messages": [{"role": "system", "content": text}]}),
}
each_place = pytest.mark.parametrize("place", PLACES)


def said(place: str, text: str, **headers: str) -> Request:
    path, body = PLACES[place]
    return request(body(text), path, {key.replace("_", "-"): it for key, it in headers.items()})


@pytest.mark.parametrize(
    ("agent", "client"),
    [
        ("claude-cli/2.1.329 (external, cli)", "claude-cli"),
        ("OpenAI/JS 7.15.0", "openai-sdk"),
        ("AsyncOpenAI/Python 2.20.0", "openai-sdk"),
        ("Anthropic/Python 1.0", "anthropic-sdk"),
        ("MyThing/1", "mything"),
        ("x" * 500, "x" * 20),
        *((none, "client") for none in ("", "  ", "/1.0", "\xff\xfe")),
    ],
)
def test_a_user_agent_names_a_client_or_a_library(agent, client):
    """Else its product is the name."""
    assert client_of(request({}, headers={"User-Agent": agent})) == client


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"User-Agent": "ExampleAgent/1"}, True),
        ({"User-Agent": "exampleagent/2 (x)"}, True),
        ({"User-Agent": "Example/1"}, True),
        ({"User-Agent": "Other ExampleAgent/1"}, False),
        ({"User-Agent": "OpenAI/JS 7"}, False),
        ({"x-example-session": ""}, True),
        ({"User-Agent": "codex/1", "X-Example-Session": "9"}, True),
        ({}, False),
    ],
)
def test_user_agent_and_headers_tell_without_the_body(headers, wanted):
    """Whatever the body is."""
    asked = request(b"no json", headers=headers)
    assert EXAMPLE.sent(asked) is wanted
    if wanted:
        assert not asked.is_read


@each_place
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HEAD, True),
        (f" \n{HEAD}", True),
        (f"Hello. {HEAD}", False),
        (f"Hello.\n{HEAD}", False),
        (LINE.format("7f"), True),
        (f"Hello.\n{LINE.format('7f')}\nMore.", True),
        (f"Hello.\n{LINE.format('not hex')}\n{LINE.format('7f')}", True),
        (f"Hello. {LINE.format('7f')}", False),
        (f" {LINE.format('7f')}", False),
        (LINE.format("not hex"), False),
        (f"```\n{LINE.format('7f')}\n```\n", False),
        (f"```\n{LINE.format('7f')}\n```\n{LINE.format('7f')}", True),
        (f"~~~~\n{LINE.format('7f')}\n", False),
    ],
)
def test_the_head_and_lines_of_system_text_tell(place, text, wanted):
    """In every dialect, as a string or in blocks; a line not in a code block or within a line."""
    assert EXAMPLE.sent(said(place, text)) is wanted
    assert EXAMPLE.sent(said(place, text, user_agent="OpenAI/JS 7.15.0")) is wanted
    assert EXAMPLE.sent(said(place, text, user_agent="litellm/1.80")) is wanted
    # One that names another client is the end of it: the text may quote whatever files hold.
    assert not EXAMPLE.sent(from_another(said(place, text)))


@pytest.mark.parametrize("text", [HEAD, LINE.format("7f")])
def test_nothing_that_a_user_or_a_tool_wrote_tells(text):
    """Nor what comes late, nor tools, nor text on a path that we do not know."""
    user = {"role": "user", "content": text}
    late = {"role": "system", "content": text}
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "1", "content": text}],
    }
    for body in (
        {"messages": [user]},
        {"messages": [user, late]},
        {"messages": [{"role": "assistant", "content": text}, late]},
        {"messages": [result, late]},
        {"messages": ["x", late]},
        {"system": "Be kind.", "messages": [user, late]},
        {"system": {"text": text}, "messages": {"0": late}},
        {"system": [{"type": "image", "text": text}, {"type": "text", "text": 5}, None]},
        {"input": text},
        {"input": [user, late]},
        {"tools": [{"name": "t", "description": text}]},
    ):
        for path, _ in PLACES.values():
            assert not EXAMPLE.sent(request(body, path)), (body, path)
    assert not EXAMPLE.sent(request({"system": text}, "/v1/embeddings"))
    assert not EXAMPLE.sent(request("[" * 200_000, "/v1/messages"))


def test_a_name_alone_is_told_by_the_user_agent():
    """As a rule of the config file names a client that no package declares."""
    assert Client("codex").sent(request({}, headers={"User-Agent": "codex/0.169"}))
    assert Client("mything").sent(request({}, headers={"User-Agent": "MyThing/1"}))
    assert Client("client").sent(request({}))
    assert not Client("codex").sent(request({"system": "You are Codex"}))


def test_the_star_is_every_client():
    """It has no marks."""
    assert Client("*").sent(request("no json"))
    with pytest.raises(ClientError, match="may have no marks"):
        Client("*", agents=("x/",))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "Claude"}, "lower-case word"),
        ({"name": ""}, "lower-case word"),
        ({"name": "a b"}, "lower-case word"),
        ({"name": "x" * 21}, "lower-case word"),
        ({"name": 5}, "lower-case word"),
        ({"agents": "x/"}, "tuples of texts"),
        ({"headers": ("",)}, "tuples of texts"),
        ({"head": (5,)}, "tuples of texts"),
        ({"advice": ("tools_changed", "x")}, "rows of three texts"),
        ({"advice": [("tools_changed", "x", "y")]}, "rows of three texts"),
        ({"advice": (("tools_changed", "x", 5),)}, "rows of three texts"),
        ({"lines": ("Runtime( x",)}, "8 or more plain"),
        ({"lines": (r"\AYou are Example",)}, "8 or more plain"),
        ({"lines": ("Runtimes?: x",)}, "8 or more plain"),
        ({"lines": ("Runtime: (x",)}, "bad pattern"),
    ],
)
def test_what_cannot_be_told_is_refused(arguments, words):
    """At once, with the client's name."""
    with pytest.raises(ClientError, match=words):
        Client(**{"name": "example", **arguments})


def test_the_user_agent_names_a_session_before_what_is_declared_does():
    """A gateway's user agent gives way to a declared client; another client's does not."""
    known = Client("known", agents=("codex",))
    clients = Clients([Client("*"), Client("other", headers=("x-other",)), EXAMPLE, known])

    def name(text, **headers):
        return clients.name_of(clients.introduce(said("chat", text, **headers)))

    assert name(HEAD, user_agent="litellm/1.80") == "example"
    assert name(HEAD, x_other="1") == "other"
    assert name(HEAD, user_agent="codex/1") == "known"
    assert name(HEAD, user_agent="Example/1") == "example"
    assert name("Hello.", user_agent="litellm/1.80") == "litellm"


def test_a_librarys_name_is_nobodys_word():
    """A package may call its client so: others speak through that library, too."""
    clients = Clients([EXAMPLE, Client("openai-sdk")])
    for text, name in ((HEAD, "example"), ("Hello.", "openai-sdk")):
        asked = clients.introduce(said("chat", text, user_agent="OpenAI/JS 7.15.0"))
        assert (asked.speaker, clients.name_of(asked)) == ("", name)


def test_it_stays_so_whatever_is_edited():
    """A rule that takes the client's own mark away does not make the request another's."""
    rules = [
        Rule("drop", "system-head", r"\AYou are Example, made", "Hi", client=EXAMPLE),
        Rule("digits", "user", r"\d+", "0", client=EXAMPLE),
        CodeRule("note", "", quick(lambda *_: [Edit("/note", "x", "")]), client=EXAMPLE),
        Rule("others", "user", "a", "b", client=Client("codex")),
    ]
    body = {"system": HEAD, "messages": [{"role": "user", "content": "a 17"}], "note": "y"}
    done = normalize(request(body), rules).request
    wanted = {"system": "Hi by us.", "messages": [{"role": "user", "content": "a 0"}], "note": "x"}
    assert json.loads(done.body) == wanted


def test_a_rule_of_another_client_is_not_asked_and_costs_no_reading():
    """Where the user agent decides, nothing is read; code of others is not called."""

    def fail(*_):
        raise AssertionError

    rules = [
        CodeRule("code", "", fail, client=EXAMPLE),
        Rule("table", "user", "a", "b", client=EXAMPLE),
    ]
    body = {"system": HEAD, "messages": [{"role": "user", "content": "a"}]}
    codex, plain = from_another(request(body, headers={"User-Agent": "codex/1"})), request(body)
    assert normalize(codex, rules) == (codex, ())
    rule = Rule("literal", "user", "a", "b", literals=("nowhere",), client=EXAMPLE)
    assert normalize(plain, [rule]) == (plain, ())
    assert not codex.is_read


def test_text_made_to_look_almost_right_comes_to_an_end():
    """Each line is looked at once; looked at again for each other line it would take hours."""
    line = LINE.format("7f")
    for text in (
        "Example-Run: 7f \n" * 50_000,
        f"```\n{line}\n```\n" * 50_000,
        "Example-Run: " * 100_000,
        "```\n" * 100_000,
    ):
        assert not EXAMPLE.sent(said("messages", text))


def test_a_line_that_takes_too_long_is_looked_for_no_more():
    """The request is not told by it; the next one does not wait for it again."""
    pattern, text = LATE
    client = Client("late", lines=(f"Runtime: {pattern}",))
    one, other = (Request("POST", "/v1/messages", (), asked) for asked in map(_asking, (text, "x")))
    assert not client.sent(one)
    assert client.late == pytest.approx(0.1, abs=0.01)
    assert not client.sent(other)


def _asking(text):
    return json.dumps({"system": f"Runtime: {text}", "messages": []}).encode()


@each_place
@pytest.mark.parametrize("name", ["ls", "*"])
def test_a_librarys_name_may_not_be_enough(place, name):
    """Then its system text has to begin so, too; and no other client's."""
    bound = Client(name, must_begin=HEAD)
    assert bound.sent(said(place, f"{HEAD}\nMore.", user_agent="ls/JS 5.23.2"))
    assert not bound.sent(said(place, f"No. {HEAD}", user_agent="ls/JS 5.23.2"))
    other = from_another(said(place, HEAD))
    assert bound.sent(other) == (name == "*")


@pytest.mark.parametrize(
    ("agent", "is_librarys"),
    [
        ("AsyncOpenAI/Python 2.11.0", True),
        ("ls/JS 5.23.2", True),
        ("$t/JS 1.0", True),
        ("python-httpx/0.28.1", True),
        ("Go-http-client/2.0", True),
        ("claude-cli/2.1.329 (external, cli)", False),
        ("Kilo-Code/7.7.9 ai-sdk/provider-utils/4.0.27 runtime/bun/1.3.14", False),
        ("omp/18.2.3", False),
        ("", False),
    ],
)
def test_a_user_agent_may_be_that_of_a_library(agent, is_librarys):
    """Which any program may use."""
    assert is_shared(said("chat", "", user_agent=agent)) == is_librarys


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("X", False),
        ("a\nX\nb", False),
        ("```\nX\n```", True),
        ("```json\nX\n```", True),
        ("```\na\n```\nX", False),
        ("```\na\n```\n```\nX", True),
        ("~~~ `a`\nX", True),
        ("   ```\nX", True),
        ("    ```\nX", False),
        ("a ```\nX", False),
        ("``\nX", False),
        ("``` a`b\nX", False),
        ("````\n```\nX\n```\n````", True),
        ("```\na\n````\nX", False),
        ("```\na\n~~~\nX", True),
        ("```\na\n``` b\nX", True),
        ("```\na\n```  \nX", False),
        ("```\r\na\r\n```\r\nX", False),
        ("```\r\nX\r\n```", True),
    ],
)
def test_a_line_is_in_code_between_a_fence_and_the_one_that_closes_it(text, wanted):
    """Of the same character, as long or longer, with nothing behind it; else up to the end."""
    found = list(lines_outside_code(text, "X"))
    assert found == ([] if wanted else [text.index("X")])


def test_every_line_that_begins_so_is_found():
    """Not what stands within a line, nor what is in any of the blocks."""
    text = "X 1\naX\n```\nX\nX\n```\nX 2\n~~~\nX\n~~~\n\nX 3\n```\nX"
    starts = list(lines_outside_code(text, "X"))
    assert [text[at : at + 3] for at in starts] == ["X 1", "X 2", "X 3"]
    assert list(lines_outside_code(text, "Y")) == []
    assert list(lines_outside_code("", "Y")) == []
