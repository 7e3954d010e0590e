"""Each seeded cause is named by the log line, by ``diagnose`` and by ``diagnose --from`` alike."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from tests import needs

from .causes import CAUSES, Cause, right
from .reading import impossible, shared
from .servers import KINDS, Llama
from .situations import MEMORIES, SITUATIONS
from .stage import Stage

pytestmark = pytest.mark.llama

BESIDES = (
    "append",
    "taken-back",
    "in-other-words",
    "another-way",
    "sibling",
    "date-at-the-end",
    "tool-changed",
    "message-edited",
    "result-cut",
    "thinking-dropped",
    "hoisted",
    "tools-moved",
)
"""Causes that a memory of another kind may hide; all of them: ``benchmarks/causes.py``."""


def cases():
    """Those that need the same server and proxy stand together, and share both."""
    for name, wanted in (("llama", None), ("qwen35", BESIDES), ("gemma3", BESIDES)):
        found = [
            cause
            for cause in CAUSES.values()
            if cause.applies(name, KINDS[name]) and (wanted is None or cause.name in wanted)
        ]
        order = list(dict.fromkeys(cause.setting for cause in found))
        for cause in sorted(found, key=lambda cause: order.index(cause.setting)):
            yield pytest.param(name, cause, id=f"{name}-{cause.name}")


class Stages:
    """One stage at a time: the last one, as long as the next cause needs no other."""

    def __init__(self, factory) -> None:
        self._factory = factory
        self._last = None
        self._stack = contextlib.ExitStack()

    def get(self, name: str, cause: Cause, **more) -> Stage:
        wanted = (name, replace(cause.setting, server=(*more.items(), *cause.setting.server)))
        if self._last is None or self._last[0] != wanted:
            self.close()
            self._last = wanted, self._stage(*wanted)
        return self._last[1]

    def close(self) -> None:
        self._last = None
        self._stack.close()

    def _stage(self, name, setting):
        folder = self._factory.mktemp("stage")
        servers = []
        for number in range(setting.servers):
            here = folder / str(number)
            here.mkdir()
            server = Llama(name, here, setting.template, **dict(setting.server))
            self._stack.callback(server.close)
            servers.append(server)
        return self._stack.enter_context(Stage(folder, *servers, options=setting.options))


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    needs.llama()
    found = Stages(tmp_path_factory)
    yield found
    found.close()


def situations():
    """Those that need the same server and proxy stand together, as above."""
    order = list(dict.fromkeys(one.setting for one in SITUATIONS.values()))
    found = sorted(SITUATIONS.values(), key=lambda one: order.index(one.setting))
    for memory in MEMORIES:
        for one in found:
            yield pytest.param(memory, one, id=f"{memory}-{one.name}")


@pytest.mark.parametrize(("memory", "situation"), list(situations()))
def test_a_situation_is_named_on_each_memory(memory, situation, stages):
    """By all three alike, with the place and the kind of what changed."""
    family, settings = MEMORIES[memory]
    held = situation.hold(stages.get(family, situation, **settings))
    found = held.read()
    figures = [(usage.prompt, usage.reused) for usage in held.usages]
    said = "\n".join((found.line, *found.texts))
    assert right(situation.truth(memory, KINDS[family]), found), (
        f"{situation.title}: {found}\n{figures}\n{said}"
    )
    assert impossible(said) == []


@pytest.mark.parametrize(("name", "cause"), list(cases()))
def test_the_cause_is_named_by_all_three(name, cause, stages):
    """No share is more than all of it, and what is shared is what was reused, if it can be."""
    held = cause.hold(stages.get(name, cause))
    found = held.read()
    figures = [(usage.prompt, usage.reused) for usage in held.usages]
    said = "\n".join((found.line, *found.texts))
    assert right(cause.truth(name, KINDS[name]), found), (
        f"{cause.title}: {found}\n{figures}\n{said}"
    )
    assert impossible(said) == []
    if (told := shared(found.line)) is not None and KINDS[name] == "rewindable":
        assert told == pytest.approx(held.usages[-1].reused / held.usages[-1].prompt, abs=0.03), (
            said
        )
