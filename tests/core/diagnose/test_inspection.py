"""What an inspection finds: in planted conversations, and in recorded ones of real clients."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.config import Config
from cacheproxy.core.capture.files import read
from cacheproxy.core.capture.record import Captured
from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.session import DOCTOR, Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.diagnose.conversations import lanes_of
from cacheproxy.core.diagnose.inspection import inspect
from cacheproxy.core.diff.changes import changes
from cacheproxy.core.diff.kind import Kind
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.prompt.prompt import Order, Part
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.packages import configured
from cacheproxy.testing import capture_name, find_captures
from tests.core.planting import anthropic, captured, chat, jsonl, numbered, plant, prose, tool

from .test_volatile import set_system


def with_uuid(body, turn):
    set_system(body, lambda text: f"id: {numbered('uuid', turn)}\n{text}")


IDS = Rule("ids", "system", r"(?m)^id: (?P<volatile>\S+)", "0")


def test_a_clean_conversation():
    result = inspect(captured(chat(5)))
    assert (result.requests, result.prompts, result.steps, result.seconds) == (5, 5, 4, 4.0)
    assert [(view.client, view.id, view.turns) for view in result.sessions] == [
        ("client", "planted", 5)
    ]
    assert result.fields == result.between == result.sides == ()
    assert {view.order for view in result.reuse} == set(Order) - {Order.HOISTED}
    assert all(view.without == view.with_rules == view.with_more for view in result.reuse)
    assert all(0.5 < view.without < 1 for view in result.reuse)
    shares = {part.name: part.share for part in result.parts}
    assert list(shares) == ["tools", "system", "history", "last message"]
    assert sum(shares.values()) == pytest.approx(1)
    assert not any(part.changed for part in result.parts)


@pytest.mark.parametrize("named", [True, False])
def test_our_own_doctor_s_requests_are_left_out(named):
    """Old captures have them: under its name, or (as a HAR) with its user agent alone."""
    doctors = [
        replace(
            record,
            session=Session(DOCTOR, "x") if named else None,
            headers=((b"User-Agent", b"cacheproxy-doctor/1"),),
        )
        for record in captured(chat(3))
    ]
    theirs = captured(chat(5))
    assert inspect([*doctors, *theirs, *doctors]) == inspect(theirs)
    lanes = lanes_of([*doctors, *theirs])
    assert [turn.index for lane in lanes for turn in lane.turns] == [3, 4, 5, 6, 7]


def test_what_a_field_costs_and_what_a_rule_brings_back():
    records = captured(plant(anthropic(5), with_uuid))
    result = inspect(records, [IDS])
    (field,) = result.fields
    assert (field.rules, field.count) == (("ids",), 4)
    assert result.rules == ("ids",)
    system = next(part for part in result.parts if part.name == "system")
    assert (system.changed, system.breaks) == (4, 4)
    tools = next(part for part in result.parts if part.name == "tools")
    assert system.breaks_at > tools.chars
    tools_first, system_first = result.reuse
    assert system_first.without < tools_first.without < tools_first.with_rules
    assert tools_first.with_rules == tools_first.with_more > 0.7


def test_a_rule_that_is_off_is_counted_apart():
    records = captured(plant(anthropic(5), with_uuid))
    off = Rule("ids", "system", IDS.pattern, "0", default=False)
    result = inspect(records, [off], orders=[Order.SYSTEM_FIRST])
    (reuse,) = result.reuse
    assert reuse.without == reuse.with_rules < reuse.with_more
    assert (result.rules, result.more) == ((), ("ids",))
    assert inspect(records, [off], ["ids"]).more == ()


def test_the_order_decides_where_the_cache_breaks():
    records = captured(plant(anthropic(3), with_uuid))
    places = {
        order: next(
            part.breaks_at
            for part in inspect(records, orders=[order]).parts
            if part.name == "system"
        )
        for order in Order
    }
    assert places[Order.SYSTEM_FIRST] < 1000 < places[Order.TOOLS_FIRST]


@pytest.mark.parametrize("bodies", [anthropic, chat])
def test_a_system_message_that_comes_late_breaks_where_it_is_hoisted(bodies):
    """Appended in its place it breaks nothing; moved to the head it pushes the rest on."""

    def with_late(body, turn):
        for number in range(turn):
            late = {"role": "system", "content": f"{900 - number} tokens left"}
            body["messages"].insert(2 + 4 * number, late)

    result = inspect(captured(plant(bodies(4), with_late)))
    assert (result.late, result.most_late) == (3, 3)
    reuse = {view.order: view.without for view in result.reuse}
    assert set(reuse) == set(Order)
    assert reuse[Order.HOISTED] < reuse[Order.SYSTEM_FIRST] == reuse[Order.TOOLS_FIRST]
    (hoisted,) = inspect(captured(plant(bodies(4), with_late)), orders=[Order.HOISTED]).parts[1:2]
    assert (hoisted.name, hoisted.breaks) == ("system", 3)


def test_side_requests_that_come_between_turns_evict():
    first, second, third = anthropic(3)
    title = {"model": "m", "system": "title", "messages": [{"role": "user", "content": "t"}]}
    agent = {**first, "tools": [tool("search")], "system": prose("agent")}
    result = inspect(captured([title, first, agent, agent, second, third]))
    assert [(side.requests, side.tools, side.evictions) for side in result.sides] == [
        (1, 0, 0),
        (2, 1, 1),
    ]
    assert [view.turns for view in result.sessions] == [3]
    assert result.fields == ()


def test_a_subagent_of_its_own_session_is_beside_its_parent():
    """As the client's headers say."""

    def record(body, **headers):
        one = captured([body])[0]
        named = tuple((name.encode(), value.encode()) for name, value in headers.items())
        return Captured(one.method, one.target, named, one.body)

    first, second = anthropic(2)
    name = "x-claude-code-session-id"
    records = [
        record(first, **{name: "a"}),
        record(first, **{name: "a", "x-claude-code-agent-id": "b"}),
        record(second, **{name: "a"}),
    ]
    result = inspect(records)
    assert [view.id for view in result.sessions] == ["a"]
    assert [side.evictions for side in result.sides] == [1]


