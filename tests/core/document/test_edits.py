"""apply(): only what an edit names changes."""

import copy
import json
import re
from itertools import compress, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import REMOVE, Edit, EditError, apply, splices_of
from cacheproxy.core.document.pointer import PathError, to_pointer
from tests import transcript
from tests.core import spelling
from tests.core.memories import small_steps

HIGH, LOW = "\ud83d", "\ude00"
text_with_everything = st.text(
    alphabet=st.one_of(
        st.sampled_from('ab"\\/\n\t\x00\x1f\x7fé\u2028😀'),
        st.sampled_from(["\ud83d", "\ude00"]),  # lone surrogates
    ),
    max_size=6,
)
new_value = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        text_with_everything,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(text_with_everything, inner, max_size=3)
    ),
    max_leaves=5,
)


def edited(text: str, *edits: Edit) -> str:
    return apply(Document(text.encode()), edits).decode()


def replaced(path: str, new: object, span: tuple[int, int] | None = None) -> Edit:
    return Edit(path, new, "for a test", span)


def added(path: str, new: object) -> Edit:
    return Edit(path, new, "for a test", adds=True)


def removed(path: str) -> Edit:
    return replaced(path, REMOVE)


def are_related(path: tuple, other: tuple) -> bool:
    """Whether one of them is in the other, or is the other."""
    return path[: len(other)] == other[: len(path)]


@st.composite
def text_and_edits(draw):
    """A document and edits of it that do not overlap, as (path, edits of that one value)."""
    text = draw(spelling.document)
    value = json.loads(text)
    paths = [path for path in spelling.places(text) if path]
    chosen: list[tuple] = []
    for path in draw(st.permutations(paths)) if paths else []:
        if len(chosen) < 4 and not any(are_related(path, other) for other in chosen):
            chosen.append(path)
    edits: dict[tuple, list[Edit]] = {}
    for path in chosen:
        pointer, old = to_pointer(path), spelling.at(value, path)
        edits[path] = [replaced(pointer, draw(st.one_of(new_value, st.just(REMOVE))))]
        if isinstance(old, str) and draw(st.booleans()):
            cuts = sorted(draw(st.lists(st.integers(0, len(old)), min_size=2, max_size=4)))
            edits[path] = [
                replaced(pointer, draw(text_with_everything), (start, end))
                for start, end in zip(cuts[::2], cuts[1::2], strict=False)
            ]
    return text, edits


def on_the_value(value: object, edits: dict[tuple, list[Edit]]) -> object:
    """The same edits made on what the document means."""
    value = copy.deepcopy(value)
    last_first = sorted(edits, key=lambda path: [(str(type(s)), s) for s in path], reverse=True)
    for path in last_first:
        holder = spelling.at(value, path[:-1])
        for edit in reversed(edits[path]):
            if edit.new is REMOVE:
                del holder[path[-1]]
            elif edit.span is None:
                holder[path[-1]] = edit.new
            else:
                start, end = edit.span
                old = holder[path[-1]]
                holder[path[-1]] = old[:start] + edit.new + old[end:]
    return value


@given(text_and_edits())
@settings(max_examples=3 * settings().max_examples)
def test_edits_do_what_they_say_and_nothing_that_they_do_not_name_changes(case):
    """Law 1: all bytes outside the edited values survive; so do siblings of removed ones."""
    text, edits = case
    document, value = Document(text.encode()), json.loads(text)
    all_edits = [edit for made in edits.values() for edit in made]
    with small_steps():
        result = apply(document, all_edits)
    assert spelling.meant_by(result.decode()) == spelling.meaning(on_the_value(value, edits))
    entries = {path: document.entry(path) for path in spelling.places(text) if path}
    named = [
        (document.start, len(document.body)) if not path else entries[path][2:4]
        for path in (p[:-1] if made[0].new is REMOVE else p for p, made in edits.items())
    ]
    expected, at = b"", 0
    for start, end, new in sorted(splices_of(document, all_edits), key=lambda one: one[:2]):
        assert any(first <= start <= end <= last for first, last in named)
        for path, entry in entries.items():
            if not any(are_related(path, other) for other in edits):
                assert end <= entry.start or entry.end <= start
        expected, at = expected + document.body[at:start] + new, end
    assert result == expected + document.body[at:]
    for path, entry in entries.items():
        if not re.search("NaN|Infinity", spelling.meaning(entry.value)):
            same = replaced(to_pointer(path), spelling.at(value, path))
            assert apply(document, [same]) is document.body, "the very same object"


@st.composite
def any_edit(draw, text):
    """Mostly one that can be made by itself; at times of no place, with no JSON, or no span."""
    paths = [path for path in spelling.places(text) if path]
    odd = not paths or draw(st.integers(0, 9)) == 0
    path = () if odd else draw(st.sampled_from(paths))
    old = spelling.at(json.loads(text), path)
    pointer = draw(st.text("/~01aé-", max_size=4)) if odd else to_pointer(path)
    if isinstance(old, str) and draw(st.booleans()):
        span = tuple(sorted(draw(st.tuples(*[st.integers(0, len(old))] * 2))))
        return replaced(pointer, draw(text_with_everything), span)
    new = draw(st.one_of(new_value, st.just(REMOVE), st.sampled_from([float("nan"), b"bytes"])))
    return replaced(pointer, new, (0, 1) if odd and draw(st.booleans()) else None)


