"""What the chat templates of vendors do with late system messages, each in a few lines."""

import json
from itertools import pairwise


class RefusedError(Exception):
    """A template that raises."""


def chatml(messages, tools=None, *, role_of=lambda message: message["role"]):
    lines = [f"<|{role_of(m)}|>{m['content']}<|end|>" for m in messages]
    return json.dumps(tools) + "".join(lines)


def is_late(number, message):
    return number > 0 and message["role"] in ("system", "developer")


def inline(messages, tools=None):
    return chatml(messages, tools)


def as_user(messages, tools=None):
    roles = {"system": "user", "developer": "user"}
    return chatml(messages[:1]) + chatml(
        messages[1:], tools, role_of=lambda m: roles.get(m["role"], m["role"])
    )


def hoist(messages, tools=None):
    head = [m for m in messages if m["role"] in ("system", "developer")]
    text = "\n\n".join(m["content"] for m in head)
    rest = [m for m in messages if m not in head]
    return chatml([{"role": "system", "content": text}, *rest], tools)


def drop(messages, tools=None):
    return chatml([m for n, m in enumerate(messages) if not is_late(n, m)], tools)


def strict(messages, tools=None):
    if any(is_late(n, m) for n, m in enumerate(messages)):
        raise RefusedError
    return chatml(messages, tools)


def turns(messages, tools=None):
    """As Mistral's: users and the assistant in turns, the system text in the last user message."""
    body = strict(messages, tools) and [m for m in messages[1:] if not m.get("tool_calls")]
    spoken = ["user" if m["role"] in ("user", "tool") else "assistant" for m in body]
    if body[1:] and body[1]["role"] == "tool":
        spoken = spoken[1:]
    if any(one == other for one, other in pairwise(spoken)):
        raise RefusedError
    return chatml([*messages[1:-1], messages[0], messages[-1]], tools)


def _tool_message(message):
    return "".join(json.dumps(call["function"]) for call in message.get("tool_calls", ()))


def thinking(messages, tools=None, *, keeps=lambda late, kwargs: late, empty=False, **kwargs):
    """System text first; reasoning where ``keeps`` says so: ``late``: behind the last user's."""
    last = max((n for n, m in enumerate(messages) if m["role"] == "user"), default=-1)
    lines = []
    for number, message in enumerate(messages):
        thought = message.get("reasoning_content", "")
        shown = message["role"] == "assistant" and keeps(number > last, kwargs)
        block = f"<think>{thought}</think>" if shown and (thought or empty) else ""
        lines.append(f"<|{message['role']}|>{block}{message['content']}{_tool_message(message)}")
        if number == 0:
            lines.append(json.dumps(tools))
    return "\n".join(lines)


def tools_last(messages, tools=None, **_):
    """As Mistral Small 3.2's: the tools stand before the last user message."""
    last = max(number for number, message in enumerate(messages) if message["role"] == "user")
    return chatml(messages[:last])[len("null") :] + chatml(messages[last:], tools)


def asked(asking, template, page="/apply-template"):
    """What ``asking`` makes of a server with this template, and how often it asked."""
    body = next(asking)
    for count in range(1, 100):
        question = json.loads(body)
        kwargs = question.get("chat_template_kwargs", {})
        try:
            text = template(question["messages"], question.get("tools"), **kwargs)
        except RefusedError:
            found = 400, b"{}"
        else:
            told = {"prompt": text} if page == "/apply-template" else {"token_strs": list(text)}
            found = 200, json.dumps(told).encode()
        try:
            body = asking.send(found)
        except StopIteration as end:
            return end.value, count
    raise AssertionError("it asks for ever")
