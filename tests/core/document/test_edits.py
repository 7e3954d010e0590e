"""apply(): only what an edit names changes."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import REMOVE, Edit, EditError, Raw, apply, encode, splice
from cacheproxy.core.document.pointer import PathError, to_pointer
from tests.core import spelling

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


@st.composite
def text_and_edits(draw):
    """A document and edits of it that do not overlap, as (path, edits of that one value)."""
    text = draw(spelling.document)
    value = json.loads(text)
    paths = [path for path in spelling.places(text) if path]
    chosen: list[tuple] = []
    for path in draw(st.permutations(paths)) if paths else []:
        related = any(path[: len(p)] == p or p[: len(path)] == path for p in chosen)
        if not related and len(chosen) < 4:
            chosen.append(path)
    edits: dict[tuple, list[Edit]] = {}
    for path in chosen:
        pointer, old = to_pointer(path), spelling.at(value, path)
        kinds = ["replace", "remove"] + ["span", "span"] * isinstance(old, str)
        kind = draw(st.sampled_from(kinds))
        if kind == "replace":
            edits[path] = [replaced(pointer, draw(new_value))]
        elif kind == "remove":
            edits[path] = [replaced(pointer, REMOVE)]
        else:
            cuts = draw(st.lists(st.integers(0, len(old)), min_size=2, max_size=4))
            cuts = sorted(cuts[: len(cuts) // 2 * 2])
            edits[path] = [
                replaced(pointer, draw(text_with_everything), (start, end))
                for start, end in zip(cuts[::2], cuts[1::2], strict=True)
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


def moved(path: tuple, edits: dict[tuple, list[Edit]]) -> tuple:
    """Where ``path`` is after the removals before it in its arrays."""
    gone = [other for other, made in edits.items() if made[0].new is REMOVE]
    steps: list = []
    for depth, step in enumerate(path):
        if isinstance(step, int):
            before = {o[depth] for o in gone if len(o) == depth + 1 and o[:depth] == path[:depth]}
            steps.append(step - sum(1 for other in before if other < step))
        else:
            steps.append(step)
    return tuple(steps)


def masked(text: str, spans: list[tuple[int, int]]) -> str:
    """``text`` with the outermost of ``spans`` taken out."""
    pieces, position = [], 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= position:
            pieces += [text[position:start], "\0"]
            position = end
    return "".join([*pieces, text[position:]])


@given(text_and_edits())
@settings(max_examples=4 * settings().max_examples)
def test_edits_do_to_the_text_what_they_say_of_the_value(case):
    """The edited text means what the same edits make of the parsed value."""
    text, edits = case
    result = edited(text, *(edit for made in edits.values() for edit in made))
    assert spelling.meant_by(result) == spelling.meaning(on_the_value(json.loads(text), edits))
    result.encode()


@given(text_and_edits())
@settings(max_examples=4 * settings().max_examples)
def test_nothing_that_no_edit_names_changes(case):
    """Law 1: all bytes outside the edited values survive; so do siblings of removed ones."""
    text, edits = case
    result = edited(text, *(edit for made in edits.values() for edit in made))
    before, after = spelling.places(text), spelling.places(result)
    touched = [p[:-1] if made[0].new is REMOVE else p for p, made in edits.items()]
    assert masked(text, [before[path] for path in touched]) == masked(
        result, [after[moved(path, edits)] for path in touched]
    )
    related = set()
    for path in edits:
        related |= {path[:length] for length in range(len(path) + 1)}
    for path, (start, end) in before.items():
        below = any(path[: len(other)] == other for other in edits)
        if path not in related and not below:
            new_start, new_end = after[moved(path, edits)]
            assert result[new_start:new_end] == text[start:end]


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
@settings(max_examples=4 * settings().max_examples)
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


@given(text_and_edits())
def test_making_no_edits_or_empty_ones_gives_the_same_object(case):
    """Without a change the text itself comes back, not a copy."""
    text, _ = case
    body = text.encode()
    document = Document(body)
    assert apply(document, ()) is body
    for path in spelling.places(text):
        if path:
            old = spelling.at(json.loads(text), path)
            if not any(word in spelling.meaning(old) for word in ("NaN", "Infinity")):
                assert apply(document, [replaced(to_pointer(path), old)]) is body


@given(text_with_everything, st.data())
def test_span_edits_keep_the_spelling_of_the_rest(new, data):
    """Escapes outside the span survive as they were written."""
    literal = data.draw(spelling.inside_string)
    spelt = spelling.characters(literal)
    start = data.draw(st.integers(0, len(spelt)))
    end = data.draw(st.integers(start, len(spelt)))
    result = edited(f'{{"a": "{literal}"}}', replaced("/a", new, (start, end)))
    head, tail = "".join(spelt[:start]), "".join(spelt[end:])
    assert result.startswith('{"a": "' + head)
    assert result.endswith(tail + '"}')
    middle = result[len('{"a": "' + head) : len(result) - len(tail + '"}')]
    assert spelling.meant_by(f'"{middle}"') == spelling.meaning(new)


@given(new_value)
@settings(max_examples=3 * settings().max_examples)
def test_encode_is_json_that_utf8_can_carry(value):
    """Whatever is encoded can be read back, and sent."""
    text = encode(value)
    assert text.encode()
    assert spelling.meant_by(text) == spelling.meaning(value)


def test_text_stays_readable_unless_it_has_lone_surrogates():
    """Only a text with a lone surrogate is spelled in escapes."""
    assert encode("é😀") == '"é😀"'
    assert encode({"é": ["😀"]}) == '{"é":["😀"]}'
    assert encode("é\ud83d") == r'"\u00e9\ud83d"'


@pytest.mark.parametrize("keep", range(16))
@pytest.mark.parametrize("spaced", [False, True])
def test_removing_any_of_four_leaves_valid_json(keep, spaced):
    """First, middle, last, several or all: commas and the others' text stay right."""
    comma = " ,\n " if spaced else ","
    gone = [i for i in range(4) if not keep >> i & 1]
    left = [i for i in range(4) if keep >> i & 1]
    elements = comma.join(["1.0", '"\\u0061"', "[ ]", '{"x" : 1}'])
    result = edited(f'{{"a": [{elements}]}}', *(replaced(f"/a/{i}", REMOVE) for i in gone))
    all_elements = [1.0, "a", [], {"x": 1}]
    assert json.loads(result) == {"a": [all_elements[i] for i in left]}
    members = comma.join(f'"k{i}" : {i}.0' for i in range(4))
    result = edited(f"{{ {members} }}", *(replaced(f"/k{i}", REMOVE) for i in reversed(gone)))
    assert json.loads(result) == {f"k{i}": float(i) for i in left}
    for i in left:
        assert f'"k{i}" : {i}.0' in result


