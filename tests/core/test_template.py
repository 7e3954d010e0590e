"""What a chat template prints first."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.prompt import Order
from cacheproxy.core.template import order_of, question


def rendered(*parts):
    asked = json.loads(question())
    system = asked["messages"][0]["content"]
    tool = json.dumps(asked["tools"][0])
    return {"prompt": "".join({"system": system, "tool": tool}[part] for part in parts)}


def test_the_order_is_that_of_the_marks():
    """Whichever stands first in the rendered text."""
    assert order_of(rendered("tool", "system")) is Order.TOOLS_FIRST
    assert order_of(rendered("system", "tool")) is Order.SYSTEM_FIRST


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"prompt": 3}, {"prompt": ""}, rendered("system"), rendered("tool")]
)
def test_an_answer_that_does_not_tell_tells_nothing(answer):
    """A template may leave the tools out."""
    assert order_of(answer) is None
