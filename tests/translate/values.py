"""Any JSON value, any text, names of tools: for hypothesis."""

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
"""Any characters: lone surrogates, controls and quotes among them."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAME = st.sampled_from(["look", "Bash", "mcp__x__y"])
