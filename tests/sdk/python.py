"""Ask with the official Python SDKs what ``ask.mjs`` asks with those for JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any

import anthropic
import openai

from .telling import told

Json = dict[str, Any]
SAID = [{"role": "user", "content": "hi"}]


def _anthropic(url: str, retries: int) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=url,
        http_client=anthropic.DefaultHttpxClient(trust_env=False, verify=False),
        **_common(retries),
    )


def _openai(url: str, retries: int) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{url}/v1",
        http_client=openai.DefaultHttpxClient(trust_env=False, verify=False),
        **_common(retries),
    )


def _common(retries: int) -> Json:
    return {"api_key": "none", "max_retries": retries, "timeout": 120}


# Of each API: the client, what of it asks, how, and what the helper is asked for at the end.
APIS: dict[str, tuple[Callable[[str, int], Any], str, Json, str]] = {
    "messages": (_anthropic, "messages", {"messages": SAID, "max_tokens": 9}, "get_final_message"),
    "chat": (_openai, "chat.completions", {"messages": SAID}, "get_final_completion"),
    "responses": (_openai, "responses", {"input": SAID}, "get_final_response"),
}


def ask(url: str, jobs: list[Json]) -> list[Json]:
    """Ask all at once; jobs and answers have the shapes of ``ask.mjs``."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda job: _ask(url, **job), jobs))


def _ask(url: str, api: str, how: str, model: str, retries: int = 0) -> Json:
    make, name, said, final = APIS[api]
    asking = attrgetter(name)(make(url, retries))
    events: list[Json] = []
    try:
        if how == "helper":
            with asking.stream(model=model, **said) as stream:
                return {"value": getattr(stream, final)().model_dump(mode="json")}
        stream = asking.create(model=model, stream=True, **said)
        for event in stream:
            events.append(event.model_dump(mode="json"))
            if how == "leave" and len(events) == 2:
                stream.close()
                break
    except Exception as error:
        return {"error": told(error), "events": events}
    return {"value": events}
