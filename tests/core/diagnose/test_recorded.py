"""What an inspection finds in recorded conversations of real clients."""

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.config import Config
from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.diagnose.conversations import lanes_of
from cacheproxy.core.diagnose.inspection import inspect
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.changes import changes
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.plugin.packages import configured
from cacheproxy.record.files import read
from cacheproxy.testing import capture_name, find_captures
from tests.core.planting import numbered
from tests.record.recorded import recorded

FILES = [capture_name(file) for file in find_captures("*.jsonl", __file__)]

# What their README lists, as (start of the path, kind, rule or None); all else is a mistake.
HEADER = ("/system/0/text", ChangeKind.NONCE, "claude-billing-header")
CONTEXT = ("/messages/*", ChangeKind.MOVED, "openclaw-keep-context")
FIELDS = {
    "aider-diff_file": [("/messages/*/content", ChangeKind.MOVED, "aider-keep-reminder")],
    "aider-stdin": [
        ("/messages/*/content", ChangeKind.MOVED, "aider-keep-reminder"),
        ("/messages/*/content", ChangeKind.TEXT, None),  # the repository map, and the files
        ("/messages/8/content", ChangeKind.TEXT, None),
    ],
    "claude-compact": [HEADER],
    "claude-datechange_bare": [("/system/2/text", ChangeKind.DATE, "claude-pin-date")],
    "claude-toolsearch": [("/tools/*", ChangeKind.ADDED, None)],
    "claude_2.1.114-localmodel": [HEADER],
    "claude_2.1.174-gitchange": [
        HEADER,
        ("/system/2/text", ChangeKind.GIT, "claude-pin-git-status"),
        ("/system/2/text", ChangeKind.GIT, "claude-pin-git-status"),  # the commits
    ],
    "claude_2.1.197-resume": [
        ("/tools/1/description", ChangeKind.REMOVED, None),  # the model's name
        ("/system/2/text", ChangeKind.REMOVED, None),
    ],
    "claude_2.1.90-resume": [
        HEADER,
        ("/messages/*/content/0/text", ChangeKind.MOVED, "claude-keep-skills"),
        ("/system/3/text", ChangeKind.GIT, "claude-pin-git-status"),
        ("/messages/4/content", ChangeKind.SPELLING, "claude-keep-skills"),
    ],
    "continue-datechange": [
        ("/messages/0/content", ChangeKind.DATE, "continue-pin-date"),
        ("/messages/0/content", ChangeKind.TEXT, "continue-pin-git-status"),
    ],
    "gemini-resume": [
        ("/contents/0/parts/0/text", ChangeKind.ADDED, None),
        ("/contents/2/parts/2", ChangeKind.ADDED, "gemini-response-once"),
    ],
    "kilo_7.7.9-datechange": [("/messages/0/content", ChangeKind.DATE, "kilo-pin-date")],
    "omp-datechange": [("/messages/1/content/0/text", ChangeKind.DATE, "omp-pin-date")],
    "openclaw-anthropic": [CONTEXT],
    "openclaw-completions": [CONTEXT],
    "openclaw-datechange": [
        CONTEXT,
        ("/messages/0/content", ChangeKind.DATE, "openclaw-pin-current-date"),
    ],
    "openclaw-heartbeat": [CONTEXT],
    "openclaw-responses": [("/input/*", ChangeKind.MOVED, "openclaw-keep-context")],
    "openclaw-subagent": [CONTEXT],
    "opencode-datechange": [("/messages/0/content", ChangeKind.DATE, "opencode-pin-date")],
    "pi-datechange": [("/messages/0/content", ChangeKind.DATE, "pi-pin-date")],
    "qwen-resume": [
        ("/messages/0/content", ChangeKind.TEXT, "qwen-pin-git-status"),
        ("/messages/*/content/*/text", ChangeKind.MOVED, "qwen-keep-reminders"),
        ("/messages/1/content/1/text", ChangeKind.ADDED, "qwen-pin-folders"),
        ("/messages/0/content", ChangeKind.ADDED, "qwen-pin-git-status"),
        ("/messages/7", ChangeKind.MOVED, None),  # of the side requests that extract memories
    ],
    "qwen-stream": [("/messages/7", ChangeKind.MOVED, None)],
}
# Other tools and another system text in the same session: a real change, not told here in full.
REAL_CHANGE = "openclaw-gateway"
CLEAN = [name for name in FILES if name not in FIELDS and name != REAL_CHANGE]


@pytest.fixture(scope="module")
def exchanges(captures):
    """Those of a capture, read once."""

    @cache
    def one(name):
        if name not in FILES:
            pytest.skip("not at hand")
        records, problems = read(captures / f"{name}.jsonl")
        assert problems == []
        return records

    return one


