"""A prompt as its server would have seen it, had nobody edited it."""

import pytest

from cacheproxy.core.adapt.late import place
from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.judge.evidence import Before, as_repaired, as_unaided
from cacheproxy.core.kinds.placement import BY_OPTION, Late, alike
from cacheproxy.core.kinds.profile import UNKNOWN, Profile, ServerFacts
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of, reordered
from cacheproxy.testing import request
from tests import transcript
from tests.core.judging import judged
from tests.core.late import PATHS, assistant, body_of, system, text, user

HEADER = "x-anthropic-billing-header: cc_version=2.1.114.{0}a3; cc_entrypoint=cli; cch=0000{1};"
TOOLS = [{"name": "ls", "description": "list files " * 20, "input_schema": {}}]
ON_VLLM = Profile(server=ServerFacts("vLLM", "0.32.0"))
ON_LLAMA = Profile(server=ServerFacts("llama-server"))
DIALECTS = {"messages": MESSAGES, "chat": CHAT, "responses": RESPONSES}


def headed(version, cch, api="messages", role="system"):
    """A prompt that begins with the header, as clients put it there in each API."""
    header, rest = HEADER.format(version, cch), "You are an agent. " * 50
    if api == "messages":
        body = {"system": [text(header), text(rest)], "messages": [user("hi")]}
    elif api == "chat":
        body = {"messages": [system(f"{header}\n{rest}", role), user("hi")]}
    else:
        body = {"instructions": f"{header}\n{rest}", "input": [user("hi")]}
    return prompt_of(request(body | {"tools": TOOLS}, PATHS[api]))


def agrees(one, other, api, profile):
    """Whether the server makes one prompt of both."""
    return as_repaired(one, DIALECTS[api], profile) == as_repaired(other, DIALECTS[api], profile)


@pytest.mark.parametrize("api", DIALECTS)
def test_vllm_drops_the_whole_header(api):
    one, other = headed(1, 1, api), headed(2, 2, api)
    assert one != other
    assert agrees(one, other, api, ON_VLLM)
    seen = as_repaired(one, DIALECTS[api], ON_VLLM)
    assert not any("billing" in segment.text for segment in seen.segments)
    assert sum(len(segment.text) for segment in seen.segments) == seen.chars < one.chars


@pytest.mark.parametrize(
    ("api", "version", "cch", "same"),
    [
        ("messages", 1, "2", True),
        ("messages", 2, "1", False),
        ("messages", 1, "", False),
        ("messages", 1, "22", False),
        ("chat", 1, "2", False),
        ("responses", 1, "2", False),
    ],
)
def test_llama_cpp_repairs_a_cch_of_five_on_messages_alone(api, version, cch, same):
    assert agrees(headed(1, "1", api), headed(version, cch, api), api, ON_LLAMA) is same
    line = "x-anthropic-billing-header: cch=abc; cch=0000{};".format
    bodies = [{"system": line(n), "messages": [user("hi")]} for n in (1, 2)]
    assert not agrees(*(prompt_of(request(body)) for body in bodies), "messages", ON_LLAMA)


@pytest.mark.parametrize("order", [PromptOrder.TOOLS_FIRST, PromptOrder.SYSTEM_FIRST])
@pytest.mark.parametrize("api", DIALECTS)
def test_a_late_system_message_is_where_the_server_would_have_moved_it(api, order):
    """Behind the system text at the head; the tools stay where its template has them."""
    history = [user("hi"), assistant("hello"), system("news"), user("go on")]
    body = body_of(history, api) | {"tools": TOOLS}
    came = prompt_of(request(body, PATHS[api]), order)
    profile = Profile(placement=alike(Late.HOISTED, "test"))
    seen = as_unaided(came, DIALECTS[api], profile)
    said = [segment.text for segment in seen.segments if not segment.path.endswith("role")]
    at = said.index("head")
    assert said[at + 1] == "news"
    assert [text for text in said if text != "news"] == [
        segment.text
        for segment in came.segments
        if not segment.path.endswith("role") and segment.text != "news"
    ]
    assert {segment.part for segment in seen.segments if segment.text == "news"} == {Part.SYSTEM}
    assert seen.chars == came.chars
    if order is PromptOrder.SYSTEM_FIRST:
        assert seen == prompt_of(request(body, PATHS[api]), PromptOrder.HOISTED)


HISTORY = [user("first " * 50), assistant("one"), user("next")]
LATER = [*HISTORY, assistant("two"), system("news"), user("last")]


def saved(late, told_by="test"):
    """What is due to placing, of two turns of which the second has a late system message."""
    placement = alike(late, told_by)
    first, second = (request(body_of(each) | {"tools": TOOLS}) for each in (HISTORY, LATER))
    placed, report = place(second, alike(Late.HOISTED, "test"))
    assert report is not None
    profile = Profile(placement=placement)
    before = prompt_of(first)
    came = as_unaided(prompt_of(second), "anthropic", profile)
    known = Before(before, as_unaided(before, "anthropic", profile), 1000)
    sent = prompt_of(placed)
    assert parting(before, sent).was is None
    return judged(known, sent, Usage(1100, 1000), unedited=came).saved.tokens


@pytest.mark.parametrize(
    ("late", "told_by", "least"),
    [
        (Late.HOISTED, "test", 401),  # all behind the head would have been evaluated again
        *((late, "test", 0) for late in (Late.REFUSED, Late.DROPPED, Late.INLINE, Late.UNKNOWN)),
        (Late.UNKNOWN, BY_OPTION, 0),  # nobody asked the server
    ],
)
def test_placing_is_credited_where_the_message_would_have_been_hoisted(late, told_by, least):
    tokens = saved(late, told_by)
    assert tokens >= least
    assert least or tokens == 0


@pytest.mark.parametrize(("profile", "least"), [(ON_VLLM, 0), (UNKNOWN, 900)])
def test_the_header_is_credited_where_the_server_keeps_it(profile, least):
    unaided = [as_unaided(headed(n, n), "anthropic", profile) for n in (1, 2)]
    sent = headed(0, 0)
    known = Before(sent, unaided[0], 1000)
    found = judged(known, sent, Usage(1010, 1000), unedited=unaided[1]).saved.tokens
    assert found == 0 if not least else found > 500


@pytest.mark.parametrize("order", [PromptOrder.TOOLS_FIRST, PromptOrder.SYSTEM_FIRST])
@pytest.mark.parametrize("api", DIALECTS)
def test_it_stays_so_in_any_order(api, order):
    """An order that is not known is tried out later."""
    one, other = (as_repaired(headed(n, n, api), DIALECTS[api], ON_VLLM) for n in (1, 2))
    assert reordered(one, order) == reordered(other, order)
    history = [user("hi"), system("news"), user("go on")]
    came = prompt_of(request(body_of(history, api) | {"tools": TOOLS}, PATHS[api]))
    hoists = Profile(placement=alike(Late.HOISTED, "test"))
    texts = [each.text for each in reordered(as_unaided(came, None, hoists), order).segments]
    assert texts.index("head") < texts.index("news") < texts.index("hi")


def test_all_that_is_said():
    transcript.holds("evidence.txt", globals())
