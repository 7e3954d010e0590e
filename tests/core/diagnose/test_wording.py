"""A proposed rule is for one program, and not for all that use its library."""

import tomllib
from itertools import pairwise

import msgspec
import pytest

from cacheproxy.config import Config
from cacheproxy.core.diagnose.propose import propose
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.prompt.client import Client, client_of
from cacheproxy.core.rules.fold import normalize
from cacheproxy.testing import conversation
from tests import transcript

LIBRARIES = {
    "AsyncOpenAI/Python 2.11.0": "openai-sdk",
    "ls/JS 5.23.2": "ls",
    "python-httpx/0.28.1": "python-httpx",
    "litellm/1.80.5": "litellm",
}
OWN = "You are Example, an agent that was made by us.\n"
CHAT = "/v1/chat/completions"


def turn(agent, day, length, head=OWN):
    system = f"{head}Be kind.\nCurrent date: 2026-11-{day}\n"
    return conversation(CHAT, system, *"abc"[:length], headers={"User-Agent": agent})


def over_midnight(agent, head=OWN):
    return [turn(agent, 21, 1, head), turn(agent, 22, 3, head)]


def proposed(agent, head=OWN):
    """The proposal for a session over midnight, or the reason why there is none."""
    turns = over_midnight(agent, head)
    steps = list(pairwise(turns))
    (answer,) = propose(fields(steps), steps, turns, whose=lambda one: Client(client_of(one)))
    return answer


@pytest.mark.parametrize("agent", LIBRARIES)
def test_a_librarys_name_alone_gets_a_rule_for_prompts_that_begin_alike(agent):
    """It says so in a line, and survives the config file."""
    proposal = proposed(agent)
    table = proposal.toml()
    assert table.startswith(f"# {LIBRARIES[agent]} is a library's name: ")
    assert f'head = "{OWN.strip()}"\n' in table
    (rule,) = msgspec.convert(tomllib.loads(table), Config).rules()
    assert rule == proposal.rule
    for others, fires in (
        ((agent,), True),
        ((agent, "You are kind.\n"), False),
        (("Named/1",), False),
    ):
        before, after = over_midnight(*others)
        assert bool(normalize(after, [rule], before).reports) is fires


def test_all_that_is_said():
    transcript.holds("wording.txt", globals())