@pytest.fixture(scope="module")
def inspected(exchanges):
    found = configured(Config())
    told = {"session": found.packages.session, "clients": found.packages.clients}
    return cache(lambda name: inspect(exchanges(name), found.rules, found.active, **told))


@pytest.mark.parametrize("name", FILES)
def test_every_volatile_field_of_real_clients_is_found_and_nothing_else(name, inspected):
    """Where each field has a rule, the turns reuse each other whole."""
    result = inspected(name)
    assert result.replaced == (name == "claude-compact")
    if name == REAL_CHANGE:
        paths = {field.path for field in result.fields}
        assert {"/tools/4", "/messages/0/content", "/messages/*"} <= paths
        return
    found = [(one.path, one.kind, next(iter(one.rules), None)) for one in result.fields]
    assert found == FIELDS.get(name, [])
    if result.replaced or not all(rule for _, _, rule in found):
        return
    for reuse in result.reuse:
        if reuse.order is not PromptOrder.HOISTED:  # it breaks where a message is appended
            assert reuse.with_more >= reuse.without - 0.005
            least = 0.8 if name == "aider-diff_file" else 0.9  # its reminder is new in each turn
            assert result.steps == 0 or reuse.with_more > least


@pytest.mark.parametrize(
    ("name", "order", "without", "with_more"),
    [
        ("claude_2.1.114-localmodel", PromptOrder.TOOLS_FIRST, 0.71, 0.998),
        ("claude_2.1.114-localmodel", PromptOrder.SYSTEM_FIRST, 0.001, 0.998),
        ("claude_2.1.174-gitchange", PromptOrder.SYSTEM_FIRST, 0.001, 0.998),
        # llama-server with a template that hoists: 7,573 of 33,584 tokens up to 7,681 of 33,908
        ("claude_2.1.280-countdown", PromptOrder.HOISTED, 0.223, 0.223),
        ("claude_2.1.280-countdown", PromptOrder.TOOLS_FIRST, 0.997, 0.997),
    ],
)
def test_reuse_is_what_was_measured_by_hand(name, order, without, with_more, inspected):
    (reuse,) = (view for view in inspected(name).reuse if view.order is order)
    assert reuse.without == pytest.approx(without, abs=0.005)
    assert reuse.with_more == pytest.approx(with_more, abs=0.005)


def test_a_header_constant_in_a_session_is_found_between_sessions(inspected):
    result = inspected("claude-twosessions")
    assert len(result.sessions) == 3
    assert [(one.path, one.kind, one.rules[0]) for one in result.between] == [HEADER]


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("claude-subagent", [(2, 8, 1), (2, 5, 1)]),
        ("claude-tui_traffic", [(1, 0, 0)]),
        ("codex-subagent", [(1, 8, 1)]),
        ("opencode-subagent", [(1, 0, 0), (2, 9, 1)]),
        ("qwen-stream", [(2, 6, 1)]),
        ("aider-stdin", [(1, 0, 1)]),
    ],
)
def test_side_requests_of_real_clients(name, sides, inspected):
    found = [(side.requests, side.tools, side.evictions) for side in inspected(name).sides]
    assert found == sides


@given(
    name=st.sampled_from(CLEAN or ["none"]),
    kind=st.sampled_from(["uuid", "clock", "nonce"]),
    at=st.integers(0, 999),
)
@settings(max_examples=8)
def test_a_field_planted_in_recorded_traffic_is_found(name, kind, at, exchanges):
    """In system text of a clean capture, wherever it is put."""
    lanes = lanes_of(exchanges(name), configured(Config()).packages.session)
    lane = max((each for each in lanes if not each.is_side), key=lambda lane: len(lane.turns))
    planted = []
    for number, turn in enumerate(lane.turns[:3]):
        system = [one for one in turn.prompt.segments if one.part is Part.SYSTEM]
        longest = max(system, key=lambda one: len(one.text))
        spaces = [i for i, character in enumerate(longest.text) if character == " "]
        place = spaces[at * len(spaces) // 1000]
        what = f" planted={numbered(kind, number, 3)};"
        edit = Edit(longest.path, what, "", (place, place))
        text = apply(turn.request.document, [edit])
        planted.append(recorded("POST", turn.request.target, turn.request.headers, text))
    result = inspect(planted)
    if len(planted) > 1:
        assert [field.label for field in result.fields] == ["planted="]
        assert result.fields[0].kind.value.endswith(kind)


@pytest.mark.parametrize("name", FILES)
def test_turns_have_fields_if_and_only_if_they_do_not_extend_each_other(name, exchanges):
    """By the texts alone, which know nothing of messages and blocks."""
    packages = configured(Config()).packages
    for lane in lanes_of(exchanges(name), packages.session, packages.clients):
        for turn, later in pairwise(lane.turns):
            found = changes(turn.request, later.request)
            if not later.place.replaced:
                assert bool(found) == (parting(turn.prompt, later.prompt).was is not None)
