"""Document against json.loads, and against an independent reader of places."""

import json
import re
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cacheproxy.core.document import reader
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.pointer import PathError
from cacheproxy.core.document.reader import NotUnderstoodError, parsed
from cacheproxy.core.document.words import Literals, Words
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from tests.core import spelling
from tests.core.memories import small_steps

texts = st.text(alphabet="ab", max_size=8)
bodies = st.fixed_dictionaries(
    {"model": texts, "system": texts, "messages": st.lists(texts, max_size=5)}
)
words = st.text(alphabet="ab", min_size=1, max_size=4)


def read(text: str) -> Document:
    return Document(text.encode())


def not_understood(body: bytes) -> str:
    request = Request("POST", "/v1/messages", body=body)
    assert request.document is None
    assert request.json is None
    assert request.not_understood is not None
    return request.not_understood


@given(spelling.document, st.randoms())
@settings(max_examples=3 * settings().max_examples)
def test_a_document_means_what_json_loads_says_and_each_entry_stands_where_it_says(text, random):
    """At every depth, duplicates and NaN included, whatever was looked at first."""
    with small_steps():
        document, places = read(text), spelling.places(text)
    assert spelling.meaning(document.value) == spelling.meant_by(text)
    for path in random.sample(list(places), len(places)):
        if not path:
            continue
        start, end = places[path]
        entry = document.entry(path)
        assert document.body[entry.value_start : entry.end].decode() == text[start:end]
        assert entry.value_start == len(text[:start].encode())
        assert spelling.meant_by(text[start:end]) == spelling.meaning(entry.value)
        assert document.body[entry.start : entry.start + 1] not in b" \t\r\n,"
        assert entry.key == path[-1]
        assert document.get(path) is entry.value


@given(spelling.document)
@example('{"a": ["é😀", {"b\\ud83d\\ude00": -1.5e+10}], "c": [true, null, []]}')
def test_cut_at_any_byte_is_not_understood(text):
    """With a reason, never with another exception; also inside a UTF-8 sequence or an escape."""
    whole = text.rstrip().encode()
    for end in range(len(whole)):
        not_understood(whole[:end])
    assert Document(whole)


def read_with(body: bytes, memo: Memo, kept: list[Document]) -> None:
    """``kept``: documents that were read before; what the last one does not share is read."""
    for edited in (None, *kept[-1:]):
        try:
            expected = Document(body)
        except NotUnderstoodError as refused:
            with pytest.raises(NotUnderstoodError, match=re.escape(str(refused))):
                Document(body, memo, edited=edited)
        else:
            kept.append(Document(body, memo, edited=edited))
            assert spelling.everything(kept[-1]) == spelling.everything(expected)


turns = st.lists(st.one_of(spelling.document, spelling.document.map(str.strip)), max_size=3)


@given(turns, st.data())
@settings(max_examples=2 * settings().max_examples)
def test_whatever_came_before_a_body_is_read_the_same(texts, data):
    """Values, places at every depth and reasons do not depend on what the memo knows."""
    memo, kept = Memo(), list[Document]()
    with small_steps():
        for text in texts:
            changed = data.draw(st.one_of(st.just(text), altered(text)))
            for body in (text.encode(), changed.encode(), text.encode()):
                read_with(body, memo, kept)


@st.composite
def altered(draw: st.DrawFn, text: str) -> str:
    """``text`` with a piece of it taken out, doubled or replaced: JSON perhaps no more."""
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    piece = draw(
        st.one_of(st.just(""), st.just(text[start:end] * 2), spelling.value, st.sampled_from(SIGNS))
    )
    return text[:start] + piece + text[end:]


