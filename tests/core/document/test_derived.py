"""A document that edits made, and what its memo keeps, are as if its body were read anew."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import REMOVE, Edit, EditError, Raw, apply
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.pointer import PathError, places_of, to_pointer
from cacheproxy.core.document.reader import NotUnderstoodError
from tests.core import spelling
from tests.core.memories import small_steps

PLACES = places_of(["/a/*", "/*/0", "/a/*/b", "/b/*/*", "/a/*[a=1|a]/b", "/a/1", "/b"])
ODD = [*"1,]", "", " 1", "1 ", '1,"c":2', "[1", "1]", "[]", "{}", "[2,3]", "1.0"]
element = st.one_of(spelling.leaf, spelling.leaf, spelling.value)
member = st.one_of(spelling.container("[]", element), element)
document = spelling.container("{}", st.builds("{}:{}".format, spelling.key, member))
new = st.one_of(st.just(REMOVE), element.map(Raw), st.sampled_from(ODD).map(Raw), st.text())


@st.composite
def edits_of(draw: st.DrawFn, body: Document) -> list[Edit]:
    """Edits that may be made together, JSON or not."""
    made = list[Edit]()
    for path in draw(st.lists(st.sampled_from([*spelling.places(body.body.decode())]), max_size=4)):
        value, span = spelling.at(body.value, path), None
        adds = isinstance(value, dict | list) and draw(st.booleans())
        if isinstance(value, str) and draw(st.booleans()):
            span = tuple(sorted(draw(st.tuples(*[st.integers(0, len(value))] * 2))))
        place = (*path, draw(st.sampled_from("-01cd"))) if adds else path
        edit = Edit(to_pointer(place), draw(st.text() if span else new), "", span, adds)
        with suppress(EditError, PathError):
            apply(body, [*made, edit])
            made.append(edit)
    return made


@given(document, st.booleans(), st.data())
@settings(max_examples=2 * settings().max_examples)
def test_what_edits_made_is_derived_as_if_it_were_read_anew(text, is_known, data):
    with small_steps():
        memo = Memo() if is_known else None
        before = Document(text.encode(), memo)
        for _ in range(2):
            before.texts(PLACES)
            body = apply(before, data.draw(edits_of(before)))
            try:
                expected = spelling.observed(Document(body), PLACES)
            except NotUnderstoodError:
                with pytest.raises(NotUnderstoodError):
                    Document(body, memo, edited=before)
                return
            before = Document(body, memo, edited=before)
            assert spelling.observed(before, PLACES) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": [1, "b", [2]], "b": [1]}', '{"a": ["é", "b", [2]], "b": [1]}'),
        ('{"a": [{"b": "x"}, {"b": "y"} ]}', '{"a": [ {"b": "xyz"}, {"b": "y"} ]}'),
        ('{"a": [1], "b": 3}', '{"a": [[1]], "b": 3}'),
        ('{"a": [], "b": 3}', '{"a": ["a"], "b": 3}'),
        ('{"a": [[1], [2]]}', '{"a": [[1], [1], [2]]}'),
        ('{"a": ["x"], "a": ["y"], "b": [1]}', '{"a": ["x"], "a": ["z"], "b": [1, 2]}'),
        ('{"a": ["x"], "a": 1, "b": [1]}', '{"a": ["z"], "a": 1, "b": [2]}'),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_what_follows_another_first_element_is_as_if_it_were_read_anew(before, after, is_known):
    with small_steps():
        memo, kept = Memo() if is_known else None, Document(before.encode())
        for text in (before, after, before):
            kept = Document(text.encode(), memo, edited=kept)
            kept.texts(PLACES)
            expected = spelling.observed(Document(text.encode()), PLACES)
            assert spelling.observed(kept, PLACES) == expected