def test_removing_takes_all_duplicates():
    """A removed member is gone, however often its name stood there."""
    text = '{"a": 1, "b": 2, "\\u0061": [3], "c": {"a": 1}}'
    assert edited(text, replaced("/a", REMOVE)) == '{"b": 2, "c": {"a": 1}}'


def test_edits_of_duplicates_change_the_one_that_counts():
    """Of duplicate keys the last one is edited; the others keep their text."""
    text = '{"a": {"x": 1}, "b": 2, "a": {"x": 1}}'
    assert edited(text, replaced("/a/x", 5)) == '{"a": {"x": 1}, "b": 2, "a": {"x":5}}'.replace(
        '"x":5', '"x": 5'
    )


def test_removing_beside_an_edited_neighbour():
    """A neighbour may be edited while an element goes."""
    text = '{"a": [ "one" , "two" , "three" ]}'
    result = edited(
        text,
        replaced("/a/0", "ONE"),
        replaced("/a/1", REMOVE),
        replaced("/a/2", "ree", (2, 5)),
    )
    assert result == '{"a": [ "ONE" , "three" ]}'
    last = edited(text, replaced("/a/2", REMOVE), replaced("/a/1", 5))
    assert last == '{"a": [ "one" , 5 ]}'


@pytest.mark.parametrize(
    "edits",
    [
        [replaced("/s", "x"), replaced("/s", "y")],
        [replaced("/s", "hellp"), replaced("/s", "jello")],
        [replaced("/s", "x"), replaced("/s", "x")],
        [replaced("/s", "x"), replaced("/s", "y", (0, 1))],
        [replaced("/s", "hello"), replaced("/s", "y", (0, 1))],
        [replaced("/s", REMOVE), replaced("/s", "x")],
        [replaced("/s", "x"), replaced("/s", REMOVE)],
        [replaced("/s", REMOVE), replaced("/s", "", (1, 1))],
        [replaced("/s", "x", (0, 3)), replaced("/s", "y", (2, 4))],
        [replaced("/s", "x", (0, 3)), replaced("/s", "y", (1, 1))],
        [replaced("/s", "x", (0, 3)), replaced("/s", "y", (0, 3))],
        [replaced("/o", 1), replaced("/o/p/0", 2)],
        [replaced("/o/p/0", 2), replaced("/o", 1)],
        [replaced("/o", {"p": [1, 2]}), replaced("/o/p/0", 2)],
        [replaced("/o", REMOVE), replaced("/o/p", 2)],
        [replaced("/o/p", REMOVE), replaced("/o/p/1", REMOVE)],
        [replaced("/o", 1), replaced("/o/q", "x", (0, 0))],
    ],
)
def test_overlapping_edits_are_refused(edits):
    """Two edits of the same text are an error, whatever the values are, and nothing changes."""
    text = '{"s": "hello", "o": {"p": [1, 2], "q": "r"}}'
    document = Document(text.encode())
    with pytest.raises(EditError, match="overlap"):
        apply(document, edits)
    assert document.body == text.encode()
    assert apply(document, edits[:1])


