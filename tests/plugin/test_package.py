"""The functions of a kind that a plugin brings: what they should not do costs the kind alone."""

import pytest

from cacheproxy.core.kinds import known
from cacheproxy.core.kinds.kind import (
    CounterNames,
    Recognition,
    RenderingPage,
    ServerKind,
    Serving,
    Settings,
    StatusReading,
)
from cacheproxy.core.kinds.profile import Memory, ServerFacts
from cacheproxy.core.kinds.status import Answers, CacheConfig, Look, UpstreamState
from cacheproxy.plugin.package import Package, put_in_force

LOOK = Look("u", 0.0, 0.0, UpstreamState.UP)
ANSWERS = Answers({}, {})


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    known.put_in_force(())


def brought(odd):
    """The kind as it is in force, all of whose functions are ``odd``; what was said of it."""
    kind = ServerKind(
        "Odd",
        recognition=Recognition(is_at=odd, may_be=odd),
        reading=StatusReading(
            facts=odd,
            look=odd,
            sample=odd,
            memory=odd,
            start=("/start", odd),
            counters=CounterNames("odd:", {}, read_config=odd),
        ),
        serving=Serving(rendering=RenderingPage("/render", spelled=odd)),
        settings=Settings(room_for=odd),
    )
    said = []
    package = Package("mine", "", "", servers=(kind,))
    put_in_force([package], lambda name, problem: said.append(f"{name} {problem!r}"))
    return known.all_kinds()[0], said


CALLS = {
    "is_at": (lambda kind: kind.recognition.is_at(ANSWERS), False),
    "facts": (lambda kind: kind.reading.facts(ANSWERS), ServerFacts()),
    "may_be": (lambda kind: kind.recognition.may_be(ANSWERS), False),
    "look": (lambda kind: kind.reading.look(LOOK, ANSWERS), LOOK),
    "memory": (lambda kind: kind.reading.memory(LOOK, Memory(slots=3)), Memory(slots=3)),
    "sample": (lambda kind: kind.reading.sample(ANSWERS), None),
    "room_for": (
        lambda kind: kind.settings.room_for(was_taken=True, is_full=True, has_ram=None, slots=1),
        (),
    ),
    "start": (lambda kind: kind.reading.start[1]({}), None),
    "read_config": (lambda kind: kind.reading.counters.read_config({}), CacheConfig()),
    "spelled": (lambda kind: kind.serving.rendering.spelled({"messages": []}), {"messages": []}),
}


def raises(*_, **__):
    raise SystemExit


def returns_nonsense(*_, **__):
    return 7


@pytest.mark.parametrize("odd", [raises, returns_nonsense])
@pytest.mark.parametrize("name", CALLS)
def test_a_function_that_does_not_do_what_it_should(name, odd):
    """Nobody else fails, its kind is left out, and the plugin is named."""
    call, instead = CALLS[name]
    kind, said = brought(odd)
    assert kind.name == "Odd"
    assert call(kind) == instead
    assert [line.split(" ")[0] for line in said] == ["mine:"]
    assert "Odd" not in [one.name for one in known.all_kinds()]
    assert known.all_kinds() == known.BUILT_IN
