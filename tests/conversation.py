"""A short conversation whose system text has another nonce in every request, in each dialect."""

import json
from dataclasses import replace

from cacheproxy_replay.estimate import assess
from cacheproxy_replay.plan import plan
from cacheproxy_replay.run import placed
from cacheproxy_replay.server import Everything

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.prompt import PromptOrder
from tests.record.recorded import recorded

WORDS = "the quick brown fox jumps over a lazy dog while seven wizards mix strong potions"
SECRET = "Zanzibar"
"""Stands in every prompt, and may stand in no report."""

RULE = '[[rule]]\nname = "nonce"\nwhere = "system-head"\npattern = "nonce-[0-9a-f]+"\n'
RULE += 'replacement = "nonce-0"\nwhy = "nonce made constant"\n'


def system(number):
    return f"nonce-{number:04x}{number * 7919:04x}\nYou are {SECRET}. " + f"{WORDS}. " * 30


def tools(dialect):
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    function = {"name": "read", "description": f"Reads a file. {WORDS}"}
    if dialect == "messages":
        return [{**function, "input_schema": schema}]
    function["parameters"] = schema
    if dialect == "responses":
        return [{"type": "function", **function}]
    return [{"type": "function", "function": function}]


def messages(number):
    said = []
    for turn in range(1, number + 1):
        said.append({"role": "user", "content": f"Question {turn}: {WORDS}?"})
        said.append({"role": "assistant", "content": f"Answer {turn}, {WORDS}."})
    return said[:-1]


def body(dialect, number):
    common = {"model": "recorded", "stream": True, "tools": tools(dialect)}
    if dialect == "messages":
        return common | {
            "max_tokens": 32000,
            "system": system(number),
            "messages": messages(number),
        }
    if dialect == "responses":
        items = [{"type": "message", **message} for message in messages(number)]
        return common | {"instructions": system(number), "input": items}
    first = {"role": "system", "content": system(number)}
    return common | {"messages": [first, *messages(number)], "temperature": 0.0}


PATHS = {
    "messages": "/v1/messages?beta=true",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
}


def captured(dialect="chat", turns=4):
    return [
        recorded(
            "POST",
            PATHS[dialect],
            ((b"User-Agent", b"agent/1.0"), (b"X-Session-Id", b"5e55-10n")),
            json.dumps(body(dialect, number)).encode(),
        )
        for number in range(1, turns + 1)
    ]


def lines(dialect="chat", turns=4):
    """The same as a capture file's lines, in the plainest form."""
    return [
        json.dumps(
            {
                "method": one.received.method,
                "path": one.received.target,
                "headers": {name.decode(): value.decode() for name, value in one.received.headers},
                "body": one.received.body.decode(),
                "t": number,
            }
        )
        for number, one in enumerate(captured(dialect, turns))
    ]


def text():
    """What a model will read, to learn its vocabulary from."""
    return json.dumps(body("chat", 4)) + "\n" + system(3)


def turns(rules, usages, *, through):
    """Turns as if they had been answered: what the estimate makes of them is what counts."""
    planned = plan(captured(turns=len(usages)))
    made = []
    for item, usage in zip(placed(planned, rules), usages, strict=True):
        sent = item.received
        if through:
            text = sent.body.decode()
            sent = sent.with_text(text.replace(text[text.index("nonce-") :][:14], "nonce-0"))
        told = {"status": 200, "usage": Usage(*usage), "first_byte": 0.5, "seconds": 1.0}
        made.append(replace(item, sent=sent, **told))
    return made


def assessed(passed):
    """What is made of them where no server lends its tokenizer."""
    return assess(passed, None, Everything(), PromptOrder.SYSTEM_FIRST, lambda *_: None)