def test_splices_may_touch_but_not_overlap():
    """By a byte, even."""
    assert splice(b"abcd", [Splice(2, 3, b"y"), Splice(0, 2, b"x")]) == b"xyd"
    with pytest.raises(EditError, match="overlap"):
        splice(b"abcd", [Splice(1, 3, b"y"), Splice(0, 2, b"x")])


def test_removing_one_place_twice_is_removing_it():
    """REMOVE says the same twice."""
    twice = [replaced("/a/0", REMOVE), replaced("/a/0", REMOVE)]
    assert edited('{"a": [1, 2]}', *twice) == '{"a": [2]}'


def test_touching_spans_do_not_overlap_and_keep_their_order():
    """Spans may touch; insertions at one place go in in the order given."""
    text = '{"s": "hello"}'
    assert edited(text, replaced("/s", "H", (0, 1)), replaced("/s", "E", (1, 2))) == (
        '{"s": "HEllo"}'
    )
    assert edited(text, replaced("/s", "z", (2, 2)), replaced("/s", "a", (2, 2))) == (
        '{"s": "hezallo"}'
    )
    assert edited(text, replaced("/s", "Z", (2, 4)), replaced("/s", "a", (2, 2))) == (
        '{"s": "heaZo"}'
    )


@pytest.mark.parametrize(
    "edit",
    [
        replaced("", {}),
        replaced("", REMOVE),
        replaced("", "x", (0, 0)),
        replaced("s", "x"),
        replaced("SECRET text in the wrong place", "/s"),
        replaced(None, "x"),
        replaced(("s",), "x"),
        replaced("/missing", REMOVE),
        replaced("/missing", 1),
        replaced("/missing", "x", (0, 0)),
        replaced("/a/2", 1),
        replaced("/a/-", 1),
        replaced("/a/01", 1),
        replaced("/a/" + "9" * 5000, 1),
        replaced("/s/0", "x"),
        replaced("/a/0/x", 1),
        replaced("/a/0", "x", (0, 0)),
        replaced("/a", "x", (0, 0)),
        replaced("/s", "x", (0, 6)),
        replaced("/s", "x", (-1, 2)),
        replaced("/s", "x", (3, 2)),
        replaced("/s", 5, (0, 1)),
        replaced("/s", None, (0, 1)),
        replaced("/s", REMOVE, (0, 1)),
        replaced("/s", "x", ()),
        replaced("/s", "x", (1,)),
        replaced("/s", "x", (0, 1, 2)),
        replaced("/s", "x", ("0", "1")),
        replaced("/s", "x", (0, None)),
        replaced("/s", "x", (0.0, 1.0)),
        replaced("/s", "x", 3),
        replaced("/s", float("nan")),
        replaced("/s", float("inf")),
        replaced("/s", {"x": [float("nan")]}),
        replaced("/s", b"bytes"),
        replaced("/s", object()),
        replaced("/s", {1, 2}),
        replaced("/s", {(1, 2): 3}),
        replaced("/s", {"deep": REMOVE}),
        replaced("/s", 10**5000),
        None,
        "x",
        ("/s", "x", "why"),
    ],
)
def test_what_cannot_be_made_is_refused_and_changes_nothing(edit):
    """A wrong place or type is an EditError or PathError, also beside a good edit."""
    text = '{"s": "hello", "a": [1, 2]}'
    document = Document(text.encode())
    for edits in ([edit], [replaced("/a/1", REMOVE), edit], [edit, replaced("/a/1", 5)]):
        with pytest.raises((EditError, PathError)) as raised:
            apply(document, edits)
        assert "SECRET" not in str(raised.value)
        assert "\n" not in str(raised.value)
    assert document.body == text.encode()
    assert document.value == json.loads(text)


