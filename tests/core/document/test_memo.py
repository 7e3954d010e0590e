"""Memo: a turn is read, edited and rendered the same with it and without."""

import json
import sys
import tracemalloc
from dataclasses import replace
from itertools import chain
from operator import is_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import REMOVE, Edit, apply, splice, splices_of
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.pointer import match_all, parse_pattern, places_of
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of, reordered
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.places import SYSTEM_TEXT, USER_TEXT
from tests.core import spelling
from tests.core.memories import small_steps

PLACES = places_of((*SYSTEM_TEXT, *USER_TEXT, "/messages/*/role", "/*/0/content"))
text = st.sampled_from(["", "a", "b", "é 😀", "\ud83d", "stamp 1", "stamp 2", "long " * 9])
block = st.one_of(
    text.map(lambda said: {"type": "text", "text": said}),
    text.map(lambda said: {"type": "tool_use", "name": said, "input": {"a": [said]}}),
    text.map(lambda said: {"type": "text", "text": said, "cache_control": {}}),
)
content = st.one_of(text, st.lists(block, max_size=3))
message = st.one_of(
    st.builds(
        lambda role, said: {"role": role, "content": said},
        st.sampled_from(["system", "user", "assistant", "developer"]),
        content,
    ),
    st.sampled_from([1, 12, None, "a", []]),
)
tool = text.map(lambda said: {"name": said, "input_schema": {"type": "object"}})
conversation = st.fixed_dictionaries(
    {"model": st.just("m")},
    optional={
        "system": content,
        "messages": st.lists(message, max_size=6),
        "input": st.one_of(text, st.lists(message, max_size=3)),
        "tools": st.lists(tool, max_size=3),
        "prompt": text,
    },
)
spelled = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":"), "ensure_ascii": True}])
paths = st.sampled_from(
    ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/completions"]
)


@st.composite
def conversations(draw):
    """Bodies of one conversation: it grows, is changed in its head and middle, and cut short."""
    body, how = draw(conversation), draw(spelled)
    found = [json.dumps(body, **how)]
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted({*body, "messages"} - {"model"})))
        items = body.get(name)
        if isinstance(items, list):
            at = draw(st.integers(0, len(items)))
            new = draw(st.lists(message if name in ("messages", "input") else block, max_size=2))
            gone = draw(st.integers(0, 2))
            body = body | {name: items[:at] + new + items[at + gone :]}
        else:
            body = draw(conversation)
        found.append(json.dumps(body, **how))
    return [one.encode() for one in found]


@given(conversations(), paths, st.sampled_from(PromptOrder), st.data())
def test_a_turn_is_the_same_with_a_memo_and_without(bodies, path, order, data):
    """The document, the bytes after edits, what patterns match, every segment of the prompt."""
    memo = Memo()
    with small_steps():
        for body in [*bodies, bodies[0]]:
            plain = Request("POST", path, (), body)
            known = replace(plain, memo=memo)
            edits = data.draw(edits_of(plain.json))
            edited = apply(plain.document, edits)
            splices = splices_of(known.document, edits)
            assert splice(known.body, splices) == edited
            for one, other in (
                (known, plain),
                (known.with_body(edited), plain.with_body(edited)),
                (plain.with_body(edited, splices), plain.with_body(edited)),
                (known.with_body(edited, splices), plain.with_body(edited)),
            ):
                assert spelling.everything(one.document) == spelling.everything(other.document)
                texts = one.document and one.document.texts(PLACES)
                assert texts == (other.document and all_texts(other.json))
                prompt, expected = prompt_of(one, order), prompt_of(other, order)
                assert prompt == expected
                if prompt is not None:
                    assert prompt.pieces == expected.pieces
                    assert (prompt.chars, prompt.digests) == (expected.chars, expected.digests)
                    for turned in PromptOrder:
                        assert reordered(prompt, turned) == reordered(expected, turned)


def all_texts(value):
    """The texts at PLACES, each once."""
    found = (each for places in PLACES.values() for each in match_all(value, places, str))
    return list(dict(chain.from_iterable(found)).items())