@given(spelling.document, st.data())
@settings(max_examples=2 * settings().max_examples)
def test_whatever_is_asked_is_done_or_refused(text, data):
    """Any edits of any places: a JSON object that says the same when read, or one of two errors."""
    document = Document(text.encode())
    edits = data.draw(st.lists(any_edit(text), max_size=4))
    try:
        result = apply(document, edits)
    except (EditError, PathError):
        assert document.body == text.encode()
        assert spelling.meaning(document.value) == spelling.meant_by(text)
        return
    assert spelling.meaning(Document(result).value) == spelling.meant_by(result.decode())
    if all(edit.span is None for edit in edits):
        assert apply(document, edits[::-1]) == result


@given(text_with_everything, spelling.inside_string, st.tuples(*[st.integers(0, 12)] * 2))
@example(HIGH, r"\ud83dX\ude00", (1, 2))
@example(LOW, r"\ud83dX\ude00", (1, 2))
@example("😀", r"\ud83d\ud83dX", (2, 3))
@example(HIGH + HIGH, r"X\ude00", (0, 1))
@example("", r"\ud83dX\ude00", (1, 2))
@example("ude00", r"\ud83dX", (1, 2))
def test_span_edits_keep_the_spelling_of_the_rest(new, literal, span):
    """Escapes outside survive as written; halves that meet read as the pair they spell."""
    spelt, old = spelling.characters(literal), json.loads(f'"{literal}"')
    start, end = sorted(min(place, len(old)) for place in span)
    result = edited(f'{{"a": "{literal}"}}', replaced("/a", new, (start, end)))
    assert result.startswith('{"a": "' + "".join(spelt[:start]))
    assert result.endswith("".join(spelt[end:]) + '"}')
    assert spelling.meant_by(result) == spelling.meaning({"a": old[:start] + new + old[end:]})
    result.encode()


@pytest.mark.parametrize("spaced", [False, True])
def test_removing_any_of_four_leaves_valid_json(spaced):
    """First, middle, last, several or all: commas and the others' text stay right."""
    comma = " ,\n " if spaced else ","
    elements = {"1.0": 1.0, '"\\u0061"': "a", "[ ]": [], '{"x" : 1}': {"x": 1}}
    spelled = [f'"k{number}" : {text}' for number, text in enumerate(elements)]
    for left in (list(compress(range(4), kept)) for kept in product([0, 1], repeat=4)):
        gone = [number for number in range(4) if number not in left]
        result = edited(f'{{"a": [{comma.join(elements)}]}}', *(removed(f"/a/{i}") for i in gone))
        assert json.loads(result) == {"a": [list(elements.values())[i] for i in left]}
        made = edited(f"{{ {comma.join(spelled)} }}", *(removed(f"/k{i}") for i in gone[::-1]))
        assert json.loads(made) == {f"k{i}": list(elements.values())[i] for i in left}
        assert all(spelled[i] in made for i in left)


TEXT = '{"s": "hello", "o": {"p": [1, 2], "q": "r"}, "l": [0]}'


DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]
CIRCLE: list = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "edit",
    [
        *(replaced("", new) for new in ({}, REMOVE)),
        replaced("", "x", (0, 0)),
        *(replaced(path, "x") for path in ("s", "SECRET text in the wrong place", None, ("s",))),
        *(replaced("/missing", new) for new in (REMOVE, 1)),
        *(replaced(f"/l/{step}", 1) for step in ("1", "-", "00", "9" * 5000, "0/x")),
        replaced("/s/0", "x"),
        *(replaced(path, "x", (0, 0)) for path in ("/missing", "/l", "/l/0")),  # is no text
        *(replaced("/s", "x", span) for span in ((0, 6), (-1, 2), (3, 2))),
        *(replaced("/s", new, (0, 1)) for new in (5, None, REMOVE)),
        *(replaced("/s", "x", span) for span in ((), (1,), (0, 1, 2), ("0", "1"), (0, None), 3)),
        replaced("/s", "x", (0.0, 1.0)),
        *(replaced("/s", float(new)) for new in ("nan", "inf")),
        *(replaced("/s", new) for new in ({"x": [float("nan")]}, b"bytes", object(), {1, 2})),
        *(replaced("/s", new) for new in ({(1, 2): 3}, {"deep": REMOVE}, 10**5000)),
        *(pytest.param(replaced("/s", new), id="deep") for new in (DEEP, CIRCLE)),
        *(None, "x", ("/s", "x", "why")),
        added("/s", 1),  # is there
        *(added(path, 1) for path in ("/l/1", "/l/00", "")),  # the end of an array is /l/-
        *(added(path, 1) for path in ("/l/0/b", "/x/y")),  # a number holds nothing
        added("/c", REMOVE),
        Edit("/c", "x", "for a test", (0, 0), adds=True),
    ],
)
def test_what_cannot_be_made_is_refused_and_changes_nothing(edit):
    """A wrong place or type is an EditError or PathError, also beside a good edit."""
    document = Document(TEXT.encode())
    for edits in ([edit], [removed("/o/p/1"), edit], [edit, replaced("/o/p/1", 5)]):
        with pytest.raises((EditError, PathError)) as raised:
            apply(document, edits)
        assert "SECRET" not in str(raised.value)
        assert "\n" not in str(raised.value)
    assert document.body == TEXT.encode()
    assert document.value == json.loads(TEXT)


def test_all_that_is_said():
    transcript.holds("edits.txt", globals())