def test_new_value_nested_too_deeply_is_refused():
    """A value that cannot be written is an EditError; so is one that holds itself."""
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    circle: list = []
    circle.append(circle)
    for new in (deep, circle):
        with pytest.raises(EditError):
            edited('{"s": 1}', replaced("/s", new))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("[1]", [True], "[true]"),
        ("[0]", [0.0], "[0.0]"),
        ("true", 1, "1"),
        ("1.0", 1, "1"),
        ("0.0", -0.0, "-0.0"),
        ('{"a": false}', {"a": 0}, '{"a":0}'),
        ('{"b": 1, "a": 2}', {"a": 2, "b": 1}, '{"a":2,"b":1}'),
        ("NaN", None, "null"),
        ("[NaN]", [None], "[null]"),
    ],
)
def test_values_that_python_calls_equal_are_told_apart(old, new, changed):
    """1 is not true, and the order of members is part of a prompt."""
    assert edited(f'{{"x": {old}}}', replaced("/x", new)) == f'{{"x": {changed}}}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1e5", 100000.0),
        ("1.50", 1.5),
        (r'"\u0061\/"', "a/"),
        ('{ "a" : [ 1 , 2 ] }', {"a": [1, 2]}),
        ("[ ]", ()),
        ("[ 1 ]", (1,)),
        (r'"\ud83d"', "\ud83d"),
    ],
)
def test_same_value_in_another_spelling_is_no_change(old, new):
    """A replacement that says the same keeps the text, and its object."""
    document = Document(f'{{"x": {old}}}'.encode())
    assert apply(document, [replaced("/x", new)]) is document.body


def test_edits_that_cancel_each_other_give_the_same_object():
    """A text spliced into itself is no change."""
    document = Document(b'{"x": "aaa"}')
    edits = [replaced("/x", "", (0, 1)), replaced("/x", "a", (2, 2))]
    assert apply(document, edits) is document.body


def test_replacing_a_string_keeps_what_both_share():
    """Only the differing middle of a replaced string is written anew."""
    text = r'{"x": "\u0061\u0062c\u0064\u0065"}'
    assert edited(text, replaced("/x", "abXde")) == r'{"x": "\u0061\u0062X\u0064\u0065"}'


@pytest.mark.parametrize("raw", [r"\ud83dX\ude00", r"X\ude00", r"\ud83dX", r"\ud83d\ud83dX"])
@pytest.mark.parametrize("new", [HIGH, LOW, "😀", HIGH + HIGH, "", "ude00"])
def test_replacement_beside_a_lone_surrogate_keeps_it(raw, new):
    """The surrogates around stay as written; halves that meet read as the pair they spell."""
    at = raw.index("X")
    start = len(spelling.characters(raw[:at]))
    result = edited(f'{{"x": "{raw}"}}', replaced("/x", new, (start, start + 1)))
    assert result.startswith('{"x": "' + raw[:at])
    assert result.endswith(raw[at + 1 :] + '"}')
    old = json.loads(f'"{raw}"')
    assert spelling.meant_by(result) == spelling.meaning(
        {"x": old[:start] + new + old[start + 1 :]}
    )
    result.encode()


@pytest.mark.slow
def test_deep_places_can_be_edited():
    """A place 900 levels down is edited like any other."""
    depth = 900
    text = '{"a": ' + "[" * depth + '"x"' + "]" * depth + "}"
    result = edited(text, replaced("/a" + "/0" * depth, "y"))
    assert result == text.replace("x", "y")


def strings_of(value: object, path: tuple = ()):
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings_of(item, (*path, step))


