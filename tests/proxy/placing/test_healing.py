"""A refusal of what stands where is healed within the request, each by one more attempt."""

import json
from itertools import pairwise, permutations

import pytest

from tests.core.templates import inline, strict, turns
from tests.proxy.harness import head, whole

from .bodies import LLAMA, WITHOUT, WRAPPED, ask, late, of_this_test, spoken
from .templated import PATHS, REFUSAL, ModelServer, answer_of, says


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_is_healed_within_the_request(quiet, api, stream):
    """By one more attempt, which the client does not see; the next needs none."""
    proxy, server = quiet
    server.paths()
    answer = ask(proxy, late(api, stream=stream), api)
    assert (answer.status, answer.end) == (200, "whole")
    assert b"System message" not in answer.body
    first, second = server.bodies(PATHS[api])
    assert (spoken(first), spoken(second)) == ("system", "user")
    server.paths()
    mark = proxy.mark()
    assert ask(proxy, late(api, stream=stream), api).status == 200
    assert server.paths() == [PATHS[api]]
    proxy.wait_for("(placed 1 late system message)", mark)


def test_a_change_of_the_template_between_two_turns_heals(start):
    """The page is asked again, and what it says now counts."""
    server = ModelServer(inline, pages=LLAMA)
    proxy = start(server)
    assert ask(proxy).status == 200
    for template, last in ((strict, "user"), (turns, "user")):
        server.paths()
        server.template = template
        assert ask(proxy).status == 200
        assert spoken(server.bodies(PATHS["messages"])[-1]) == last
        paths = server.paths()
        assert paths.count(PATHS["messages"]) == 2
        assert ask(proxy).status == 200
        assert server.paths() == [PATHS["messages"]]


def test_what_is_refused_a_second_time_comes_down_once(quiet):
    """The client sees the second answer alone, and the guess is not believed."""
    proxy, server = quiet
    count = []

    def refuse(server, peer, *_):
        count.append(1)
        server.send(peer, b"400 Bad Request", REFUSAL | {"number": len(count)})

    server.pages[PATHS["messages"]] = refuse
    for number in (2, 4):
        server.paths()
        answer = ask(proxy)
        assert (answer.status, json.loads(answer.body)["number"]) == (400, number)
        assert [spoken(body) for body in server.bodies(PATHS["messages"])] == ["system", "user"]
    server.pages.clear()
    server.template = inline
    ask(proxy)
    assert spoken(server.asked[-1][1]) == "system"


def refusing(*reasons):
    """A server that refuses a body with the first of ``reasons``: what is wrong, and its words."""

    def answer(server, peer, _, body):
        words = next((words for wrong, words in reasons if wrong(body["messages"])), None)
        if words is None:
            server.send(peer, b"200 OK", answer_of("messages", 9, None))
        else:
            server.send(peer, b"400 Bad Request", {"error": {"message": words}})

    return answer


def is_late(messages):
    return any(message["role"] == "system" for message in messages)


def has_users_in_a_row(messages):
    return any(one["role"] == other["role"] for one, other in pairwise(messages))


def has_long_ids(messages):
    blocks = [block for message in messages for block in message["content"] if "id" in block]
    return any(len(block["id"]) != 9 for block in blocks)


REASONS = (
    (is_late, REFUSAL["error"]["message"]),
    (has_users_in_a_row, "conversation roles must alternate user/assistant/user/assistant/..."),
    (has_long_ids, "Tool call IDs should be alphanumeric strings with length 9!"),
)


def called(*behind):
    """A running turn, with an id as clients have it, and what comes ``behind`` its question."""
    use = {"type": "tool_use", "id": "toolu_0123456789abcdef", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "found"}
    messages = [
        {"role": "user", "content": "hi"},
        *behind,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        *(message for message in behind if message["role"] == "system"),
    ]
    return {"model": of_this_test["model"], "max_tokens": 9, "messages": messages}


LATE = {"role": "system", "content": "news"}
AGAIN = {"role": "user", "content": "and another thing"}


