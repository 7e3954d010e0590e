"""Conversations of two clients on chat templates of vendors, rendered by the real llama.cpp.

Shared by the tests here and by ``benchmarks/templates.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cacheproxy_demo.embedded import write_model

from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.http_client import Site

from .causes.talk import CORPUS, Json, words
from .farm import Farm
from .replay import erase
from .templates import ALIKE

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "templates"
VENDORS = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.jinja"))}
"""Templates of models under a free licence, as their vendors wrote them."""
ALL = VENDORS | ALIKE

STEPS = 3
"""Calls of a tool in the user's first turn; the second has one."""
LOOP = STEPS + 1
"""Requests of the first turn."""
_STEPS_OF = range(STEPS), range(STEPS, STEPS + 1)
_SYSTEM = f"You are a helper. {words(200, 1)}"
_TOOL, _SAYS = "look", words(40, 3)
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
_RANDOM = b"The model produced output that does not match the expected"
"""llama-server could not parse what its random model said: the request itself was taken."""


def claude(model: str, *, late: bool = True) -> Iterator[Json]:
    """Claude Code 2.1.233 to 2.1.280: a late message after each prompt and each tool's result."""
    messages: list[Json] = []

    def body() -> Json:
        if late:
            left = f"<total_tokens>{9000 - 100 * len(messages)} tokens left</total_tokens>"
            messages.append({"role": "system", "content": left})
        tools = [{"name": _TOOL, "description": _SAYS, "input_schema": _SCHEMA}]
        fixed = {"model": model, "max_tokens": 1, "system": _SYSTEM, "tools": tools}
        return fixed | {"messages": list(messages)}

    for turn in range(2):
        messages.append({"role": "user", "content": words(30, 50 + turn)})
        yield body()
        for number in _STEPS_OF[turn]:
            name = _call(number)
            use = {"type": "tool_use", "id": name, "name": _TOOL, "input": {"path": f"b{number}"}}
            result = {"type": "tool_result", "tool_use_id": name, "content": words(60, 70 + number)}
            messages += [
                {"role": "assistant", "content": [_thinking(number), use]},
                {"role": "user", "content": [result]},
            ]
            yield body()
        said = {"type": "text", "text": "it burns"}
        messages.append({"role": "assistant", "content": [_thinking(100 + turn), said]})


def codex(model: str, *, late: bool = True) -> Iterator[Json]:
    """Codex: instructions and a developer's message, then often two user messages in a row."""
    items: list[Json] = []

    def say(role: str, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        items.append({"type": "message", "role": role, "content": content})

    def body() -> Json:
        tool = {"type": "function", "strict": False, "name": _TOOL, "description": _SAYS}
        fixed = {"model": model, "max_output_tokens": 1, "instructions": _SYSTEM}
        return fixed | {"tools": [tool | {"parameters": _SCHEMA}], "input": list(items)}

    if late:
        say("developer", f"permissions {words(40, 4)}")
    for turn in range(2):
        say("user", f"environment {words(20, 40 + turn)}")
        say("user", words(30, 50 + turn))
        yield body()
        for number in _STEPS_OF[turn]:
            name, given = _call(number), json.dumps({"path": f"b{number}"})
            output = words(60, 70 + number)
            thought = [{"type": "reasoning_text", "text": _thinking(number)["thinking"]}]
            items += [
                {"type": "reasoning", "id": f"rs_{number}", "summary": [], "content": thought},
                {"type": "function_call", "call_id": name, "name": _TOOL, "arguments": given},
                {"type": "function_call_output", "call_id": name, "output": output},
            ]
            yield body()
        said = {"type": "output_text", "text": "it burns", "annotations": []}
        item = {"type": "message", "id": f"msg_{turn}", "status": "completed", "role": "assistant"}
        items.append(item | {"content": [said]})


def chat(model: str, *, late: bool = False) -> Iterator[Json]:
    """Any client of Chat Completions: no late message, two user messages in a row, long ids."""
    messages: list[Json] = [{"role": "system", "content": _SYSTEM}]
    tool = {"name": _TOOL, "description": _SAYS, "parameters": _SCHEMA}

    def body() -> Json:
        fixed = {"model": model, "max_tokens": 1, "messages": list(messages)}
        return fixed | {"tools": [{"type": "function", "function": tool}]}

    for turn in range(2):
        texts = words(20, 40 + turn), words(30, 50 + turn)
        messages += [{"role": "user", "content": text} for text in texts]
        yield body()
        for number in _STEPS_OF[turn]:
            name = _call(number)
            function = {"name": _TOOL, "arguments": json.dumps({"path": f"b{number}"})}
            call = {"id": name, "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": name, "content": words(60, 70 + number)},
            ]
            yield body()
        messages.append({"role": "assistant", "content": "it burns"})