def test_every_string_of_captured_bodies_can_be_edited_and_back(captured):
    """An insertion in every string of a real body, then its reverse, gives the original bytes."""
    mark = 'é"\\\ud83d'
    for name, requests in captured.items():
        for request in requests[:1] + requests[-1:]:
            document = request.document
            places = [
                (to_pointer(path), len(text) // 2) for path, text in strings_of(document.value)
            ]
            there = apply(document, [replaced(pointer, mark, (at, at)) for pointer, at in places])
            assert there != document.body
            back = apply(
                Document(there),
                [replaced(pointer, "", (at, at + len(mark))) for pointer, at in places],
            )
            assert back == request.body, name


def added(path: str, new: object) -> Edit:
    return Edit(path, new, "for a test", adds=True)


@pytest.mark.parametrize(
    ("text", "edits", "expected"),
    [
        ('{ "a" : 1 }', [added("/b", [2])], '{ "a" : 1,"b":[2] }'),
        ("{}", [added("/é", "x")], '{"é":"x"}'),
        ('{"a": {}, "b":1}', [added("/a/c", None)], '{"a": {"c":null}, "b":1}'),
        ('{"a": []}', [added("/a/-", 1), added("/a/-", 1)], '{"a": [1,1]}'),
        ('{"a": [ 1.0 ]}', [added("/a/-", {"x": 1})], '{"a": [ 1.0,{"x":1} ]}'),
        ('{"a": {"~": 1}}', [added("/a/~0~1", 2)], '{"a": {"~": 1,"~/":2}}'),
        ('{"a": [1, 2]}', [replaced("/a/1", REMOVE), added("/a/-", 3)], '{"a": [1,3]}'),
        ('{"a": ["x"]}', [replaced("/a/0", "y", (1, 1)), added("/a/-", 3)], '{"a": ["xy",3]}'),
        ('{"a": ["x"]}', [replaced("/a/0", 5), added("/a/-", 3)], '{"a": [5,3]}'),
    ],
)
def test_something_is_added_behind_what_there_is(text, edits, expected):
    assert edited(text, *edits) == expected


@pytest.mark.parametrize(
    ("text", "edits", "expected"),
    [
        ('{"a": [ 1 , 2 ]}', [added("/a/1", 3)], '{"a": [ 1 , 3,2 ]}'),
        ('{"a": [1]}', [added("/a/0", "x"), added("/a/0", "y")], '{"a": ["x","y",1]}'),
        ('{"a": [1]}', [added("/a/-", 9), added("/a/0", Raw("2.0"))], '{"a": [2.0,1,9]}'),
        ('{"a": [1, 2]}', [replaced("/a/0", REMOVE), added("/a/1", 3)], '{"a": [3,2]}'),
        ('{"a": [[0], "x"]}', [added("/a/0/0", {}), added("/a/1", 3)], '{"a": [[{},0], 3,"x"]}'),
        (
            '{"a": [1, "x"]}',
            [replaced("/a/1", "y", (0, 0)), added("/a/1", 3)],
            '{"a": [1, 3,"yx"]}',
        ),
    ],
)
def test_an_element_is_added_before_the_one_that_is_named(text, edits, expected):
    """As in RFC 6902, but all places are those of the body before."""
    assert edited(text, *edits) == expected


@pytest.mark.parametrize(
    "edits",
    [
        [added("/a", 1)],  # is there
        [added("/c", 1), added("/c", 2)],
        [added("/l/1", 1)],  # the end of an array is /l/-
        [added("/l/00", 1)],
        [replaced("/l/0", REMOVE), added("/l/0", 1)],
        [replaced("/l", []), added("/l/0", 1)],
        [added("/a/b", 1)],  # a number holds nothing
        [added("", 1)],
        [added("/x/y", 1)],
        [added("/c", REMOVE)],
        [replaced("/l", []), added("/l/-", 1)],
        [replaced("/l/0", REMOVE), added("/l/-", 1)],  # nothing to come behind
        [Edit("/c", "x", "for a test", (0, 0), adds=True)],
    ],
)
def test_what_cannot_be_added_is_an_error(edits):
    with pytest.raises((EditError, PathError)):
        edited('{"a": 1, "l": [0]}', *edits)


def test_a_value_keeps_the_spelling_that_it_is_given():
    text = '{"a": {"x":1.0,  "y":"é"}, "b": [3]}'
    assert edited(text, replaced("/a", Raw('{ "y":"\\u00e9", "x":1.0 }'))) == (
        '{"a": { "y":"\\u00e9", "x":1.0 }, "b": [3]}'
    )
    assert edited(text, replaced("/a", Raw('{"x":1.0,  "y":"é"}'))) == text
    assert edited(text, added("/b/-", Raw("4.50"))) == '{"a": {"x":1.0,  "y":"é"}, "b": [3,4.50]}'
