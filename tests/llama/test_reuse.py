"""What a real server reuses of recorded sessions when they come through the proxy.

A turn after the first has to reuse the whole prompt of the turn before it, less TOLERANCE tokens,
unless ``exceptions.py`` says why it cannot. All captures: ``benchmarks/reuse.py``.
"""

import pytest

from cacheproxy.testing import capture_name, find_captures, load_capture

from . import openclaw_2026_02
from .exceptions import EXCEPTIONS
from .replay import breaks, converse, erase, replay

pytestmark = pytest.mark.llama

MOST_TURNS = 4
"""Of each session: the whole of them would take minutes."""

CASES = [
    ("claude_2.1.114-localmodel", "messages"),
    ("claude_2.1.114-localmodel", "chat"),
    ("claude-stream", "messages"),
    ("claude-stream", "chat"),
    ("openclaw_2026.6.11-completions", "chat"),
    ("openclaw-completions", "chat"),
    ("codex-resume", "responses"),
]


def broken(measured):
    return {turn.number for turn in breaks(measured)}


def expected(name, measured):
    return set(EXCEPTIONS.get(name, ())) & {turn.number for turn in measured}


def main_session(recorded, name):
    return recorded[name].turns[:MOST_TURNS]


@pytest.mark.parametrize(("name", "api"), CASES)
def test_each_turn_reuses_the_prompt_before_it(name, api, recorded, llama, proxy):
    """With the rules that are on by default, only the listed turns break."""
    turns = main_session(recorded, name)
    erase(llama.url)
    measured = replay(proxy.url, api, turns)
    assert broken(measured) == expected(name, measured), measured
    assert measured[0].reused == 0
    assert len(measured) == MOST_TURNS


@pytest.mark.parametrize(
    ("name", "send"),
    [
        ("claude_2.1.174-gitchange", lambda url, turns: replay(url, "messages", turns)),
        ("pi-datechange", converse),
    ],
    ids=["with an id", "by its answers"],
)
def test_a_changed_git_status_or_date_costs_nothing(name, send, recorded, llama, proxy):
    """The first one stays, and the new one is told behind the user's message."""
    turns = main_session(recorded, name)
    erase(llama.url)
    assert broken(send(llama.url, turns))
    erase(llama.url)
    assert broken(send(proxy.url, turns)) == set()


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
def test_openclaw_of_february_2026_reuses_the_prompt_before_it(api, recorded, llama, proxy):
    """Message ids and timestamps that change in every request cost nothing any more."""
    request = main_session(recorded, "openclaw_2026.6.11-completions")[0].request
    system, tools = request.json["messages"][0]["content"][:6_000], request.json["tools"][:3]
    session = openclaw_2026_02.session(api, system, tools)
    erase(llama.url)
    through = replay(proxy.url, api, session.turns)
    erase(llama.url)
    direct = replay(llama.url, api, session.turns)
    assert broken(through) == set(), through
    assert broken(direct) == {2, 3, 4, 5}
    assert max(turn.share for turn in direct) < 0.3


def test_every_exception_names_a_turn_of_a_capture():
    """The table of exceptions has no entry that nothing can ever look up."""
    posts = {
        capture_name(file): sum(request.method == "POST" for request in load_capture(file))
        for file in find_captures("*.jsonl", __file__)
    }
    for name, turns in EXCEPTIONS.items():
        assert set(turns) <= set(range(2, posts[name] + 1))
