"""What a server does with late system messages, as the proxy finds it, and what that costs.

    python benchmarks/placement.py --upstream URL [--api messages|chat|responses] [--turns 4]

Holds one conversation whose every turn ends with a late system message, directly and through a
proxy of its own, and prints statuses, prompt tokens evaluated, and what the proxy learned. For
servers that the tests do not start: mlx-lm, vLLM, gateways. The model is the first that the server
lists.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from cacheproxy.child.process import ChildProxy
from cacheproxy.core.conversation.usage import usage_of

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
TEXT = " ".join(f"item {number} is in its place" for number in range(120))
SECONDS = 300.0
Json = dict[str, Any]


def bodies(api: str, model: str, turns: int) -> Iterator[Json]:
    nonce = os.urandom(6).hex()
    head = f"{nonce}: you are a helper. {TEXT}"
    messages: list[Json] = []
    for number in range(turns):
        messages.append({"role": "user", "content": f"{TEXT} Question {number}?"})
        messages.append({"role": "system", "content": f"{1000 - number} tokens are left"})
        if api == "messages":
            yield {"model": model, "max_tokens": 1, "system": head, "messages": messages}
        elif api == "chat":
            every = [{"role": "system", "content": head}, *messages]
            yield {"model": model, "max_tokens": 1, "messages": every}
        else:
            yield {"model": model, "max_output_tokens": 1, "instructions": head, "input": messages}
        said: Json = {"role": "assistant", "content": "ok"}
        if api == "responses":
            text = {"type": "output_text", "text": "ok", "annotations": []}
            said |= {"type": "message", "id": "m", "status": "completed", "content": [text]}
        messages.append(said)


def ask(url: str, body: Json | None = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def talk(url: str, api: str, model: str, turns: int) -> str:
    statuses, evaluated, prompt, unsaid = [], 0, 0, 0
    for body in bodies(api, model, turns):
        status, answer = ask(url + PATHS[api], body)
        statuses.append(status)
        if status == 200:
            usage = usage_of(json.loads(answer))
            prompt = usage.prompt or 0
            unsaid += usage.evaluated is None
            evaluated += prompt if usage.evaluated is None else usage.evaluated
    said = f"{evaluated:>7,} evaluated, last prompt {prompt:,}"
    if unsaid:
        said = f"reuse not reported ({unsaid} turns), last prompt {prompt:,}"
    return f"{' '.join(map(str, statuses))}   {said}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--upstream", required=True)
    options.add_argument("--api", choices=PATHS, action="append")
    options.add_argument("--turns", type=int, default=4)
    given = options.parse_args()
    url = given.upstream.rstrip("/")
    status, listed = ask(f"{url}/v1/models")
    if status != 200:
        sys.exit(f"{url}/v1/models: HTTP {status}")
    model = json.loads(listed)["data"][0]["id"]
    for api in given.api or PATHS:
        print(f"{api:<10} directly  {talk(url, api, model, given.turns)}")
        with ChildProxy(url) as proxy:
            print(f"{'':<10} through   {talk(proxy.url, api, model, given.turns)}")
            _, page = ask(f"{proxy.url}/_cacheproxy/health")
            known = json.loads(page)["placement"]
            print(f"{'':<10} learned   {known['late']} ({known.get('told_by', 'nothing')})")


if __name__ == "__main__":
    main()