def test_a_conversation_without_an_id_is_found_again_after_its_first_message_changed():
    def change(body, turn):
        body["messages"][1]["content"] = f"{prose('files' if turn < 2 else 'others', 160)}"

    records = [
        Captured(one.method, one.target, (), one.body) for one in captured(plant(chat(4), change))
    ]
    result = inspect(records)
    assert [view.turns for view in result.sessions] == [4]
    assert [field.path for field in result.fields] == ["/messages/1/content"]


def test_what_differs_between_sessions_is_told_apart():
    records = [
        Captured(one.method, one.target, ((b"x-session-id", f"s{number}".encode()),), one.body)
        for number in range(3)
        for one in captured(plant(anthropic(2), lambda body, _, n=number: with_uuid(body, n)))
    ]
    result = inspect(records, [IDS])
    assert result.fields == ()
    assert [(field.kind, field.count, field.rules) for field in result.between] == [
        (Kind.UUID, 2, ("ids",))
    ]


def test_a_compaction_is_counted():
    bodies = anthropic(4)
    bodies[3]["messages"] = [{"role": "user", "content": prose("summary")}]
    result = inspect(captured(bodies))
    assert (result.replaced, result.fields) == (1, ())


def test_tokens_are_measured_where_a_server_counted():
    bodies = captured(chat(2))
    assert inspect(bodies).measured is False
    counted = [
        Captured(one.method, one.target, one.headers, one.body, usage=Usage(500, 0))
        for one in bodies
    ]
    result = inspect(counted)
    assert result.measured
    chars = sum(part.chars for part in result.parts)
    assert result.chars_per_token == pytest.approx(chars / 500)


def test_requests_without_a_prompt_are_left_out():
    records = [
        Captured("GET", "/v1/models"),
        Captured("POST", "/v1/messages", body=b"{"),
        *captured(chat(1)),
    ]
    result = inspect(records)
    assert (result.requests, result.prompts, result.steps) == (3, 1, 0)
    assert inspect([]).prompts == 0


