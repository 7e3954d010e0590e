"""Turns and facts for the tests of routes."""

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.testing import request

TOOL = {"name": "ls", "description": "lists", "input_schema": {"type": "object"}}


def found(body, session=None, path="/v1/messages", headers=None, store=None):
    """The request, and the turn that it is of ``session``."""
    asked = request({"model": "m", "max_tokens": 9, **body}, path, headers)
    return asked, (store or Store()).find(session or Session("claude", "s"), asked)


def asking(text="hello", *, tools=True, system="You help.", answers=()):
    """A request's body: what a user asks, and each of ``answers`` with another question."""
    messages = [{"role": "user", "content": text}]
    for answer in answers:
        messages += [
            {"role": "assistant", "content": answer},
            {"role": "user", "content": "go on"},
        ]
    return {"system": system, "messages": messages} | ({"tools": [TOOL]} if tools else {})