def edits_of(value):
    """Edits of members and of what stands in their arrays; no two of them overlap."""
    places = {
        f"/{name}/{number}" if isinstance(inner, list) else f"/{name}"
        for name, inner in value.items()
        for number in range(len(inner) if isinstance(inner, list) else 1)
    }
    if not places:
        return st.just([])
    new = st.one_of(text, st.just(REMOVE), message)
    return st.lists(st.sampled_from(sorted(places)), max_size=3, unique=True).flatmap(
        lambda chosen: st.tuples(*[new.map(lambda n, p=place: Edit(p, n, "")) for place in chosen])
    )


def body_of(messages, system="first", tools=20):
    return json.dumps(
        {
            "messages": [{"role": "user", "content": f"{one} " + "é " * 99} for one in messages],
            "system": [{"type": "text", "text": system}, {"type": "text", "text": "long " * 99}],
            "tools": [{"name": f"t{number}", "description": "x" * 99} for number in range(tools)],
        },
        ensure_ascii=False,
    ).encode()


@pytest.mark.parametrize(
    "after",
    [
        body_of(range(51)),
        body_of(range(50), system="second"),
        body_of([0, 1, 2, 99, *range(4, 50)]),
        body_of([99, *range(1, 50)]),
        body_of(range(10, 50)),
        body_of([*range(20), *range(30, 60)][:41]),
        b'{"model": "m", ' + body_of(range(50))[1:],
    ],
    ids=["appended", "head", "middle", "first", "without its first", "cut", "moved"],
)
def test_what_was_there_before_is_not_scanned_again(after):
    """Whatever has moved: its values are the very same."""
    memo = Memo()
    before = Document(body_of(range(50)), memo)
    now = Document(after, memo)
    assert now.value == json.loads(after)
    assert now.scanned < 2500
    old = {id(one) for one in before.value["messages"]}
    assert sum(id(one) in old for one in now.value["messages"]) >= len(now.value["messages"]) - 2
    assert now.value["tools"] is before.value["tools"]


def test_segments_that_were_there_before_are_the_very_same():
    """So that two prompts are compared only where they differ."""
    memo = Memo()
    one, other = (
        prompt_of(Request("POST", "/v1/messages", (), body_of(range(count)), memo))
        for count in (9, 10)
    )
    assert all(map(is_, other.segments, one.segments))
    assert len(other.segments) == len(one.segments) + 2


def test_it_is_bounded_in_bytes():
    """The least recently found go first; what is left out is read anew."""
    memo = Memo(300_000)
    for number in range(100):
        Document(body_of([number, number + 1], system=f"{number}"), memo)
        Document(body_of([-1]), memo)
        assert memo.bytes_stored <= 300_000
    assert memo.bytes_stored > 100_000
    assert Document(body_of([-1]), memo).scanned < 200
    assert Document(body_of([0, 1], system="0"), memo).scanned > 200


def test_a_message_is_counted_once_however_many_arrays_have_it():
    """As it came and as it was edited, and in conversations that part later."""
    memo = Memo()
    Document(body_of(range(50)), memo)
    alone = memo.bytes_stored
    spelled = Document(body_of(range(50))).array("messages").length
    for number in range(5):
        Document(body_of([99 + number, *range(1, 50)]), memo)
        Document(body_of([*range(49), 99 + number]), memo)
    assert memo.bytes_stored < alone + 11 * spelled
    for number in range(16):
        Document(body_of([200 + number, 1, 2]), memo)
    assert Document(body_of([-1, *range(1, 50)]), memo).scanned < 500


def test_what_was_let_go_of_is_neither_counted_nor_found():
    memo = Memo()
    Document(body_of(range(50)), memo)
    memo.most_bytes = 0
    for _ in range(2):
        Document(body_of([-1], tools=1), memo)
        assert Document(body_of(range(50)), memo).scanned > 10_000
        assert memo.bytes_stored == 0


