"""A real server that is asked until it takes a request, as adaptations heal it; what it refuses."""

from __future__ import annotations

import json
from collections import Counter

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.document.edits import apply
from cacheproxy.core.prompt.request import Request

from .replay import post

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
_RESENDS = 6
_RANDOM = "The model produced output that does not match"
"""What its random model said could not be parsed: the request itself was taken."""
_WORDS = {"type": "object", "properties": {"a": {"type": "string"}}}


class Server:
    """What is remembered of one server, and how often it was asked."""

    def __init__(self, url, *adaptations):
        self.url, self.adaptations = url, adaptations
        self.remembered = {each.name: {} for each in adaptations}
        self.count = Counter()

    def ask(self, request):
        """Return None where it takes the request, else the refusal."""
        status, answer = post(self.url, request.target, request.body)
        said = json.loads(answer)["error"] if status >= 400 else {"message": _RANDOM}
        if said["message"].startswith(_RANDOM):
            return None
        return Refusal(status, said["message"][: 8 << 10], said.get("type", ""))

    def edited(self, request, needs):
        """Return the request as it is sent with ``needs``."""
        for each in self.adaptations:
            if need := needs.get(each.name):
                edits = each.edits(request, need)
                assert edits == each.edits(request, need)
                body = apply(request.document, edits)
                request = Request(request.method, request.target, request.headers, body)
        return request

    def send(self, request):
        """Return the last refusal, or None, and the request as it was sent last."""
        needs = {
            each.name: each.needed(request, self.remembered[each.name]) for each in self.adaptations
        }
        for _ in range(_RESENDS + 1):
            sent = self.edited(request, needs)
            self.count["sent"] += 1
            refusal = self.ask(sent)
            if refusal is None:
                for name, need in needs.items():
                    self.remembered[name].update(need.facts if need else {})
                break
            for each in self.adaptations:
                need = self._found(each, refusal, request, needs[each.name])
                if need is not None and need != needs[each.name]:
                    needs[each.name] = need
                    break
            else:
                break
        return refusal, sent

    def _found(self, each, refusal, request, need):
        if not hasattr(each, "probes"):
            return each.refused(refusal, request, need)
        probes, answer = each.probes(refusal, request, need), None
        try:
            while True:
                probe = probes.send(answer)
                self.count["probes"] += 1
                answer = self.ask(probe)
        except StopIteration as end:
            return end.value


def asked(path, messages=(), schemas=(), **more):
    """Return a request with these messages, and tools with these schemas."""
    tools = [_tool(path, f"t{number}", schema) for number, schema in enumerate(schemas)]
    items, most = (
        ("input", "max_output_tokens") if path == RESPONSES else ("messages", "max_tokens")
    )
    said = list(messages) or [{"role": "user", "content": "hi"}]
    body = {"model": "m", "temperature": 0, most: 2, items: said, **more}
    if tools:
        body["tools"] = [*more.get("tools", ()), *tools]
    return Request("POST", path, (), json.dumps(body).encode())


def _tool(path, name, schema):
    if path == MESSAGES:
        return {"name": name, "input_schema": schema}
    function = {"name": name, "parameters": schema}
    if path == RESPONSES:
        return {"type": "function", **function}
    return {"type": "function", "function": function}


def _of(**member):
    return {"type": "object", "properties": {"a": member}}


SCHEMAS = {
    "a minimum of 5,000 letters": _of(type="string", minLength=5000),
    "an integer up to 1e308": _of(type="integer", maximum=1e308),
    "a reference to itself": _of(**{"$ref": "#"}),
    "a reference to nothing": _of(**{"$ref": "#/$defs/Nope"}),
    "a reference to another document": _of(**{"$ref": "https://example.com/x.json"}),
    "no properties": {"type": "object", "properties": None},
    "an empty enum": _of(type="string", enum=[]),
    "items that may be any": _of(type="array", items=True),
    "a member that may be any": {"type": "object", "properties": {"a": True}},
    "a type of no schema": _of(type="any"),
    "a type in capitals": _of(type="STRING"),
    "a list of types": _of(type=["string", "any"]),
    "an array of anything": _of(type="array"),
    "one of two types": _of(anyOf=[{"type": "string"}, {"type": "null"}]),
}
"""Schemas that llama.cpp refuses (xllamacpp 2026.10), the last two with some templates alone."""


def _says(role, content, **more):
    return {"role": role, "content": content, **more}


def _chat(arguments):
    function = {"name": "t0", "arguments": arguments}
    return _says(
        "assistant", "", tool_calls=[{"id": "c12345678", "type": "function", "function": function}]
    )


