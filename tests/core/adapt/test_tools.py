"""Tools and schemas that a server refuses: which are found, what is remembered, what is sent."""

import json
from itertools import product

import pytest

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.adapt.blaming import KIND
from cacheproxy.core.adapt.schemas import Level
from cacheproxy.core.adapt.tools import Tools
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request
from tests import transcript

CHAT, MESSAGES, RESPONSES, OLLAMA = (
    *("/v1/chat/completions", "/v1/messages"),
    *("/v1/responses", "/api/chat"),
)
PATHS = (CHAT, MESSAGES, RESPONSES, OLLAMA)
TOOLS = Tools()
GRAMMAR = Refusal(400, "Failed to initialize samplers: failed to parse grammar")
BAD = b'"minLength":5000'


def schema(*, name="a", **more):
    return {"type": "object", "properties": {name: {"type": "string", **more}}}


def tool(path, number, given):
    name = f"t{number}"
    if path == MESSAGES:
        return {"name": name, "description": "d", "input_schema": given}
    function = {"name": name, "description": "d", "parameters": given}
    if path == RESPONSES:
        return {"type": "function", **function}
    return {"type": "function", "function": function}


def asked(path, schemas, **more):
    tools = [tool(path, number, given) for number, given in enumerate(schemas)]
    said = [{"role": "user", "content": "x"}]
    items = "input" if path == RESPONSES else "messages"
    return request({"model": "m", "tools": tools, items: said, **more}, path)


def hunted(sent, refusal, refuses, need=None):
    """What is found of a server that ``refuses`` bodies, and by how many probes."""
    probes, answer, count = TOOLS.probes(refusal, sent, need), None, 0
    try:
        while True:
            probe = probes.send(answer)
            answer, count = (refusal if refuses(probe.body) else None), count + 1
            assert len(probe.body) < len(sent.body) + 100
    except StopIteration as end:
        return end.value, count


def never(_):
    raise AssertionError


def edited(sent, need):
    return apply(sent.document, TOOLS.edits(sent, need))


def refuses(body):
    return BAD in body.replace(b" ", b"")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bad", [(), (0,), (7,), (0, 1, 19), range(20)])
def test_those_at_fault_are_found_and_no_other_changes(path, bad):
    """The others have bounds as well, and one that is as large."""
    schemas = [
        schema(name=f"p{at}", **({"minLength": 5000} if at in bad else {"maxLength": 5000}))
        for at in range(20)
    ]
    sent = asked(path, schemas)
    need, count = hunted(sent, GRAMMAR, refuses)
    if not bad:
        assert (need, count) == (None, 3)
        return
    assert list(need.facts.values()) == [Level.BOUNDS] * len(bad)
    assert count <= 2 + 12 * len(bad)
    healed = edited(sent, need)
    assert not refuses(healed)
    before, after = sent.json["tools"], json.loads(healed)["tools"]
    assert [at for at in range(20) if before[at] != after[at]] == list(bad)
    # The next turn needs it at once, and the same bytes; a tool that leaves changes no other.
    again = TOOLS.needed(asked(path, schemas), need.facts)
    assert edited(sent, again) == healed
    fewer = request(sent.json | {"tools": before[1:]}, path)
    known = TOOLS.needed(fewer, need.facts)
    assert json.loads(edited(fewer, known) if known else fewer.body)["tools"] == after[1:]


