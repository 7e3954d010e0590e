"""Jobs for Anthropic's SDKs in both languages, and what their objects say, in plain values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic

from .telling import ask_node, told

Json = dict[str, Any]
Ask = Callable[[list[Json]], list[Json]]
SCRIPT = Path(__file__).with_name("translated.mjs")
NODE_SECONDS = 120
_PLAIN = {"api_key": "none", "max_retries": 0, "timeout": 60}


@functools.cache
def _client(url: str) -> anthropic.Anthropic:
    """Return one client for all that is asked there: it takes its time to be made."""
    client = anthropic.DefaultHttpxClient(trust_env=False)
    return anthropic.Anthropic(base_url=url, http_client=client, **_PLAIN)


def _helper(client: anthropic.Anthropic, **body: Any) -> Any:
    with client.messages.stream(**body) as stream:
        return stream.get_final_message()


def python(jobs: list[Json]) -> list[Json]:
    """Ask with the Python SDK; jobs and answers have the shapes of ``translated.mjs``."""
    return [_ask(**job) for job in jobs]


def javascript_in(packages: Path) -> Ask:
    """Return what asks with the JavaScript SDK that is installed in ``packages``."""

    def ask(jobs: list[Json]) -> list[Json]:
        return ask_node(packages, SCRIPT, jobs, seconds=NODE_SECONDS)

    return ask


def message_said(message: Json) -> Json:
    """What an SDK's message says: blocks without ids, how it ended, tokens.

    ``prompt``: all tokens of the prompt, reused or not.
    """
    usage = message["usage"]
    reused = usage.get("cache_read_input_tokens") or 0
    return {
        "content": [_block(block) for block in message["content"]],
        "reason": message["stop_reason"],
        "sequence": message["stop_sequence"],
        "prompt": usage["input_tokens"] + reused,
        "output": usage["output_tokens"],
    }


def _block(block: Json) -> tuple[Any, ...]:
    if block["type"] == "tool_use":
        return "tool_use", block["name"], block["input"]
    return block["type"], block[block["type"]]


def _ask(*, url: str, how: str, body: Json, results: list[Json] | None = None) -> Json:
    events: list[Json] = []
    try:
        client = _client(url)
        if how == "create":
            return {"value": _plain(client.messages.create(**body))}
        if how == "helper":
            return {"value": _plain(_helper(client, **body))}
        if how == "turns":
            answer = {"role": "assistant", "content": _helper(client, **body).content}
            messages = [*body["messages"], answer, *(results or [])]
            return {"value": _plain(_helper(client, **body | {"messages": messages}))}
        for event in client.messages.create(**body, stream=True):
            events.append(_plain(event))  # noqa: PERF401 (those before an error count)
    except Exception as error:
        return {"error": told(error), "events": events}
    return {"value": events}


def _plain(value: Any) -> Json:
    """Return what an SDK read, as it came: without the fields that it knows but did not get."""
    plain: Json = value.to_dict(mode="json")
    return plain
