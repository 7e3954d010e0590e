"""What stands in fenced code, by CommonMark's own rules."""

from __future__ import annotations

import pytest

from cacheproxy.core.prompt.codeblocks import lines_outside_code


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("X", False),
        ("a\nX\nb", False),
        ("```\nX\n```", True),
        ("```json\nX\n```", True),
        ("```\na\n```\nX", False),
        ("```\na\n```\n```\nX", True),
        ("~~~ `a`\nX", True),
        ("   ```\nX", True),
        ("    ```\nX", False),
        ("a ```\nX", False),
        ("``\nX", False),
        ("``` a`b\nX", False),
        ("````\n```\nX\n```\n````", True),
        ("```\na\n````\nX", False),
        ("```\na\n~~~\nX", True),
        ("```\na\n``` b\nX", True),
        ("```\na\n```  \nX", False),
        ("```\r\na\r\n```\r\nX", False),
        ("```\r\nX\r\n```", True),
    ],
)
def test_a_line_is_in_code_between_a_fence_and_the_one_that_closes_it(text, wanted):
    """Of the same character, as long or longer, with nothing behind it; else up to the end."""
    found = list(lines_outside_code(text, "X"))
    assert found == ([] if wanted else [text.index("X")])


def test_every_line_that_begins_so_is_found():
    """Not what stands within a line, nor what is in any of the blocks."""
    text = "X 1\naX\n```\nX\nX\n```\nX 2\n~~~\nX\n~~~\n\nX 3\n```\nX"
    starts = list(lines_outside_code(text, "X"))
    assert [text[at : at + 3] for at in starts] == ["X 1", "X 2", "X 3"]
    assert list(lines_outside_code(text, "Y")) == []
    assert list(lines_outside_code("", "Y")) == []
