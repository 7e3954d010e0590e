"""Bodies with a late system message, sent to a proxy."""

import json

from .templated import PAGE, PATHS, TOKENIZE, renders

WRAPPED = "<system-reminder>\nnews\n</system-reminder>"
LLAMA = {PAGE: renders}
MOST_QUESTIONS = 16
PAGES = [PAGE, TOKENIZE]


WITHOUT = {"model": "m", "system": "x", "messages": [{"role": "user", "content": "hi"}]}
"""A body without late messages."""

of_this_test = {"model": "m"}


def late(api="messages", model=None, **more):
    """A body with a late system message."""
    model = model or of_this_test["model"]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "and?"},
        {"role": "system", "content": "news"},
    ]
    if api == "messages":
        return {"model": model, "max_tokens": 9, "system": "head", "messages": messages} | more
    if api == "responses":
        return {"model": model, "instructions": "head", "input": messages} | more
    system = {"role": "system", "content": "head"}
    return {"model": model, "messages": [system, *messages]} | more


def spoken(body):
    return [m["role"] for m in body.get("messages") or body["input"]][-1]


def ask(proxy, body=None, api="messages", *fields, path=None):
    body = late(api) if body is None else body
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return proxy.ask(path or PATHS[api], data, *fields)
