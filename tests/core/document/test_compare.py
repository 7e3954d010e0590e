"""What two texts share at their ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document import compare as module
from cacheproxy.core.document.compare import common_prefix, common_suffix, overlap
from cacheproxy.core.document.document import Document

texts = st.one_of(
    st.tuples(*[st.text(alphabet="ab\ud83d😀é")] * 3), st.tuples(*[st.binary(max_size=8)] * 3)
)


@pytest.fixture(autouse=True, scope="module")
def _small_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", 3)
        yield


@given(texts)
def test_common_prefix_is_as_long_as_can_be(parts):
    """What two texts share from the start is counted, no more and no less."""
    shared, *ends = parts
    one, other = (shared + end for end in ends)
    count = common_prefix(one, other)
    assert one[:count] == other[:count]
    assert len(shared) <= count <= min(len(one), len(other))
    assert one == other or one[count : count + 1] != other[count : count + 1]


@given(texts, st.integers(0, 30))
def test_common_suffix_is_as_long_as_can_be(parts, most):
    """What two texts share at the end is counted, up to what was asked for."""
    shared, *starts = parts
    one, other = (start + shared for start in starts)
    most = min(most, len(one), len(other))
    count = common_suffix(one, other, most)
    assert one[len(one) - count :] == other[len(other) - count :]
    assert min(len(shared), most) <= count <= most
    assert count == most or one[-count - 1] != other[-count - 1]


pieces = st.tuples(*[st.sampled_from(["", "x", "y" * 300, "ab" * 700])] * 4)


@given(pieces, pieces, st.integers(0, 9000), st.integers(0, 9000))
def test_what_a_body_shares_with_a_document_is_as_long_as_can_be(ours, theirs, prefix, suffix):
    """At both ends, whatever is between and was shared before, and never the same bytes twice."""
    body, before = (b'{"a":"%b"}' % ("z" * 300).join(each).encode() for each in (ours, theirs))
    document = Document(before)
    document.prefix, document.suffix = prefix, suffix
    found = overlap(body, document)
    prefix = common_prefix(body, before)
    most = min(len(body), len(before)) - prefix
    assert found == (document, prefix, common_suffix(body, before, most))


def test_what_differs_is_looked_for_where_it_stood_before():
    """Two comparisons at the start and one at the end, however long the body is."""

    class Compared(bytes):
        def startswith(self, *given):
            compared.append("start")
            return super().startswith(*given)

        def endswith(self, *given):
            compared.append("end")
            return super().endswith(*given)

    compared: list[str] = []
    first, second, third = (
        b'{"a":"%b","stamp":"%05d","b":"%b"}' % (b"x" * 50_000, number, b"y" * 90_000)
        for number in (70_001, 70_002, 70_003)
    )
    known = Document(second, overlap(second, Document(first)))
    found = overlap(Compared(third), known)
    assert (found.prefix, found.suffix) == (known.prefix, known.suffix)
    assert compared == ["start", "start", "end"]
