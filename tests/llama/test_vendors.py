"""Chat templates of vendors before the proxy: nothing is refused, and no reasoning is lost.

What each does, and what it costs: ``python benchmarks/templates.py``, benchmarks/README.md.
"""

import re
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.kinds.profile import UNKNOWN, Profile
from cacheproxy.doctor.facts import learned, look_at_proxy
from cacheproxy.doctor.server_checks import late_messages
from cacheproxy.http_client import Site
from tests import needs
from tests.doctor.builders import facts
from tests.proxy.harness import eventually

from .blind import Blind
from .vendors import AGENTS, ALL, FOLDER, LOOP, SHAPES, STEPS, VENDORS, config_for, hold, start_farm

pytestmark = pytest.mark.llama

ROOT = Path(__file__).resolve().parents[2]
NO_TOOLS = "no-tools"
"""The one that nothing can mend."""
MENDED = [name for name in ALL if name != NO_TOOLS]
MOVES = {"Mistral-Nemo"}
"""Writes system text and tools into the last user message: no prompt only grows."""
REFUSING = ("Apertus-8B-Instruct", "Ministral-3-14B-Reasoning", "Mistral-Nemo", "Mistral-Small-3.2")
MOST_REFUSALS = 3
"""Late messages, users in a row, long ids of calls: a template may refuse them one by one."""
HEAD = 5
"""Tokens at a prompt's end that an answer may not repeat: the head of the assistant's turn."""


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    needs.llama()
    with start_farm(tmp_path_factory.mktemp("farm"), ALL) as farm:
        yield farm


@pytest.fixture(scope="module")
def proxy(farm, tmp_path_factory):
    """One proxy before all servers."""
    file = tmp_path_factory.mktemp("proxy") / "config.toml"
    file.write_text(config_for(farm.urls))
    with Proxy("", "--config", str(file)) as proxy:
        yield proxy
        assert "Traceback" not in proxy.log()


@pytest.fixture(scope="module")
def blind(farm, tmp_path_factory):
    """A proxy before servers that say nothing of their templates; and these servers."""
    file = tmp_path_factory.mktemp("blind") / "config.toml"
    with ExitStack() as stack:
        fronts = {name: stack.enter_context(closing(Blind(farm.urls[name]))) for name in REFUSING}
        file.write_text(config_for({name: front.url for name, front in fronts.items()}))
        proxy = Proxy("", "--config", str(file), "--placement", "quiet")
        yield stack.enter_context(proxy), fronts


@pytest.mark.parametrize("shape", AGENTS)
@pytest.mark.parametrize("name", MENDED)
def test_each_request_is_served_and_costs_no_more_than_it_has_to(farm, proxy, name, shape):
    """Its reasoning stays as without late messages, and a turn of tools evaluates what is new.

    Where the server takes them directly, that costs more, or as much: except for what the model
    reads of the messages that the template would drop, once, and once more in a turn whose
    thinking is dropped.
    """
    server = farm.urls[name]
    without = hold(server, server, shape, name, late=False)
    direct = hold(server, server, shape, name)
    held = hold(proxy.url, server, shape, name)
    assert held.served, [turn.answer[:200] for turn in held if not turn.served]
    if name not in MOVES:
        assert held.loop.again <= HEAD * LOOP
    if without.served:
        assert [turn.thoughts for turn in held] == [turn.thoughts for turn in without]
        assert held.again <= without.again + held[-1].tokens - without[-1].tokens
    if direct.served:
        dropped = max(0, held[-1].tokens - direct[-1].tokens)
        assert held.evaluated <= direct.evaluated + 2 * dropped
        assert held.loop[-1].thoughts >= direct.loop[-1].thoughts
    if shape == "claude" and name in VENDORS:
        said = direct.loop[-1].thoughts if direct.served else "refused"
        assert documented()[name][1] == f"{said} → {held.loop[-1].thoughts}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REFUSING)
def test_what_a_server_refuses_without_having_been_asked_is_mended_at_once(
    farm, blind, name, shape
):
    """The refusal never comes down, and each thing is refused once."""
    proxy, fronts = blind
    before = fronts[name].posts
    held = hold(proxy.url, farm.urls[name], shape, name)
    assert held.served, [turn.answer[:200] for turn in held if not turn.served]
    assert fronts[name].posts <= before + len(held) + MOST_REFUSALS
    if shape == "claude" and "Reasoning" in name:
        assert held.loop[-1].thoughts == STEPS


def test_the_measure_is_sharp(farm):
    """Directly some refuse a request, and some read the history anew at each late message."""
    for name in REFUSING:
        assert not hold(farm.urls[name], farm.urls[name], "claude", name).served
    for name in ("DeepSeek-V3.1", "DeepSeek-V3.2", "hoist-think"):
        held = hold(farm.urls[name], farm.urls[name], "claude", name)
        assert held.loop.again > held.loop[-1].tokens / 2


def test_what_nothing_can_mend_is_said_at_start_and_by_the_doctor(farm):
    """A template that refuses calls of tools: by the proxy and by the server itself."""
    url = farm.urls[NO_TOOLS]
    with Proxy(url) as proxy:
        words = "it refuses calls of tools and their results, which nothing can mend"
        eventually(lambda: words in proxy.log())
        known = look_at_proxy(proxy.url, {}).profile.placement
    for placement in (known, learned(Site(url), UNKNOWN).placement):
        found = list(late_messages(facts(profile=Profile(placement=placement))))
        wanted = [FindingState.OK, FindingState.WARN, FindingState.WARN]
        assert [finding.state for finding in found] == wanted[: len(found)]
        assert "refuses calls of tools and their results" in found[1].text


def test_each_template_has_its_licence_named_and_its_row_in_the_benchmarks():
    """In the table beside them, and no other has."""
    lines = (FOLDER / "README.md").read_text().splitlines()
    named = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert sorted(named) == sorted(VENDORS) == sorted(documented())


@cache
def documented():
    """The rows of the benchmarks' table by template."""
    text = (ROOT / "benchmarks" / "README.md").read_text()
    rows = re.findall(r"(?m)^\| (\S+) \| ([^|]+) \| (\w+ → \d) \|", text)
    return {name: (placed, reasoning) for name, placed, reasoning in rows}