@pytest.mark.parametrize(
    ("refusal", "level", "index"),
    [
        (Refusal(400, "Pattern must start with '^' and end with '$'"), Level.PATTERNS, 1),
        (Refusal(400, "JSON schema error at #/properties/c: enum must be"), Level.PLAIN, 2),
        (Refusal(400, "Invalid schema for function 't3': x"), Level.BOUNDS, 3),
        (Refusal(400, "tools.3.custom.input_schema: JSON schema is invalid"), Level.BOUNDS, 3),
        (Refusal(422, "bad grammar", path=("tools", 3, "function")), Level.BOUNDS, 3),
        (Refusal(400, "At least one of min_value or max_value must be set"), Level.BOUNDS, 3),
    ],
)
def test_words_that_tell_save_probes(refusal, level, index):
    schemas = [schema(), schema(pattern="a"), schema(name="c", enum=[]), schema(maxLength=9999)]
    sent = asked(CHAT, schemas)
    need, count = hunted(sent, refusal, never)
    assert (list(need.facts.values()), count) == ([level], 0)
    path = TOOLS.edits(sent, need)[0].path
    assert path.startswith(f"/tools/{index}/function/parameters/properties/")
    assert need == TOOLS.refused(refusal, sent, None)


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(400, "request (9 tokens) exceeds the available context size"),
        Refusal(500, "Failed to parse tool call arguments as JSON: x"),
        Refusal(400, ""),
    ],
)
@pytest.mark.parametrize("path", [*PATHS, "/v1/embeddings", "/x"])
def test_other_refusals_are_not_its_kind(refusal, path):
    sent = asked(path, [schema(minLength=5000, pattern="x")])
    assert TOOLS.refused(refusal, sent, None) is None
    assert hunted(sent, refusal, never) == (None, 0)


UNKNOWN = Refusal(
    500, 'Failed to parse tools: Unsupported tool type: {"type":"custom"}; tools = []'
)
CUSTOM = {"type": "custom", "custom": {"name": "apply"}}
SEARCH, NAMED = {"type": "web_search"}, {"type": "custom", "name": "apply"}
SERVER = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("path", "others", "choice", "refusal", "expected"),
    [
        (CHAT, [CUSTOM], CUSTOM, UNKNOWN, "auto"),
        (CHAT, [CUSTOM], "required", UNKNOWN, "required"),
        (CHAT, [CUSTOM], {"type": "function", "function": {"name": "t0"}}, UNKNOWN, None),
        (RESPONSES, [SEARCH, NAMED], {"type": "allowed_tools", "tools": [NAMED]}, None, "auto"),
        (RESPONSES, [SEARCH], SEARCH, None, "auto"),
        (RESPONSES, [{"type": "mcp"}, {"type": "namespace", "tools": []}], "auto", None, "auto"),
        (MESSAGES, [SERVER], {"type": "tool", "name": "web_search"}, None, {"type": "auto"}),
        (MESSAGES, [SERVER], {"type": "any"}, None, {"type": "any"}),
    ],
)
def test_kinds_that_it_does_not_know_are_left_out(path, others, choice, refusal, expected):
    sent = asked(path, [schema()])
    tools = sent.json["tools"]
    sent = request(sent.json | {"tools": [*others, *tools], "tool_choice": choice}, path)
    refusal = refusal or Refusal(400, "this tool type is not supported")
    need, count = hunted(sent, refusal, never)
    assert (need.facts, count) == ({(KIND, one["type"]): True for one in others}, 0)
    expected = choice if expected is None else expected
    assert json.loads(edited(sent, need)) == sent.json | {"tools": tools, "tool_choice": expected}
    alone = request(sent.json | {"tools": others}, path)
    assert (
        json.loads(edited(alone, TOOLS.needed(alone, need.facts)))
        .keys()
        .isdisjoint({"tools", "tool_choice"})
    )


ODD = (None, 3, "x", [], {}, {"a": 1}, [None, 3, "x", [], {}, {"function": 3}, {"type": 3}])


@pytest.mark.parametrize(("tools", "choice"), [*product(ODD, (None, 3, {}, {"allowed_tools": 3}))])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_odd_raises(tools, choice, path):
    sent = request({"tools": tools, "tool_choice": choice, "response_format": tools}, path)
    for refusal in (GRAMMAR, UNKNOWN):
        if need := TOOLS.refused(refusal, sent, None):
            edited(sent, need)
        hunted(sent, refusal, lambda _: False)


def test_all_that_is_said():
    transcript.holds("tools.txt", globals())
