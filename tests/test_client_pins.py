"""The contract of packages that keep a value in the system text: whose it is, and where it stands.

The first value stays, and each new one is told once, behind what the user says next; what others
say stays, though it quotes the client. Each package has its rows, made from its client's sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module

import pytest

from cacheproxy.core.prompt.client import Client, Clients
from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import (
    APIS,
    assert_told_once,
    assert_untouched,
    conversation,
    from_another,
    rules_of,
)

OTHERS = ("claude-cli/2.1.329", "codex_exec/0.169.0", "QwenCode/0.24.4", "an-other/3.40")
CHAT = APIS[1:2]
VALUE = "<VALUE>"
"""What stands in these texts where the value is."""
DATES = {"a date": ("2026-11-21", "2026-11-22")}
TODAY = "Today's date is now {}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A value that a package keeps."""

    package: str  #: the distribution's name, without ours
    name: str = "CLIENT"  #: the client's, in its module
    agent: str = ""  #: its user agent where the rows say no other
    headers: Mapping[str, str] = field(default_factory=dict)  #: instead
    heads: tuple[str, ...] = ()  #: system texts that tell its requests, whoever sends them
    agents: tuple[str, ...] = ()  #: user agents that do, whatever the system text
    shapes: Mapping[str, str] = field(default_factory=dict)  #: system texts in which it stands
    values: Mapping[str, tuple[str, str]] = field(default_factory=lambda: DATES)
    note: str = TODAY  #: what the model is told of a new one
    quotes: Mapping[str, str] = field(default_factory=dict)  #: system texts with other such values
    apis: tuple[str, ...] = APIS  #: that it speaks

    @property
    def client(self) -> Client:
        return getattr(import_module(self.module), self.name)

    @property
    def module(self) -> str:
        return f"cacheproxy_{self.package.replace('-', '_')}"

    @property
    def rules(self) -> list:
        return rules_of(import_module(self.module))

    def turn(self, path: str, system: str, *said: str, agent: str | None = None) -> Request:
        headers = self.headers or ({"User-Agent": self.agent} if self.agent else {})
        headers = headers if agent is None else {"User-Agent": agent}
        return conversation(path, system, *said, headers=headers)


def _cline() -> Pinned:
    env = (
        "\n\nEnvironment you are running in:\n<env>\n1. Platform: linux\n2. Date: <VALUE>\n"
        "3. IDE: Terminal Shell\n4. Working Directory: /home/me/project\n</env>\n\n"
    )
    heads = (
        "You are Cline, an AI coding agent. Your primary goal is to assist users.",
        "You are Cline, a careful and helpful coding agent that works in the background.",
        "You are Cline, a highly skilled software engineer with extensive knowledge.",
        "You are Cline, a software engineering AI. Your mission is.",
        "You are Cline, a senior software engineer + precise task runner.",
    )
    dates = [("11/21/2026", "11/22/2026"), ("9/30/2026", "10/1/2026"), ("21.11.2026", "22.11.2026")]
    dates += [("21. 11. 2026", "22. 11. 2026"), ("2026/11/21", "2026/11/22"), *DATES.values()]
    dates += [("२१/११/२०२६", "२२/११/२०२६")]
    rules = "# Rules\nBe kind.\n"
    return Pinned(
        package="cline",
        agent="ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/5.0.30 runtime/bun",
        heads=heads,
        agents=("Cline/3.40.0",),
        shapes={"3.x": heads[0] + env + rules},
        values={one: (one, other) for one, other in dates},
        quotes={
            "a rule of the user's": heads[0] + env.replace(VALUE, "1/1/2026") + rules + env,
            "a list of its own": (
                f"{heads[0]}\n1. Platform: linux\n2. Date: {VALUE}\n3. IDE: x\n"
                "4. Working Directory: y\n"
            ),
            "in another order": heads[0] + env.replace("1. Platform: linux\n", ""),
            "no date in its place": heads[0] + env.replace(VALUE, f"{VALUE}, {'a fine day ' * 4}"),
        },
    )


