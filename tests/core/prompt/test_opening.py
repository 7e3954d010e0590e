"""The system text that a prompt opens with."""

from __future__ import annotations

import pytest

from cacheproxy.core.prompt.opening import opening_of


def system(content, role="system"):
    return {"role": role, "content": content}


def blocks(*texts, kind="text"):
    return [{"type": kind, "text": text} for text in texts]


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, []),
        ({"system": "a"}, [["a"]]),
        ({"system": blocks("a", "", " \n", "b")}, [["a", "b"]]),
        ({"instructions": "a", "input": "hi"}, [["a"]]),
        ({"messages": [system("a"), system(blocks("b"), "developer"), USER]}, [["a", "b"]]),
        ({"input": [system(blocks("a", kind="input_text")), USER, system("b")]}, [["a"]]),
        ({"messages": [USER, system("a")]}, []),
        ({"messages": [system(""), USER, system("a")]}, []),
        ({"system": "a", "messages": [system("b"), USER]}, [["a"], ["b"]]),
        ({"instructions": "a", "input": [system("b", "developer")]}, [["a"], ["b"]]),
        ({"messages": [system("a"), {"role": "assistant", "content": "x"}, system("b")]}, [["a"]]),
        ({"messages": [5, system("a")]}, []),
        ({"messages": {"0": system("a")}, "system": 5, "instructions": None}, []),
        ({"system": [{"type": "image", "text": "a"}, {"type": "text"}, 5, {"text": "b"}]}, []),
        ({"messages": [{"role": ["system"], "content": "a"}]}, []),
    ],
)
def test_it_ends_where_somebody_else_speaks(body, wanted):
    """In every dialect; blank texts, and what is no text, are left out."""
    assert opening_of(body) == wanted