SHAPES = {
    "claude": ("/v1/messages", claude),
    "codex": ("/v1/responses", codex),
    "chat": ("/v1/chat/completions", chat),
}
AGENTS = ("claude", "codex")
"""Those of SHAPES that have late messages."""


class Turn(NamedTuple):
    """How one request fared: tokens of its prompt, and those that were evaluated."""

    served: bool
    answer: bytes
    prompt: str = ""
    tokens: int = 0
    evaluated: int = 0

    @property
    def thoughts(self) -> int:
        """How many reasoning blocks of the first turn stand in the prompt."""
        return sum(f"thought{number} " in self.prompt for number in range(STEPS))


class Held(list[Turn]):
    """A conversation that was held; the first LOOP requests are one turn of the user's."""

    @property
    def served(self) -> bool:
        """Whether no request was refused."""
        return all(turn.served for turn in self)

    @property
    def evaluated(self) -> int:
        """Tokens that were evaluated in all."""
        return sum(turn.evaluated for turn in self)

    @property
    def again(self) -> int:
        """Those of them that had been evaluated before; 0 where each prompt only grows."""
        return self.evaluated - self[-1].tokens

    @property
    def loop(self) -> Held:
        """The first turn of the user's: a prompt and the results of tools."""
        return Held(self[:LOOP])


def hold(url: str, server: str, shape: str, model: str, *, late: bool = True) -> Held:
    """Hold a conversation at ``url``, of ``model``; ``server``: where it is rendered, and counted.

    It begins with an empty cache.
    """
    path, bodies = SHAPES[shape]
    erase(server)
    told = Site(server)
    client = Site(url, {"User-Agent": "lab/1.0", "X-Session-Id": f"{shape}-{model}"})
    before, held = _evaluated(told), Held()
    for body in bodies(model, late=late):
        answer = client.post(path, json.dumps(body).encode())
        if answer.status != 200 and _RANDOM not in answer.body:
            held.append(Turn(served=False, answer=answer.body))
            continue
        now, slot = _evaluated(told), told.tell("/slots")[0]
        prompt, tokens = slot["prompt"], slot["n_prompt_tokens"]
        held.append(Turn(True, answer.body, prompt, tokens, evaluated=now - before))
        before = now
    return held


def start_farm(folder: Path, templates: Mapping[str, str]) -> Farm:
    """Start a server for each of ``templates``, on one model to which words are about tokens."""
    text = "\n".join((CORPUS, *templates.values()))
    return Farm(write_model(folder / "tiny.gguf", text=text), folder, templates)


def config_for(urls: Mapping[str, str]) -> str:
    """Return a config file of an upstream for each model that ``urls`` has."""
    tables = []
    for number, (model, url) in enumerate(urls.items()):
        tables += [
            f'[[upstream]]\nname = "u{number}"\nurl = "{url}"',
            f'[[route]]\nname = "r{number}"\nmodel = "{model}"\nto = ["u{number}"]',
        ]
    return "\n".join(tables)


def _evaluated(told: Site) -> int:
    figures = sample_of(told.get("/metrics").body.decode())
    assert figures is not None
    return int(figures.figures.evaluated or 0)


def _call(number: int) -> str:
    """The id of a tool's call, as long as clients have them."""
    return f"call_{'boat' * 4}{number:08}"


def _thinking(number: int) -> Json:
    text = f"thought{number} {words(30, 60 + number)}"
    return {"type": "thinking", "thinking": text, "signature": ""}