def _continue() -> Iterator[Pinned]:
    head = (
        "You are an agent in the Continue CLI. Given the user's prompt, answer.\n\nNotes:\n1. Be.\n"
    )
    env = (
        "<env>\nWorking directory: /home/me/project\nIs directory a git repo: true\n"
        "Platform: linux\nToday's date: {}\n</env>\n\nAs you answer, you can use:\n\n"
    )
    git = (
        '<context name="gitStatus">This is the git status at the start of the conversation. It is.'
        "\n\n{}\n</context>\n"
    )
    file = '\n\n<context name="userRules">\nBe kind.\n</context>'
    date, clean, changed = "2026-11-21", "Working tree clean", "M a<b.py\n?? new.txt"
    both = env.format(VALUE) + git.format(VALUE)
    common = {"package": "continue", "agent": "ls/JS 5.23.2", "heads": (head,)}
    yield Pinned(
        **common,
        shapes={
            "with files": head + env.format(VALUE) + git.format(clean) + file,
            "without": head + env.format(VALUE) + git.format(clean),
        },
        quotes={
            "a file quotes it": head + env.format(date) + git.format(clean) + both,
            "not in its block": f"{head}Today's date: {VALUE}\n{git.format(VALUE)}",
            "another client's": "You are kind.\n" + both,
            "no more than that": f"{head}<env>\nToday's date: {VALUE}\n</env>\n{git.format(VALUE)}",
        },
    )
    yield Pinned(
        **common,
        shapes={"git": head + env.format(date) + git.format(VALUE) + file},
        values={"changed": (clean, changed), "clean": (changed, clean)},
        note="The git status is now:\n\n{}",
    )


def _crush() -> Iterator[Pinned]:
    env = (
        "<env>\nWorking directory: /home/me\nIs directory a git repo: yes\nPlatform: linux\n"
        "Today's date: {}\n{}\n</env>\n"
    )
    git = (
        "\n\nGit status (snapshot at conversation start - may be outdated):\n"
        "Current branch: {0}\nStatus:\n M {0}.go\nRecent commits:\n1234567 {0}\n\n"
    )
    head = "You are Crush, a powerful AI Assistant that runs in the CLI.\n\n<workflow>\n"
    files = '\n# Project-Specific Context\n<file path="CRUSH.md">\n{}\n</file>\n'
    days = {"a date": ("11/23/2026", "1/2/2027")}
    date = "11/23/2026"
    both = env.format(VALUE, git.format(VALUE))
    common = {
        "package": "crush",
        "agent": "Charm-Crush/v0.96.1 (https://charm.land/crush)",
        "apis": CHAT,
        "values": days,
    }
    yield Pinned(
        **common,
        heads=(head,),
        agents=("Charm-Crush/v0.96.1",),
        shapes={
            "in a repository": head + env.format(VALUE, git.format("main")),
            "outside": head + env.format(VALUE, ""),
            "a subagent": "You are an agent for Crush. Given the user's\n" + env.format(VALUE, ""),
        },
        quotes={
            around: head
            + env.format(date, git.format("main"))
            + files.format(around.format(f"\n{both}"))
            for around in ("{}", "Look:\n{}", "{}\nwhat is this?")
        },
    )
    yield Pinned(
        **common | {"values": {"a branch": ("main", "topic")}},
        shapes={"git": head + env.format(date, git.format(VALUE))},
        note=(
            "The git status is now:\nCurrent branch: {0}\nStatus:\n M {0}.go\nRecent commits:\n"
            "1234567 {0}"
        ),
    )


def _goose() -> Pinned:
    heads = (
        "You are a general-purpose AI agent called goose, created by Block.\ngoose is open.\n\n",
        "You are a general-purpose AI agent called Goose, created by Block. Goose is open.\n\n",
    )
    date = f"The current date is {VALUE}.\n"
    first = "2026-11-22 23:00"
    later = ("2026-11-23 09:00", "2026-11-23 10:00", "2026-11-23", "2026-11-23 09:15:01")
    rest = "\ngoose uses LLM providers.\n"
    known = heads[0] + date.replace(VALUE, first)
    return Pinned(
        package="goose",
        apis=CHAT,
        heads=(*heads, "You are a specialized subagent within the goose AI framework"),
        shapes={head: head + date + rest for head in heads},
        values={one: (first, one) for one in later},
        note="The current date is now {}.",
        quotes={
            "behind it": f"{known}\n{date}",
            "all of it": known + heads[0] + date,
            "further down": f"{heads[0]}\n{date}",
        },
    )