SIGNS = [*'{}[]",:1 \n\\é', '","', "],[", "},{", '":"', "]", "1,", ',"a":', "é"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 12, "b": 1}', '{"a": 123, "b": 1}'),
        ('{"a": 1}', '{"a": 12}'),
        ('{"a": [1, 12]}', '{"a": [1, 123]}'),
        ('{"a": [1, 2], "b": [3]}', '{"a": [1, [2], "b", [3]]}'),
        ('{"a": [1, 2, 3]}', '{"a": {"x": 1, "2": 2}, "b": [2, 3]}'),
        ('{"a": ["x", "y", "z"], "b": 1}', '{"a": ["x", {"y": "z"}], "b": 1}'),
        ('{"a": ["x", {"y": "z"}], "b": 1}', '{"a": ["x", "y", "z"], "b": 1}'),
        ('{"a": [1], "b": 1}', '{"a": [1]}, "b": 1}'),
        ('{"a": [1], "b": 1}', '{"a": 1], "b": 1}'),
        ('{"a": 1, "b": 2}', '{"a": 1} "b": 2}'),
        ('{"a": 1, "b": 2}', '{"a": 1} , "b": 2}'),
        ('{"a": [1, 2, 3]}', '{"a": [1, , 2, 3]}'),
        ('{"a": [1, 2, 3]}', '{"a": [1 2, 3]}'),
        ('{"a": [1, 2], "a": 5}', '{"a": [1, 2, 3], "a": 5}'),
        ('{"a": 5, "a": [1, 2]}', '{"a": 6, "a": [1, 2]}'),
        ('{"a": 5, "a": [1, 2]}', '{"a": 5, "b": [1, 2]}'),
        ('{"é": ["ü"], "x": ["ö"]}', '{"é": ["ü", "ï"], "x": ["ö"]}'),
        ('{"x": ["ö", 1]}', '{"x": ["öé", 1]}'),
        (' {"a": 1}', '{"a": 1}'),
        ('{"a": 1, "b": 2}', '{"a":  1, "b": 2}'),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2, "c": 3}'),
        ('{"a": 1} ', '{"a": 1}  '),
        ('{"a": 1}', '{"a": 1} x'),
        ('{"a": [1, 2], "b": {}}', '{"a": [1, 2] "b": {}}'),
        ('{"a": [1, 2], "b": {}}', '{"a": [1, 2, 2, 2], "b": {"c": 1}}'),
        ('{"a": {"b": 1, "c": 2}}', '{"a": {"b": 1, "d": 3, "c": 2}}'),
        ('{"a": "x"}', '{"a": "x", "a": "x"}'),
    ],
)
def test_bodies_that_look_alike_are_told_apart(before, after):
    """Where both have the same bytes, but not in the same place of the same container."""
    memo, kept = Memo(), list[Document]()
    with small_steps():
        for text in (before, after, before):
            read_with(text.encode(), memo, kept)


def test_a_body_of_the_same_members_as_one_that_is_kept_is_compared_and_not_read():
    memo, kept = Memo(), list[Document]()
    body = (
        b'{"model": "m", "max_tokens": 100, "messages": [%s], "stream": true, "user": "somebody"}'
    )
    for messages, scanned in ((b"1", 21), (b"1", 0), (b"2", 1), (b"2, 3", 2)):
        kept.append(Document(body % messages, memo))
        assert kept[-1].scanned == scanned
    kept.clear()  # a memo keeps none
    assert Document(body % b"2, 3", memo).scanned > 20


def test_what_is_only_compared_stays_known_to_all():
    """Others' messages fill the memo; its tools are found by a new conversation."""
    memo, tools = Memo(20_000), [{"name": f"t{n}", "description": "word " * 40} for n in range(3)]

    def body(text):
        value = {"model": "m", "tools": tools, "messages": [text * 99], "stream": True}
        return json.dumps(value).encode()

    for number in range(60):
        kept = Document(body("own"), memo)
        Document(json.dumps({"messages": [f"{number} others'" * 99]}).encode(), memo)
    assert kept.scanned == 0
    assert Document(b" " + body("new"), memo).scanned < len(str(tools))


def test_what_is_known_counts_too(monkeypatch):
    """The bound on members and elements is that of the whole body."""
    monkeypatch.setattr(reader, "MOST_ENTRIES", 6)
    memo = Memo()
    Document(b'{"a": [0, 0, 0, 0, 0]}', memo)
    for text in (b'{"a": [0, 0, 0, 0, 0, 0]}', b'{"a": [0, 0, 0, 0, 0], "b": 0}'):
        with pytest.raises(NotUnderstoodError, match="too many"):
            Document(text, memo)
    assert Document(b'{"a": [0, 0, 0, 0, 1]}', memo).value == {"a": [0, 0, 0, 0, 1]}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([{"role": "user", "content": "text " * 99}] * 99, id="messages"),
        pytest.param([{"role": "user", "content": "→ text " * 99}] * 99, id="arrows"),
        pytest.param([{"role": "user", "content": "text " * 999 + "😀"}] * 99, id="emojis"),
        pytest.param([{"role": "user", "content": "a, [b] {c}: " * 999}] * 99, id="signs"),
        pytest.param([[]] * 900, id="lists of nothing"),
        pytest.param({f"{number:x}": [] for number in range(900)}, id="members"),
        pytest.param([[{"a": 1}] * 900], id="small objects"),
        pytest.param([[json.loads("[" * 300 + "]" * 300)] * 20], id="deep"),
        pytest.param([[f"{number}" for number in range(900)]], id="short texts"),
    ],
)
@pytest.mark.parametrize("escaped", [False, True])
def test_what_it_costs_is_what_python_holds(value, escaped):
    """With what a prompt makes of it: within a third; of lists of nothing, the fourth part."""
    body = json.dumps({"messages": value}, separators=(",", ":"), ensure_ascii=escaped).encode()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    memo = Memo()
    prompt_of(Request("POST", "/v1/messages", (), body, memo))
    held = tracemalloc.get_traced_memory()[0] - before + len(body)
    tracemalloc.stop()
    assert held / 1.3 < memo.bytes_stored < 4 * held


