"""A rule belongs to a client: no package edits what another client sends (law 10).

Requests built by function from a fixed seed (CACHEPROXY_BODIES: how many), of every other client,
hold what its rules look for: in what users typed, in tool results, in files that a client quotes in
its system text. As a control, each rule without its client is seen to edit many of them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import normalize
from tests import installed
from tests.shapes import (
    AIDER,
    ATTEMPT,
    BILLING,
    CONTEXT,
    CONTINUE,
    GOOSE,
    IDENTITY,
    INBOUND,
    PI,
    RUNTIME,
    SHAPES,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BODIES = int(os.environ.get("CACHEPROXY_BODIES", "3000"))

MARKS = (ATTEMPT, RUNTIME, INBOUND, BILLING, IDENTITY)
"""What tells a package's client, if it stands at that client's own place."""
PROSE = ("How do I parse this?", "Fix the tests.", "ERROR db timeout. When did it happen?", "und?")

# Who asks: user agent, further headers, and how the system text begins. The user agents of the
# first ones name them, so that their system text may hold anything anywhere.
NAMED = {
    "claude": (b"claude-cli/2.1.329 (external, cli)", b"x-claude-code-session-id: 9", IDENTITY),
    "codex": (b"codex_exec/0.169.0 (Debian 12.0.0; x86_64)", b"session-id: 9", "You are Codex"),
    "opencode": (b"opencode/1.18.33 ai-sdk/provider-utils", b"x-session-id: 9", "You are opencode"),
    "qwen": (b"QwenCode/0.24.4 (linux; x64)", b"accept: */*", "You are Qwen Code"),
    "gemini": (b"GeminiCLI-tui/0.61.0/gemini-2.5-pro", b"accept: */*", "You are Gemini CLI"),
}
UNNAMED = {
    "openclaw": (b"OpenAI/JS 7.15.0", b"x-stainless-lang: js", ATTEMPT),
    "cline": (
        b"ai-sdk/openai-compatible/3.0.37",
        b"accept: */*",
        "You are Cline, an AI coding agent.",
    ),
    "pi": (b"OpenAI/JS 6.26.0", b"x-stainless-lang: js", PI.partition("\n")[0]),
    "continue": (b"ls/JS 5.23.2", b"x-stainless-lang: js", CONTINUE),
    "aider": (
        b"OpenAI/Python 2.20.0",
        b"x-stainless-lang: python",
        f"Act as an expert software developer.\nAlways use best practices when coding.\n{AIDER}",
    ),
    "crush": (b"Charm-Crush/v0.96.1 (https://charm.land/crush)", b"accept: */*", "You are Crush."),
    "goose": (b"", b"agent-session-id: 9", GOOSE),
    "librechat": (b"OpenAI/JS 5.8.2", b"x-librechat-session-id: 9", "You are a kind assistant."),
    "litellm": (b"litellm/1.80.0", b"accept: */*", "You are a helpful assistant."),
    "openai-sdk": (b"AsyncOpenAI/Python 3.52.0", b"accept: */*", "You help."),
    "anthropic-sdk": (b"Anthropic/Python 2.11.0", b"accept: */*", "You help."),
    "curl": (b"curl/8.5.0", b"accept: */*", "Be brief."),
    "undici": (b"undici", b"accept: */*", "You are an agent."),
    "nobody": (b"", b"accept: */*", "You are."),
}
CLIENTS = {**NAMED, **UNNAMED}
ELSEWHERE = (
    *("gemini-response-once", "qwen-keep-reminders", "aider-keep-reminder"),
    *("claude-keep-skills", "omp-pin-date", "continue-pin-date", "continue-pin-git-status"),
)
"""Rules of an API that is not among these, of what a message has lost since the turn before, of a
block that is nothing else, or of a text that begins with its client's words: fuzz/own_texts.py has
them."""
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}


def package_of(client):
    names = {"claude": "claude-code", "qwen": "qwen-code", "gemini": "gemini-cli"}
    return names.get(client, client)


@pytest.fixture(scope="module")
def plugins():
    return installed.packages()


class Asking:
    """Builds requests of one client: the same text around, other digits in each turn."""

    def __init__(self, random: Random, client: str) -> None:
        self._random = random
        self._agent, header, self._head = CLIENTS[client]
        self._header = tuple(part.strip() for part in header.split(b":"))
        self._is_named = client in NAMED
        self._api = random.choice(list(PATHS))
        self._as_blocks = random.random() < 0.5
        system = [self._head, *(self._filed() for _ in range(random.randint(0, 3))), "Be kind."]
        if random.random() < 0.1:  # a fence that is never closed
            system.append(f"- notes:\n  ```\n  x\n{self._shape()}")
        if self._is_named and random.random() < 0.3:
            system.insert(0, random.choice((GOOSE, self._shape())))
        if random.random() < 0.1:  # a file that comes last
            system.append(PI)
        self._system = [f"{part}\n" for part in system]
        self._turns = [self._typed() for _ in range(random.randint(1, 4))]

    def turn(self, digit: int) -> Request:
        """Return the conversation, with ``digit`` where something changes."""
        body = self._body(digit)
        text = json.dumps(body, ensure_ascii=self._random.random() < 0.5).replace("{}", str(digit))
        headers = (self._header, (b"content-type", b"application/json"))
        if self._agent:
            headers += ((b"user-agent", self._agent),)
        return Request("POST", PATHS[self._api], headers, text.encode())

    def _shape(self) -> str:
        return self._random.choice(SHAPES)

    def _typed(self) -> str:
        """What a user types, pastes or gets from a tool: shapes at their exact place and others."""
        before = self._random.choice(("", "", "", "See ", "\n", "> "))
        return before + self._shape() + self._random.choice(PROSE)

    def _filed(self) -> str:
        """A file that the client quotes in its system text.

        What tells a client is in a code block, indented, quoted or in the middle of a line.
        """
        shape = self._shape()
        if self._is_named or not any(mark in shape for mark in MARKS):
            return f"# AGENTS.md\n{shape}\n"
        fence = self._random.choice(("````", "~~~", "~~~~~ text"))
        lines = shape.split("\n")
        return self._random.choice(
            (
                f"# AGENTS.md\n{fence}\n{shape}\n{fence.split()[0]}\n",
                "".join(f"    {line}\n" for line in lines),
                "".join(f"> {line}\n" for line in lines),
                f"OpenClaw writes {shape}\n" if "\n" not in shape else f"It says: {lines[0]}\n",
            )
        )

    def _content(self, role: str, text: str) -> object:
        if not self._as_blocks:
            return text
        kind = "text"
        if self._api == "responses":
            kind = "output_text" if role == "assistant" else "input_text"
        return [{"type": kind, "text": text}]

    def _message(self, role: str, text: str) -> dict[str, object]:
        return {"role": role, "content": self._content(role, text)}

    def _body(self, digit: int) -> dict[str, object]:
        random = Random(self._turns[0])  # the same in each turn
        messages: list[dict[str, object]] = []
        for number, text in enumerate(self._turns):
            messages.append(self._message("user", text))
            messages.append(self._message("assistant", self._turns[-number]))
            messages += self._result(random.choice(self._turns))
        if random.random() < 0.1:  # what moves to the end
            messages += [self._message("assistant", PROSE[0])] * digit
            messages.append(self._message("user", CONTEXT))
        if random.random() < 0.3:  # what comes late is no head of a prompt
            messages.append(self._message("system", self._turns[0]))
        tools = [{"name": "WebSearch", "description": self._turns[-1]}]
        if self._api == "messages":
            texts = [{"type": "text", "text": part} for part in self._system]
            system = texts if self._as_blocks else "\n".join(self._system)
            return {"model": "m", "system": system, "messages": messages, "tools": tools}
        if self._api == "responses":
            first = self._message("developer", "\n".join(self._system))
            if random.random() < 0.5:
                return {"instructions": "\n".join(self._system), "input": messages}
            return {"model": "m", "input": [first, *messages], "tools": tools}
        first = self._message("system", "\n".join(self._system))
        return {"model": "m", "messages": [first, *messages], "tools": tools}

    def _result(self, text: str) -> list[dict[str, object]]:
        if self._api == "messages":
            block = {"type": "tool_result", "tool_use_id": "1", "content": text}
            return [{"role": "user", "content": [block]}]
        if self._api == "responses":
            return [{"type": "function_call_output", "call_id": "1", "output": text}]
        return [{"role": "tool", "tool_call_id": "1", "content": text}]


def test_every_package_of_the_repository_is_looked_at(plugins):
    packages = {package.name: package for package in plugins}
    for folder in (ROOT / "clients").iterdir():
        if (folder / "setup.cfg").is_file():
            package = packages[folder.name]
            assert package.client is not None
            assert package.rules or "cacheproxy_session" in package.hooks


def test_no_package_edits_what_another_client_sends(plugins):
    """0 edits in 3,000 requests; nor is any of them taken for a session of its client."""
    random = Random(13)
    names, owners = list(CLIENTS), {one.name for one in plugins.clients}
    of = {package.name: package.rules for package in plugins}
    everybodys = [replace(rule, client=None) for rules in of.values() for rule in rules]
    own: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for number in range(BODIES):
        client = names[number % len(names)]
        asking = Asking(random, client)
        earlier, later = map(plugins.clients.introduce, (asking.turn(1), asking.turn(2)))
        theirs = package_of(client)
        foreign = [rule for name, rules in of.items() if name != theirs for rule in rules]
        found = normalize(later, foreign, earlier)
        assert found == (later, ()), (client, found.reports, later.body)
        reports = normalize(later, of.get(theirs, ()), earlier).reports
        assert not any(report.error for report in reports)
        own[theirs] += sum(len(report.edits) for report in reports)
        for rule in everybodys:
            if alone[rule.name] < 5:  # till it has been seen to edit
                alone[rule.name] += bool(normalize(later, [rule], earlier).reports)
        session = plugins.session(later)
        assert session.client == client or session.client not in owners
    of = {name: [one for one in rules if one.name not in ELSEWHERE] for name, rules in of.items()}
    assert all(own[name] for name, rules in of.items() if rules), own
    assert {rule.name for rules in of.values() for rule in rules if alone[rule.name] < 5} == set()
