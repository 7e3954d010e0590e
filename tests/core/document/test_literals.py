"""Literals: which texts a body holds."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.document import Literals
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Request
from tests.core.memories import small_steps

texts = st.text(alphabet="ab", max_size=8)
bodies = st.fixed_dictionaries(
    {"model": texts, "system": texts, "messages": st.lists(texts, max_size=5)}
)
words = st.text(alphabet="ab", min_size=1, max_size=4)


@given(st.lists(bodies, min_size=1, max_size=4), st.lists(words, min_size=1), st.data())
@settings(max_examples=200)
def test_a_text_is_in_the_body_or_not_whatever_came_before(turns, asked, data):
    """With a memo and without, in whatever order texts are asked for."""
    memo = Memo()
    with small_steps():
        for value in turns:
            body = json.dumps(value).encode()
            known, plain = Request("POST", "/v1/messages", (), body, memo).literals, Literals(body)
            for word in data.draw(st.lists(st.sampled_from(asked))):
                assert (word in known) is (word in plain) is (word.encode() in body)
                pattern = re.compile(word.encode() + b"?(a|bb)")
                assert known.match(pattern) is plain.match(pattern)


def test_a_body_that_is_not_understood_is_searched_all_the_same():
    """So is one whose API we do not know, and any number of texts is found."""
    memo = Memo()
    for path, body in (("/v1/messages", b"{here"), ("/other", b"here")):
        literals = Request("POST", path, (), body, memo).literals
        assert "here" in literals
        assert "there" not in literals
    request = Request("POST", "/v1/messages", (), b'{"system": "w999 %b"}' % (b"x" * 99), memo)
    assert [f"w{number}" in request.literals for number in range(1000)].count(True) == 3
