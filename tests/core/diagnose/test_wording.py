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


@pytest.mark.parametrize("head", ["", "Be good.\n", "key sk-proj-abcdefghijklmnop1234567890 is\n"])
def test_where_the_prompt_tells_nothing_there_is_no_rule(head):
    """Too few words, or some that may not be written down; the reason is a sentence."""
    assert proposed("ls/JS 5.23.2", head).why == (
        "ls is the name of a library, and no system text tells this program from others that use it"
    )


def test_a_program_that_says_who_it_is_needs_no_more():
    table = proposed("MyAgent/1.0").toml()
    assert table.startswith("[[rule]]")
    assert 'client = "myagent"' in table
    assert "head" not in table


def test_the_words_end_where_the_prompts_part():
    """A long line is cut between two words, and what changes is no part of them."""
    long = proposed("ls/JS 1.0", f"You are Example, {'very ' * 30}kind.\n").rule.client
    assert long.must_begin == f"You are Example, {'very ' * 12}".rstrip()


def test_for_every_client_it_says_so():
    """Requests without any name have a rule for all, and a line says it."""
    turns = over_midnight("")
    (proposal,) = propose(fields([tuple(turns)]), [tuple(turns)], turns)
    assert proposal.toml().startswith("# For every client: no name tells whose requests these are.")
