"""Jobs for the official SDKs in both languages, and what an SDK's objects say, in plain values."""

from __future__ import annotations

import functools
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai

from .telling import ask_node, told

Json = dict[str, Any]
Ask = Callable[[list[Json]], list[Json]]
SCRIPT = Path(__file__).with_name("translated.mjs")
NODE_SECONDS = 120
_PLAIN = {"api_key": "none", "max_retries": 0, "timeout": 60}


class Messages:
    """Anthropic's Messages API."""

    def __init__(self, url: str) -> None:
        client = anthropic.DefaultHttpxClient(trust_env=False)
        self.client = anthropic.Anthropic(base_url=url, http_client=client, **_PLAIN)
        self.create = self.client.messages.create
        self.count = self.client.messages.count_tokens

    def helper(self, **body: Any) -> Any:
        with self.client.messages.stream(**body) as stream:
            return stream.get_final_message()

    @staticmethod
    def answered(message: Any) -> Any:
        return {"role": "assistant", "content": message.content}


class Chat:
    """OpenAI's Chat Completions API."""

    def __init__(self, url: str) -> None:
        client = openai.DefaultHttpxClient(trust_env=False)
        self.client = openai.OpenAI(base_url=f"{url}/v1", http_client=client, **_PLAIN)
        self.create = self.client.chat.completions.create

    def helper(self, **body: Any) -> Any:
        with self.client.chat.completions.stream(**body) as stream:
            return stream.get_final_completion()

    @staticmethod
    def answered(completion: Any) -> Any:
        return completion.choices[0].message


APIS: dict[str, Callable[[str], Any]] = {"messages": Messages, "chat": Chat}


@functools.cache
def _client(api: str, url: str) -> Any:
    """Return one client for all that is asked there: it takes its time to be made."""
    return APIS[api](url)


def python(jobs: list[Json]) -> list[Json]:
    """Ask with the Python SDKs; jobs and answers have the shapes of ``translated.mjs``."""
    return [_ask(**job) for job in jobs]


def javascript_in(packages: Path) -> Ask:
    """Return what asks with the JavaScript SDKs that are installed in ``packages``."""

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


def completion_said(completion: Json) -> Json:
    """The same of a chat completion."""
    [choice] = completion["choices"]
    message, usage = choice["message"], completion.get("usage") or {}
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return {
        "text": message["content"] or None,
        "thinking": message.get("reasoning_content"),
        "calls": [(call["name"], call["arguments"]) for call in calls],
        "reason": choice["finish_reason"],
        "prompt": usage.get("prompt_tokens"),
        "output": usage.get("completion_tokens"),
    }


def chunks_said(chunks: list[Json]) -> Json:
    """The same of a completion's chunks, put together."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[list[str]] = []
    reasons: list[str] = []
    usage: Json = {}
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            delta = choice["delta"]
            texts.append(delta.get("content") or "")
            thoughts.append(delta.get("reasoning_content") or "")
            for call in delta.get("tool_calls") or []:
                function = call["function"]
                if call["index"] == len(calls):
                    calls.append([function["name"], ""])
                calls[call["index"]][1] += function.get("arguments") or ""
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    [reason] = reasons
    return {
        "text": "".join(texts) or None,
        "thinking": "".join(thoughts) or None,
        "calls": [tuple(call) for call in calls],
        "reason": reason,
        "prompt": usage.get("prompt_tokens"),
        "output": usage.get("completion_tokens"),
    }


SAID = {"messages": message_said, "chat": completion_said}


def _block(block: Json) -> tuple[Any, ...]:
    if block["type"] == "tool_use":
        return "tool_use", block["name"], block["input"]
    return block["type"], block[block["type"]]


def _ask(
    *,
    url: str,
    api: str,
    how: str,
    body: Json | None = None,
    extra: Json | None = None,
    results: list[Json] | None = None,
    first: str | None = None,
) -> Json:
    events: list[Json] = []
    body = {**(body or {}), **({"extra_body": extra} if extra else {})}
    try:
        if first is not None:
            _post(first)
        side = _client(api, url)
        if how == "create":
            return {"value": _plain(side.create(**body))}
        if how == "helper":
            return {"value": _plain(side.helper(**body))}
        if how == "count":
            return {"value": _plain(side.count(**body))}
        if how == "models":
            return {"value": [_plain(model) for model in side.client.models.list().data]}
        if how == "turns":
            answer = side.answered(side.helper(**body))
            messages = [*body["messages"], answer, *(results or [])]
            return {"value": _plain(side.helper(**body | {"messages": messages}))}
        for event in side.create(**body, stream=True):
            events.append(_plain(event))  # noqa: PERF401 (those before an error count)
    except Exception as error:
        return {"error": told(error), "events": events}
    return {"value": events}


def _plain(value: Any) -> Json:
    """Return what an SDK read, as it came: without the fields that it knows but did not get."""
    plain: Json = value.to_dict(mode="json")
    return plain


def _post(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, b"{}"), timeout=120):
        pass