def _use(given):
    return _says(
        "assistant", [{"type": "tool_use", "id": "c12345678", "name": "t0", "input": given}]
    )


def _item(arguments):
    return {"type": "function_call", "call_id": "c12345678", "name": "t0", "arguments": arguments}


_HI, _GO, _A = _says("user", "hi"), _says("user", "go on"), _says("assistant", "a")
_RESULT = {"role": "tool", "tool_call_id": "c12345678", "content": "r"}
_BLOCK = _says("user", [{"type": "tool_result", "tool_use_id": "c12345678", "content": "r"}])
_OUTPUT = {"type": "function_call_output", "call_id": "c12345678", "output": "r"}
HISTORIES = {
    "arguments cut off": (CHAT, [_HI, _chat('{"p": "a'), _RESULT]),
    "arguments cut off, before more": (CHAT, [_HI, _chat('{"p": "a'), _RESULT, _A, _GO]),
    "no arguments": (CHAT, [_HI, _chat(""), _RESULT]),
    "arguments in prose": (CHAT, [_HI, _chat("ls -l"), _RESULT]),
    "arguments twice": (CHAT, [_HI, _chat("{}{}"), _RESULT]),
    "arguments with a line break": (CHAT, [_HI, _chat('{"a":"x\ny"}'), _RESULT]),
    "arguments, a list": (CHAT, [_HI, _chat("[1]"), _RESULT]),
    "arguments, a text": (CHAT, [_HI, _chat('"x"'), _RESULT]),
    "item with arguments cut off": (RESPONSES, [_HI, _item('{"p'), _OUTPUT]),
    "item without arguments": (RESPONSES, [_HI, _item(None), _OUTPUT]),
    "input, a list": (MESSAGES, [_HI, _use([1]), _BLOCK]),
    "input, a text": (MESSAGES, [_HI, _use("x"), _BLOCK]),
    "no input": (MESSAGES, [_HI, _use(None), _BLOCK]),
    "a call at the end": (CHAT, [_HI, _chat("{}")]),
    "a call without a result": (CHAT, [_HI, _chat("{}"), _GO]),
    "a use without a result": (MESSAGES, [_HI, _use({}), _GO]),
    "an item without an output": (RESPONSES, [_HI, _item("{}"), _GO]),
    "a message behind a result": (CHAT, [_HI, _chat("{}"), _RESULT, _GO]),
    "a result without a call": (CHAT, [_HI, _A, _RESULT]),
    "a block without a use": (MESSAGES, [_HI, _A, _BLOCK]),
    "an output without an item": (RESPONSES, [_HI, _A | {"type": "message"}, _OUTPUT]),
    "two answers at the end": (CHAT, [_HI, _A, _A]),
    "two answers at the end of Messages": (MESSAGES, [_HI, _A, _A]),
    "two answers": (CHAT, [_HI, _A, _A, _GO]),
    "an answer without content": (CHAT, [_HI, {"role": "assistant"}, _GO]),
    "an answer of reasoning": (CHAT, [_HI, {"role": "assistant", "reasoning_content": "r"}, _GO]),
    "an empty answer": (MESSAGES, [_HI, _says("assistant", []), _GO]),
    "a result without content": (CHAT, [_HI, _chat("{}"), _RESULT | {"content": 3}]),
    "an output without content": (RESPONSES, [_HI, _item("{}"), _OUTPUT | {"output": None}]),
    "an answer that is no item": (RESPONSES, [_HI, _says("assistant", [])]),
}
"""Histories that llama.cpp refuses with some template or any: the API, and the messages."""

_FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMAS["no properties"]}}
_ANY_FORM = {"type": "json_object"}
_CUSTOM = {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "text"}}}
OTHERS = {
    "a tool of another kind": asked(CHAT, (), [_WORDS], tools=[_CUSTOM], tool_choice=_CUSTOM),
    "no tool but of another kind": asked(CHAT, tools=[_CUSTOM], tool_choice="auto"),
    "an answer of a form": asked(CHAT, response_format=_FORM),
    "an answer of some form, and tools": asked(CHAT, (), [_WORDS], response_format=_ANY_FORM),
}
SHAPES = {
    **{name: asked(path, said, [_WORDS]) for name, (path, said) in HISTORIES.items()},
    **{
        f"{name}, {path}": asked(path, (), [_WORDS, schema])
        for name, schema in SCHEMAS.items()
        for path in (CHAT, MESSAGES, RESPONSES)
    },
    **OTHERS,
}
"""Requests that end a conversation."""