@pytest.mark.parametrize("order", list(permutations(REASONS)), ids=lambda o: o[0][0].__name__)
@pytest.mark.parametrize(
    "behind", [(LATE,), (AGAIN,), (LATE, AGAIN), ()], ids=["late", "again", "both", "neither"]
)
def test_what_is_refused_one_by_one_is_healed_within_the_request(quiet, order, behind):
    """Late messages, users in a row, long ids, in any order; the next request needs no attempt."""
    proxy, server = quiet
    server.pages[PATHS["messages"]] = refusing(*order)
    assert ask(proxy, called(*behind)).status == 200
    server.paths()
    assert ask(proxy, called(*behind)).status == 200
    assert server.paths() == [PATHS["messages"]]


def test_what_is_always_placed_stays_so_when_another_thing_is_mended(start):
    """With ``--placement user``: behind a tool's result in the result, elsewhere the user's."""
    server = ModelServer(inline)
    server.pages[PATHS["messages"]] = refusing(REASONS[2])
    proxy = start(server, "--placement", "user")
    for attempts in (2, 1):
        server.asked.clear()
        assert ask(proxy, called(LATE)).status == 200
        assert len(server.asked) == attempts
        placed = server.bodies(PATHS["messages"])[-1]["messages"]
        assert [message["role"] for message in placed] == ["user", "user", "assistant", "user"]
        assert placed[1]["content"] == WRAPPED
        assert placed[-1]["content"][0]["content"] == f"found\n\n{WRAPPED}"


LONG = b'{"error":{"message":"System message must be at the beginning.' + b" " * 70_000 + b'"}}'
KEPT = (b"X-Odd:  two  spaces", b"Content-Type: text/weird", b"X-Odd: again")
OTHER = b'{"error":{"message":"the request names a voice that is not there"}}'
CHUNKS = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
GZIPPED = bytes.fromhex("1f8b08000000000002ff") + json.dumps(REFUSAL).encode()


@pytest.mark.parametrize(
    ("status", "answer", "body"),
    [
        (b"400 Odd Reason", whole(OTHER, *KEPT), OTHER),
        (b"400 X", head(*KEPT, b"Transfer-Encoding: chunked") + CHUNKS, b"hello world"),
        (b"404 Not Found", head(*KEPT) + OTHER, OTHER),
        (b"422 X", whole(GZIPPED, *KEPT, b"Content-Encoding: gzip"), GZIPPED),
        (b"500 Y", whole(LONG, *KEPT), LONG),
        (b"400 X", head(*KEPT) + LONG, LONG),
        (b"400 X", whole(b"", *KEPT), b""),
        (b"400 X", head(*KEPT, b"Content-Length: 100") + b"half", b"half"),
    ],
    ids=["whole", "chunked", "closed", "packed", "long", "long, closed", "empty", "broken off"],
)
def test_any_other_error_comes_down_as_it_is_and_is_not_tried_again(quiet, status, answer, body):
    """Byte for byte with its headers, once."""
    proxy, server = quiet
    server.apis = ()  # a 404 has the proxy look for another API
    answer = answer.replace(b"200 OK", status, 1)
    server.pages[PATHS["chat"]] = says(answer)
    found = ask(proxy, api="chat")
    assert (found.status, found.reason) == (int(status[:3]), status[4:])
    assert found.body == body
    assert (found.end == "whole") == (body != b"half")  # the client is not told that it had all
    assert found.values(b"x-odd") == [b"two  spaces", b"again"]
    assert found.values(b"content-type") == [b"text/weird"]
    assert len([body for body in server.bodies(PATHS["chat"]) if body]) == 1


@pytest.mark.parametrize(
    ("status", "body"), [(b"401 No", None), (b"429 X", None), (b"503 X", None), (b"400 X", WITHOUT)]
)
def test_other_statuses_are_no_refusal(quiet, status, body):
    """Whatever their words are; nor is one without late messages: there is nothing to place."""
    proxy, server = quiet
    server.pages[PATHS["messages"]] = says(whole(json.dumps(REFUSAL).encode(), status=status))
    answer = ask(proxy, body)
    assert (answer.status, json.loads(answer.body)) == (int(status[:3]), REFUSAL)
    assert len(server.bodies(PATHS["messages"])) == 1