def test_openclaw_as_it_was_described_before_february_2026():
    """No capture of it: a message id in the system text, a clock before what the user wrote."""
    found = configured(Config())
    if "openclaw-message-id" not in {rule.name for rule in found.rules}:
        pytest.skip("the client package is not installed")

    def change(body, turn):
        meta = {"schema": "openclaw.inbound_meta.v1", "message_id": numbered("uuid", turn)}
        fenced = f"```json\n{json.dumps(meta, indent=2)}\n```\n"
        heading = "## Inbound Context (trusted metadata)"
        set_system(body, lambda text: f"{text}\n{heading}\n{fenced}")
        for message in body["messages"]:
            if message["role"] == "user":
                message["content"] = f"[Wed 2026-02-18 20:{turn + 10} UTC] {message['content']}"

    result = inspect(captured(plant(chat(4), change)), found.rules, found.active)
    assert [(one.path, one.kind, one.rules, one.covered) for one in result.fields] == [
        ("/messages/0/content", Kind.UUID, ("openclaw-message-id",), 3),
        ("/messages/*/content", Kind.CLOCK, ("openclaw-timestamp",), 3),
    ]
    tools_first, system_first = result.reuse
    assert system_first.without < 0.4
    assert system_first.with_rules > 0.7
    assert tools_first.without < tools_first.with_rules


# --- recorded traffic -----------------------------------------------------------------------

FILES = [capture_name(file) for file in find_captures("*.jsonl", __file__)]

# What their README lists, as (start of the path, kind, rule or None); all else is a mistake.
HEADER = ("/system/0/text", Kind.NONCE, "claude-billing-header")
CONTEXT = ("/messages/*", Kind.MOVED, None)
FIELDS = {
    "aider-diff_file": [("/messages/*/content", Kind.MOVED, None)],
    "aider-stdin": [
        ("/messages/*/content", Kind.MOVED, None),
        ("/messages/*/content", Kind.TEXT, None),  # the repository map, and the files
        ("/messages/8/content", Kind.TEXT, None),
    ],
    "claude-compact": [HEADER],
    "claude-datechange_bare": [("/system/2/text", Kind.DATE, "claude-pin-date")],
    "claude-toolsearch": [("/tools/*", Kind.ADDED, None)],
    "claude_2.1.114-localmodel": [HEADER],
    "claude_2.1.174-gitchange": [HEADER, ("/system/2/text", Kind.TEXT, "claude-pin-git-status")],
    "claude_2.1.197-resume": [
        ("/tools/1/description", Kind.REMOVED, None),  # the model's name
        ("/system/2/text", Kind.REMOVED, None),
    ],
    "gemini-resume": [
        ("/contents/0/parts/0/text", Kind.ADDED, None),
        ("/contents/2/parts/2", Kind.ADDED, None),
    ],
    "openclaw-anthropic": [CONTEXT],
    "openclaw-completions": [CONTEXT],
    "openclaw-datechange": [
        CONTEXT,
        ("/messages/0/content", Kind.DATE, "openclaw-pin-current-date"),
    ],
    "openclaw-heartbeat": [CONTEXT],
    "openclaw-responses": [("/input/*", Kind.MOVED, None)],
    "openclaw-subagent": [CONTEXT],
    "opencode-datechange": [("/messages/0/content", Kind.DATE, None)],
    "pi-datechange": [("/messages/0/content", Kind.DATE, None)],
    "qwen-resume": [
        ("/messages/0/content", Kind.TEXT, None),  # git: Status
        ("/messages/*/content/*/text", Kind.MOVED, None),  # the reminder with the date
        ("/messages/1/content/1/text", Kind.ADDED, None),  # the folder tree
        ("/messages/0/content", Kind.ADDED, None),  # git: commits
        ("/messages/7", Kind.MOVED, None),  # of the side requests that extract memories
    ],
    "qwen-stream": [("/messages/7", Kind.MOVED, None)],
}
# Other tools and another system text in the same session: a real change, not told here in full.
REAL_CHANGES = {"openclaw-gateway"}
CLEAN = [name for name in FILES if name not in FIELDS and name not in REAL_CHANGES]


@pytest.fixture(scope="module")
def inspected(captures):
    found = configured(Config())
    known = {}

    def one(name):
        if name not in known:
            records, problems = read(captures / f"{name}.jsonl")
            assert problems == []
            known[name] = inspect(records, found.rules, found.active, name=found.packages.session)
        return known[name]

    return one


@pytest.mark.parametrize("name", [name for name in FILES if name not in REAL_CHANGES])
def test_every_volatile_field_of_real_clients_is_found_and_nothing_else(name, inspected):
    result = inspected(name)
    assert [
        (field.path, field.kind, field.rules[0] if field.rules else None) for field in result.fields
    ] == FIELDS.get(name, [])


def test_tools_and_system_that_really_change_are_seen_too(inspected):
    paths = {field.path for field in inspected("openclaw-gateway").fields}
    assert {"/tools/4", "/messages/0/content", "/messages/*"} <= paths