@given(st.text(alphabet='{}[]",:\\u0aeE+-. \nnulltrue\x00é😀', max_size=40))
@settings(max_examples=3 * settings().max_examples)
def test_either_agrees_with_json_loads_or_is_not_understood(text):
    """Any text at all is read as json.loads reads it, or is not understood."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict):
        assert spelling.meaning(read(text).value) == spelling.meaning(value)
    else:
        with pytest.raises(NotUnderstoodError):
            read(text)


DEEP = 200_000


@pytest.mark.parametrize(
    ("why", "bodies"),
    [
        ("not a JSON object", [b"", b"   ", b"[]", b'"SECRET"', b"null", b'\xef\xbb\xbf{"a": 1}']),
        (
            "text after the JSON object",
            [b'{"SECRET": 1} SECRET', b'{"a": 1}}', b'{"a": 1}{"b": 1}'],
        ),
        ("a colon is missing", [b'{"SECRET" 1}']),
        ("a comma is missing", [b'{"SECRET": 1 "b": 2}', b'{"SECRET": 01}']),
        (
            "a member name is missing",
            [b"{SECRET: 1}", b"{'SECRET': 1}", b'{"a": 1,}', b'{\xc2\xa0"a": 1}'],
        ),
        ("cut off, or not JSON", [b'{"SECRET": [1,]}', b'{"SECRET": SECRET}']),
        ("Invalid control character at", [b'{"a": "a\nSECRET"}', b'{"a": "a\x00SECRET"}']),
        ("Invalid \\escape", [b'{"SECRET": {"x": {"y": "\\q SECRET"}}}']),
        ("Invalid \\uXXXX escape", [b'{"SECRET": "\\u12G4 SECRET"}']),
        ("Unterminated string starting at", [b'{"SECRET": "unended']),
        ("Expecting ',' delimiter", [b'{"SECRET": [[[1 2]]]}']),
        ("not UTF-8", [b'{"SECRET": "\xff"}', b'{"SECRET": "\xed\xa0\xbd"}']),
        (
            "nested too deeply",
            [b'{"x": ' + b"[" * DEEP, b'{"x": ' + b"[" * DEEP + b"]" * DEEP + b"}"],
        ),
        ("nested too deeply", [b'{"a":' * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP]),
        ("Exceeds the limit", [b'{"a": [' + b"7" * 5000 + b"]}"]),
    ],
    ids=lambda said: said if isinstance(said, str) else "",
)
def test_reason_names_the_fault_and_quotes_nothing(why, bodies):
    """What is said of a body that cannot be read holds no word of it."""
    for body in bodies:
        reason = not_understood(body)
        assert reason.partition(" (")[0] == why, body[:40]  # Python's limit has a number there
        assert not re.search("SECRET|\n|777", reason)


def test_too_many_values_are_not_understood(monkeypatch):
    """The two outermost levels are counted together; deeper down there may be more (see below)."""
    monkeypatch.setattr(reader, "MOST_ENTRIES", 6)
    for text in (
        '{"a": [0, 0, 0, 0, 0]}',
        '{"a": [0, 0], "b": {"c": 0, "c": 0}}',
        '{"a": 0, "b": 0, "c": 0, "a": 0, "b": 0, "c": 0}',
        '{"a": [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]}',
    ):
        document = read(text)
        assert spelling.meaning(document.value) == spelling.meant_by(text)
        assert all(document.entry(path) for path in spelling.places(text) if path)
        for more in (text[:-1] + ', "d": 0, "e": 0, "f": 0, "g": 0, "h": 0}', text + "]"):
            with pytest.raises(NotUnderstoodError):
                read(more)
    assert not_understood(b'{"a": [0, 0, 0], "b": [0, 0]}') == "too many members and elements"
    assert not_understood(b'{"a": [0, 0, 0, 0, 0, 0]}') == "too many members and elements"


def test_too_many_blocks_are_not_understood(monkeypatch):
    """However deep the lists are; members of objects, of which a message has many, do not count."""
    monkeypatch.setattr(reader, "MOST_LISTED", 6)
    text = '{"a": [{"b": [0, {"c": 0, "d": 0}]}, {"e": {"f": [[0, 0%s]]}, "g": 0, "h": 0}], "i": 0}'
    assert read(text % ", 0").value == json.loads(text % ", 0")
    assert not_understood((text % ", 0, 0").encode()) == "too many elements in its lists"


def test_a_path_into_nothing_a_scalar_or_of_the_wrong_step_is_a_path_error():
    """Of duplicate keys the last counts: no places are left of a container that was the first."""
    document = read('{"d": [1, {"b": 2}], "a": [1, {"b": 2}], "s": "text", "d": "x"}')
    assert document.get(("d",)) == "x"
    for path in (
        *((), ("x",), (0,), ("a", 2), ("a", -1), ("a", "0"), ("a", 0, "x"), ("a", 1, 0)),
        *(("a", 1, "b", "c"), ("s", 0), ("x", "y", "z"), ("d", 0), ("d", 1, "b")),
    ):
        with pytest.raises(PathError):
            document.entry(path)


def test_digits_are_an_index_in_an_array_and_a_name_in_an_object():
    document = read('{"a": [1, {"0": 2}]}')
    assert [document.resolve(segments) for segments in ([], ["a"], ["a", "1", "0"])] == [
        *((), ("a",), ("a", 1, "0"))
    ]
    for step in ("2", "-1", "01", "x"):
        with pytest.raises(PathError):
            document.resolve(["a", step])


@pytest.mark.slow
def test_places_deep_down_are_found_without_deep_recursion():
    """As deep as the body could be read, its places can be found from a deeper stack too."""
    depth = 900
    text = '{"a": ' + "[" * depth + '"x"' + "]" * depth + "}"
    path = ("a", *[0] * depth)
    edited = apply(read(text), [Edit("/a" + "/0" * depth, "y", "")])
    assert edited == text.replace("x", "y").encode()

    def deeper(frames: int):
        if frames:
            return deeper(frames - 1)
        try:
            return read(text).entry(path).value
        except (PathError, NotUnderstoodError):
            return "x"

    assert deeper(400) == "x"


@given(st.lists(bodies, min_size=1, max_size=4), st.lists(words, min_size=1), st.data())
@settings(max_examples=2 * settings().max_examples)
def test_a_text_is_in_the_body_or_not_whatever_came_before(turns, asked, data):
    """With a memo and without, in whatever order texts are asked for, whoever looks for which."""
    memo, known_words = Memo(), [Words(), Words(asked[:2]), Words(asked[1:])]
    with small_steps():
        for value in turns:
            body = json.dumps(value).encode()
            own, found = data.draw(st.sampled_from(known_words)), Document(body, memo)
            known = Literals(body, own, found.short(), found.root.items)
            plain = Literals(body, Words())
            assert known.present == {word for word in own.known if word in plain}
            for word in data.draw(st.lists(st.sampled_from(asked))):
                assert (word in known) is (word in plain) is (word.encode() in body)
                pattern = re.compile(word.encode() + b"?(a|bb)")
                assert known.match(pattern) is plain.match(pattern)


def test_a_text_that_another_thread_asks_for_meanwhile_is_found():
    """It is one of the known ones while the body has not been searched for it."""

    class Meanwhile(Words):
        def found_in(self, text, parts=()):
            found = super().found_in(text, parts)
            self.learn("b")
            return found

    assert "b" in Literals(b"ab", Meanwhile(["a"]))


def test_a_body_that_is_not_understood_is_searched_all_the_same():
    """So is one whose API we do not know, and any number of texts is found."""
    memo = Memo()
    for path, body in (("/v1/messages", b"{here"), ("/other", b"here")):
        literals = Request("POST", path, (), body, memo).literals
        assert "here" in literals
        assert "there" not in literals
    request = Request("POST", "/v1/messages", (), b'{"system": "w999 %b"}' % (b"x" * 99), memo)
    assert [f"w{number}" in request.literals for number in range(1000)].count(True) == 3


def test_what_an_array_holds_is_known_up_to_where_it_goes_on_from_another():
    """Of texts that were not looked for then, and behind that place, nothing is known."""
    memo, own, long = Memo(), Words(["aa"]), "x" * 300
    for more, held in ((["bb"], {}), (["bb", "aa"], {"aa", "bb"}), (["aa"], {"aa"})):
        found = Document(json.dumps({"messages": [long, *more]}).encode(), memo)
        assert own.found_in(found.short(), found.root.items) == set(held)
        own.learn("bb")


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, "1" * 5_000])
def test_what_is_no_json_that_can_be_read_says_nothing(text):
    assert parsed(text) is None


def test_control_characters_are_text_where_that_is_asked_for():
    assert parsed('"a\tb"') is None
    assert parsed('"a\tb"', strict=False) == "a\tb"