def test_another_thread_may_find_what_is_about_to_be_let_go_of():
    """Between any two steps of the one that lets go."""
    memo, bodies = Memo(40_000), [body_of([number] * 3, tools=2) for number in range(20)]
    places = [(body, body.index(b"[")) for body in bodies]

    def finds(_frame, event, _argument):
        if event == "c_return":
            for body, at in places:
                memo.array(body, at)

    before = sys.getprofile()
    sys.setprofile(finds)
    try:
        for body in bodies:
            Document(body, memo)
    finally:
        sys.setprofile(before)
    assert 0 < memo.bytes_stored <= 40_000


def test_a_small_member_does_not_keep_the_body_it_came_in():
    """A head that is another in each turn is kept, the messages behind it are not."""
    memo = Memo()
    tracemalloc.start()
    for turn in range(40):
        Document(body_of(range(60), system=f"{turn} " * 99), memo)
        if turn == 10:
            before, _ = tracemalloc.get_traced_memory()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 30 * len(body_of(range(60))) / 4


def test_a_hundred_conversations_that_begin_alike_each_go_on_from_their_own():
    """By turns: the messages are the very same, and what was before is let go of."""
    memo, kept = Memo(), []
    for turn in range(2, 6):
        for number in range(100):
            said = [f"{number} {at} " + "said " * 99 for at in range(2 * turn)]
            messages = [{"role": "user", "content": "hello " * 99 + text} for text in said]
            document = Document(json.dumps({"messages": messages}).encode(), memo)
            new = len(messages[0]["content"]) * (2 if turn > 2 else 4)
            assert document.scanned < 1.2 * new
        kept.append(memo.bytes_stored)
    assert kept[-1] < 5 / 2 * 1.2 * kept[0]


class Compared(bytes):
    """A body that counts the bytes that it is compared with."""

    count = 0

    def startswith(self, start, at=0):
        self.count += len(start)
        return super().startswith(start, at)


def test_of_conversations_that_begin_alike_one_is_compared_as_a_whole():
    """Hundreds with one long system text would else hold up all others."""
    memo, system = Memo(), "You are ours. " * 1000
    bodies = [json.dumps({"messages": [system, str(n) * 5000]}).encode() for n in range(10, 99)]
    for body in bodies:
        Document(body, memo)
    body = Compared(bodies[0])
    found, length = memo.array(body, body.index(b"["))
    assert (found.values[1][:2], length) == ("10", found.length)
    assert body.count < 2 * len(body)


def test_what_another_thread_notes_meanwhile_is_not_taken_for_known():
    """Of the array before, which messages meet a condition."""

    class Notes(dict):
        def get(self, step, default=None):
            found = super().get(step, default)
            self[step] = [], [[(("messages", 0, "role"), "a")]]
            return found

    found = Document(b'{"messages": [{"role": "a"}, {"role": "b"}, {"role": "a"}]}').array(
        "messages"
    )
    found.before = Notes(), 1
    texts = found.texts("messages", (parse_pattern("/messages/*[role=a]/role"),))
    assert texts == [(("messages", number, "role"), "a") for number in (0, 2)]


def test_a_counter_in_the_first_block_of_the_system_text_does_not_fill_it():
    memo, sizes = Memo(), []
    for number in range(9):
        system = [f"turn {number:04}", "Be brief. " * 40, "rules " * 99]
        Document(json.dumps({"system": system, "messages": ["say"]}).encode(), memo)
        sizes.append(memo.bytes_stored)
    assert len(set(sizes)) == 1


def test_what_rules_make_of_such_a_text_is_known_all_the_same():
    """It comes each time, in turn with what the client sends: nothing of it is read again."""
    memo, scanned = Memo(), []
    for number in range(9):
        for first in (f"turn {number:04}", "turn"):
            system = [first * 30, "Be brief. " * 40, "rules " * 99]
            body = json.dumps({"system": system, "messages": ["say"]}).encode()
            scanned.append(Document(body, memo).array("system"))
    assert len({*scanned[5::2]}) == 1
    assert len({*scanned[4::2]}) == 7
