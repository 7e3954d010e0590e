"""Ask with the official Python SDKs what ``ask.mjs`` asks with those for JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai

from .telling import told

Json = dict[str, Any]
SAID = [{"role": "user", "content": "hi"}]


class Messages:
    """Anthropic's Messages API."""

    def __init__(self, url: str, retries: int) -> None:
        self._client = anthropic.Anthropic(
            base_url=url,
            api_key="none",
            max_retries=retries,
            timeout=120,
            http_client=anthropic.DefaultHttpxClient(trust_env=False, verify=False),
        )

    def events(self, model: str) -> Any:
        return self._client.messages.create(model=model, max_tokens=9, messages=SAID, stream=True)

    def helper(self, model: str) -> Any:
        with self._client.messages.stream(model=model, max_tokens=9, messages=SAID) as stream:
            return stream.get_final_message()


class Chat:
    """OpenAI's Chat Completions API."""

    def __init__(self, url: str, retries: int) -> None:
        self._client = _openai(url, retries)

    def events(self, model: str) -> Any:
        return self._client.chat.completions.create(model=model, messages=SAID, stream=True)

    def helper(self, model: str) -> Any:
        with self._client.chat.completions.stream(model=model, messages=SAID) as stream:
            return stream.get_final_completion()


class Responses:
    """OpenAI's Responses API."""

    def __init__(self, url: str, retries: int) -> None:
        self._client = _openai(url, retries)

    def events(self, model: str) -> Any:
        return self._client.responses.create(model=model, input=SAID, stream=True)

    def helper(self, model: str) -> Any:
        with self._client.responses.stream(model=model, input=SAID) as stream:
            return stream.get_final_response()


APIS: dict[str, Callable[[str, int], Any]] = {
    "messages": Messages,
    "chat": Chat,
    "responses": Responses,
}


def ask(url: str, jobs: list[Json]) -> list[Json]:
    """Ask all at once; jobs and answers have the shapes of ``ask.mjs``."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda job: _ask(url, **job), jobs))


def _ask(url: str, api: str, how: str, model: str, retries: int = 0) -> Json:
    client = APIS[api](url, retries)
    events: list[Json] = []
    try:
        if how == "helper":
            return {"value": client.helper(model).model_dump(mode="json")}
        stream = client.events(model)
        for event in stream:
            events.append(event.model_dump(mode="json"))
            if how == "leave" and len(events) == 2:
                stream.close()
                break
    except Exception as error:
        return {"error": told(error), "events": events}
    return {"value": events}


def _openai(url: str, retries: int) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        max_retries=retries,
        timeout=120,
        http_client=openai.DefaultHttpxClient(trust_env=False, verify=False),
    )