def _librechat() -> Iterator[Pinned]:
    once, many = f"You are kind. Today is {VALUE}. Be brief.", f"{VALUE}: on {VALUE}. ISO: {VALUE}"
    values = {
        "date": {
            "date": ("2026-11-22 (Sunday)", "2026-11-23 (Monday)"),
            "old date": ("2026-11-22 (0)", "2026-11-23 (1)"),
        },
        "time": {
            "time": ("2026-11-22 14:03:59 +01:00 (Sunday)", "2026-11-22 14:05:01 +01:00 (Sunday)"),
            "old time": ("2026-11-22 14:03:59 (0)", "2026-11-22 14:05:01 (0)"),
            "iso": ("2026-11-22T13:03:59.000Z", "2026-11-22T13:05:01.123Z"),
        },
    }
    for name, found in values.items():
        yield Pinned(
            package="librechat",
            headers={"X-LibreChat-Session-Id": "5db5fafd"},
            apis=CHAT,
            shapes={"once": once, "often": many},
            values=found,
            note=f"The current {name} is now {{}}.",
            quotes={"nothing in the instructions": "You are kind."},
        )


def _opencode() -> Iterator[Pinned]:
    heads = (
        "You are opencode, an interactive CLI tool that helps users.",
        "You are opencode, an agent - please keep going.",
        "You are OpenCode, the best coding agent on the planet.",
        "You are a coding agent running in the opencode, a terminal-based coding assistant. It is.",
    )
    env = (
        "Here is some useful information about the environment you are running in:\n<env>\n"
        "  Working directory: /home/me/project\n  Is directory a git repo: yes\n"
        f"  Platform: linux\n  Today's date: {VALUE}\n</env>\n"
    )
    date, head = "Sat Nov 21 2026", heads[0]
    file = "Instructions from: /home/me/project/AGENTS.md\nBe kind.\n"
    common = {"package": "opencode", "values": {"a date": (date, "Sun Nov 22 2026")}}
    yield Pinned(
        **common,
        agent="opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14",
        agents=("opencode/1.18.33",),
        heads=heads,
        shapes={
            "1.18": f"{head}\nYou are powered by the model named m.\n{env}{file}",
            "1.0": f"{heads[2]}\n{env}<files>\n  \n</files>\n{file}",
            "0.5": f"{heads[1]}\n{env}<project>\n  src/\n</project>",
            "an agent of the user's": "You write tests.\n" + env,
        },
        quotes={
            "a file quotes it": f"{head}\n{env.replace(VALUE, date)}{file}{env}",
            "not in its block": f"{head}\nToday's date: {VALUE}\n",
            "not at the end of its block": f"{head}\n" + env.replace("</env>", "  More: 1\n</env>"),
            "without its first line": f"{head}\n" + env.split("\n", 1)[1],
            "in another spelling": f"{head}\n" + env.replace(VALUE, f"{VALUE}, a fine day"),
            "too far down": f"{head}\n" + env.replace("<env>\n", "<env>\n" + "  Line: 1\n" * 8),
        },
    )
    kilo = (
        "  Project config: .kilo/command/*.md, kilo.json, AGENTS.md.\n"
        "  Global config: /home/me/.config/kilo/ (same structure)\n</env>"
    )
    heads = ("You are Kilo, the best coding agent on the planet.\n", "Own.\n")
    yield Pinned(
        **common,
        name="KILO",
        agent="Kilo-Code/7.7.9 ai-sdk/provider-utils/4.0.27 runtime/bun/1.3.14",
        agents=("Kilo-Code/7.7.9",),
        shapes={head: head + env.replace("</env>", kilo) for head in heads},
    )