@pytest.mark.parametrize("name", FILES)
def test_rules_that_cover_all_fields_leave_pure_extensions(name, inspected):
    """Where every field of the conversation has a rule, the turns reuse each other whole."""
    result = inspected(name)
    if result.replaced or any(not field.rules for field in result.fields):
        return
    for reuse in result.reuse:
        if reuse.order is Order.HOISTED:  # breaks where a message is appended
            continue
        assert reuse.with_more >= reuse.without - 0.005
        assert result.steps == 0 or reuse.with_more > 0.9


@pytest.mark.parametrize(
    ("name", "order", "without", "with_more"),
    [
        ("claude_2.1.114-localmodel", Order.TOOLS_FIRST, 0.71, 0.998),
        ("claude_2.1.114-localmodel", Order.SYSTEM_FIRST, 0.001, 0.998),
        ("claude_2.1.174-gitchange", Order.SYSTEM_FIRST, 0.001, 0.998),
        # llama-server with a template that hoists: 7,573 of 33,584 tokens up to 7,681 of 33,908
        ("claude_2.1.280-countdown", Order.HOISTED, 0.223, 0.223),
        ("claude_2.1.280-countdown", Order.TOOLS_FIRST, 0.997, 0.997),
    ],
)
def test_reuse_is_what_was_measured_by_hand(name, order, without, with_more, inspected):
    if name not in FILES:
        pytest.skip("not at hand")
    (reuse,) = (view for view in inspected(name).reuse if view.order is order)
    assert reuse.without == pytest.approx(without, abs=0.005)
    assert reuse.with_more == pytest.approx(with_more, abs=0.005)


@pytest.mark.parametrize("name", FILES)
def test_a_compaction_is_seen_where_there_was_one(name, inspected):
    """And nowhere else, whatever changes in the other conversations."""
    assert inspected(name).replaced == (name == "claude-compact")


def test_a_header_constant_in_a_session_is_found_between_sessions(inspected):
    if "claude-twosessions" not in FILES:
        pytest.skip("not at hand")
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
    if name not in FILES:
        pytest.skip("not at hand")
    found = [(side.requests, side.tools, side.evictions) for side in inspected(name).sides]
    assert found == sides


@given(
    name=st.sampled_from(CLEAN or ["none"]),
    kind=st.sampled_from(["uuid", "clock", "nonce"]),
    at=st.integers(0, 999),
)
@settings(max_examples=25)
def test_a_field_planted_in_recorded_traffic_is_found(name, kind, at, captures):
    """In system text of a clean capture, wherever it is put."""
    records, _ = read(captures / f"{name}.jsonl")
    mains = [
        lane
        for lane in lanes_of(records, configured(Config()).packages.session)
        if not lane.is_side
    ]
    lane = max(mains, key=lambda lane: len(lane.turns))
    planted = []
    for number, turn in enumerate(lane.turns[:3]):
        system = [one for one in turn.prompt.segments if one.part is Part.SYSTEM]
        longest = max(system, key=lambda one: len(one.text))
        spaces = [i for i, character in enumerate(longest.text) if character == " "]
        place = spaces[at * len(spaces) // 1000]
        what = f" planted={numbered(kind, number, 3)};"
        edit = Edit(longest.path, what, "", (place, place))
        text = apply(turn.request.document, [edit])
        one = turn.record
        planted.append(Captured(one.method, one.target, one.headers, text))
    result = inspect(planted)
    if len(planted) > 1:
        assert [field.label for field in result.fields] == ["planted="]
        assert result.fields[0].kind.value.endswith(kind)


def test_a_capture_file_reads_as_its_requests(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text(jsonl(chat(3)))
    records, problems = read(file)
    assert problems == []
    assert inspect(records).steps == 2


@pytest.mark.parametrize("name", FILES)
def test_turns_have_fields_if_and_only_if_they_do_not_extend_each_other(name, captures):
    """By the texts alone, which know nothing of messages and blocks."""
    records, _ = read(captures / f"{name}.jsonl")
    for lane in lanes_of(records, configured(Config()).packages.session):
        for turn, later in pairwise(lane.turns):
            found = changes(turn.request, later.request)
            if not later.place.replaced:
                assert bool(found) == (parting(turn.prompt, later.prompt).was is not None)
