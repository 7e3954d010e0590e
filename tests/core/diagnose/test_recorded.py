"""What an inspection finds in recorded conversations of real clients."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.config import Config
from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.diagnose.conversations import lanes_of
from cacheproxy.core.diagnose.inspection import inspect
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.changes import changes
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.plugin.packages import configured
from cacheproxy.record.files import read
from cacheproxy.testing import capture_name, find_captures
from tests import golden, installed
from tests.core.diagnose.inspected import shown
from tests.core.planting import numbered
from tests.record.recorded import recorded

FILES = [capture_name(file) for file in find_captures("*.jsonl", __file__)]

KEPT = Path(__file__).with_name("recorded.txt")
"""What is found in each: new lines must be what the captures' README lists, or a mistake."""
LISTED = ("session", "side", "field", "between", "reuse")
CLEAN = [name for name, text in golden.sections(KEPT).items() if "\nfield" not in text]


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
    found = configured(Config(), installed.packages())
    told = {"session": found.packages.session, "clients": found.packages.clients}
    return cache(lambda name: inspect(exchanges(name), found.rules, found.active, **told))


@pytest.mark.parametrize("name", FILES)
def test_every_volatile_field_of_real_clients_is_found_and_nothing_else(name, inspected):
    """Where each field has a rule, the turns reuse each other whole."""
    result = inspected(name)
    golden.agrees(KEPT, name, "\n".join(line for line in shown(result) if line.startswith(LISTED)))
    assert result.replaced == (name == "claude-compact")
    if result.replaced or not all(one.rules for one in result.fields):
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
        # llama-server with a template that hoists: 7,573 of 33,584 tokens up to 7,681 of 33,908
        ("claude_2.1.280-countdown", PromptOrder.HOISTED, 0.223, 0.223),
    ],
)
def test_reuse_is_what_was_measured_by_hand(name, order, without, with_more, inspected):
    (reuse,) = (view for view in inspected(name).reuse if view.order is order)
    assert reuse.without == pytest.approx(without, abs=0.005)
    assert reuse.with_more == pytest.approx(with_more, abs=0.005)


@given(
    name=st.sampled_from(CLEAN or ["none"]),
    kind=st.sampled_from(["uuid", "clock", "nonce"]),
    at=st.integers(0, 999),
)
@settings(max_examples=8)
def test_a_field_planted_in_recorded_traffic_is_found(name, kind, at, exchanges):
    """In system text of a clean capture, wherever it is put."""
    lanes = lanes_of(exchanges(name), configured(Config(), installed.packages()).packages.session)
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
    packages = configured(Config(), installed.packages()).packages
    for lane in lanes_of(exchanges(name), packages.session, packages.clients):
        for turn, later in pairwise(lane.turns):
            found = changes(turn.request, later.request)
            if not later.place.replaced:
                assert bool(found) == (parting(turn.prompt, later.prompt).was is not None)
