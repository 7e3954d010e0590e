"""What two texts share at their ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document import compare as module
from cacheproxy.core.document.compare import common_prefix, common_suffix

texts = st.one_of(
    st.tuples(*[st.text(alphabet="ab\ud83d😀é")] * 3), st.tuples(*[st.binary(max_size=8)] * 3)
)


@pytest.fixture(autouse=True, scope="module")
def _small_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", 8)
        patch.setattr(module, "_FEW", 2)
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


@given(st.tuples(*[st.binary(max_size=20)] * 3))
def test_what_stands_at_a_place_is_compared_from_there(parts):
    """As far as a body goes on like a text, and no farther than that goes."""
    before, shared, rest = parts
    for text in (shared, shared + b"x", shared + rest + b"yy"):
        for guess in (0, 1, len(shared), len(text)):
            count = common_prefix(before + shared + rest, memoryview(text), len(before), guess)
            assert count == common_prefix(shared + rest, text)