def _pi() -> Pinned:
    heads = (
        "You are a coding assistant running inside pi, a coding agent harness. Help users.",
        "You are an expert coding assistant operating inside pi, a coding agent harness. You help.",
        "You are an expert coding assistant. You help users with coding tasks by reading files, a.",
    )
    head, files = heads[1], "\n\n# Project Context\n\n## /home/me/AGENTS.md\n\nBe kind.\n"
    end = f"\nCurrent date: {VALUE}\nCurrent working directory: /home/me/project"
    known = end.replace(VALUE, "2026-11-20")
    return Pinned(
        package="pi",
        agent="OpenAI/JS 6.26.0",
        agents=("pi/1.5.2 (linux; node/v24.21.0; x64)", "pi", "pi-coding-agent"),
        heads=heads,
        shapes={"0.73": head + end, "with files": head + files + end},
        quotes={
            "a file quotes it": f"{head}{files}{end}\n{known}",
            "no directory behind it": f"{head}\nCurrent date: {VALUE}",
            "in the middle of a line": head + end.replace("\nCurrent date", "\nThe Current date"),
            "text behind it": f"{head}{end}\n\nBe kind.",
            "a line between": head + end.replace(f"{VALUE}\n", f"{VALUE}\n\n"),
        },
    )


def _pi_times() -> Pinned:
    end = f"\nCurrent date and time: {VALUE}\nCurrent working directory: /home/me/project"
    times = (
        "Saturday, November 21, 2026 at 11:58:12 PM GMT+1",
        "Sunday, November 22, 2026 at 12:03:40 AM GMT+1",
    )
    head = "You are an expert coding assistant operating inside pi, a coding agent harness. You."
    return Pinned(package="pi", shapes={"0.52": head + end}, values={"a time": times})


ALL = [
    *(_cline(), *_continue(), *_crush(), _goose(), *_librechat(), *_opencode(), _pi(), _pi_times())
]


def each(*names):
    """Each row of these tables of each package, and each API, as a test."""
    return pytest.mark.parametrize(
        ("one", "path", "key"),
        [
            pytest.param(one, path, key, id=f"{one.package}-{path}-{str(key)[:40]}")
            for one in ALL
            for path in one.apis
            for key in _keys(one, *names)
        ],
    )


def _keys(one, name, other=None):
    table = getattr(one, name)
    if other is None:
        return list(table)
    return [(first, second) for first in table for second in getattr(one, other)]


@each("heads")
def test_the_beginning_of_the_system_text_tells_and_names_the_session(one, path, key):
    """Behind a gateway; not where another client names itself, nor where it is quoted."""
    turn = one.turn(path, key, "hi", agent="a-gateway/1")
    assert one.client.sent(turn)
    assert Clients([one.client]).name_of(turn) == one.client.name
    for agent in OTHERS:
        assert not one.client.sent(from_another(one.turn(path, key, "hi", agent=agent)))
        assert not one.client.sent(one.turn(path, f"Be kind. {key}", key, agent=agent))


@each("agents")
def test_a_user_agent_of_its_own_tells(one, path, key):
    assert one.client.sent(one.turn(path, "Be kind.", "hi", agent=key))
    assert not one.client.sent(one.turn(path, "Be kind.", "hi", agent=f"x{key}"))


@each("shapes", "values")
def test_the_first_value_stays_and_the_new_one_is_told_once(one, path, key):
    """Behind what the user says next, and there in all later turns; nothing else changes."""
    shape, values = one.shapes[key[0]], one.values[key[1]]
    first, later = (partial(one.turn, path, shape.replace(VALUE, value)) for value in values)
    assert_told_once(one.rules, first, later, one.note.format(values[1]))
    assert one.client.sent(first("hi"))


@each("quotes", "values")
def test_any_other_value_is_somebodys_text(one, path, key):
    shape, values = one.quotes[key[0]], one.values[key[1]]
    said = next(iter(one.shapes.values()))
    earlier, later = (
        one.turn(path, *(text.replace(VALUE, value) for text in (shape, said, said, said)))
        for value in values
    )
    assert_untouched(one.rules, later, earlier)


@each("shapes", "values")
def test_without_what_tells_its_requests_nothing_is_done(one, path, key):
    """Any other program may have such a value in its instructions."""
    shape, values = one.shapes[key[0]], one.values[key[1]]
    earlier, later = (
        from_another(one.turn(path, shape.replace(VALUE, value), "hi", agent="an-other/1"))
        for value in values
    )
    assert_untouched(one.rules, later, earlier)
