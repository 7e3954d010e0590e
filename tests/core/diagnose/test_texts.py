"""The words of a break, from its two requests."""

import json
import time

import pytest

from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.diagnose.texts import quoted, texts_of
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from tests.observe.exchanges import body

KEY = "sk-ant-api03-AbCdEfGh1234567890ijklmnop"


def pair(was, now, headers=()):
    made = (
        Request("POST", "/v1/messages", headers, json.dumps(said).encode()) for said in (was, now)
    )
    return Pair(*made, 2)


def shown(was, now, **more):
    found = texts_of(pair(was, now, **more), PromptOrder.TOOLS_FIRST)
    return found and tuple(
        ["".join(text for text, _ in line.parts) for line in side]
        for side in (found.was, found.now)
    )


def test_a_text_that_changed():
    was, now = (body("a", system=f"one\ntwo {day}\nthree") for day in (20, 21))
    assert shown(was, now)[0][:3] == ["one", "two 20", "three"]
    assert shown(was, now)[1][:3] == ["one", "two 21", "three"]


def test_a_message_that_came_between_is_read_from_its_role_on():
    was = body("a", "b", "c")
    now = {**was, "messages": [*was["messages"]]}
    now["messages"].insert(1, {"role": "system", "content": "now\nthen"})
    (left, right) = shown(was, now)
    assert "<assistant>" in left[0] + left[1]
    assert [line for line in right if line][:3] == ["<system>", "now", "then"]


def test_a_message_that_went():
    left, right = shown(body("a", "b", "c"), body("a"))
    assert right == []
    assert "b" in left


def test_a_credential_is_hidden_whether_its_shape_or_the_headers_tell_it():
    """Also one that lies where the text is cut."""
    other = "internal0token1of2this3company4xyz"
    far = "x " * 3800 + "\n"
    texts = [f"now {day}: {KEY} {other}\n{far}{KEY}\n{KEY}" for day in (20, 21)]
    was, now = (body("a", system=text) for text in texts)
    headers = ((b"authorization", b"Bearer " + other.encode()),)
    text = json.dumps(shown(was, now, headers=headers))
    assert "20: sk-" in text
    assert "AbCd" not in text
    assert "internal0" not in text


def test_where_nothing_differs_but_a_credential_there_is_nothing_to_show():
    was, now = (body("a", system=f"key {key}") for key in (KEY, KEY.replace("Ab", "Xy")))
    assert shown(was, now) is None
    assert shown(was, was) is None
    assert quoted("a", "a") is None


@pytest.mark.parametrize("size", [2_000_000])
def test_a_prompt_of_two_megabytes_is_looked_at_without_much_work(size):
    """The work is bounded by what is shown, but for finding the place."""
    filler = "word " * (size // 5)
    was, now = (body("a", system=f"{filler}{day}{filler}") for day in (20, 21))
    both = pair(was, now)
    texts_of(both, PromptOrder.TOOLS_FIRST)  # reads the bodies
    started = time.process_time()
    found = texts_of(both, PromptOrder.TOOLS_FIRST)
    assert time.process_time() - started < 2  # it takes 0.05
    assert len(json.dumps([found.was, found.now])) < 6000
