"""What a request costs, and what a server offers."""

import pytest
from cacheproxy_demo.client import DemoClient

from cacheproxy.http_client import CommandError
from tests.peer import NOBODY, Peer

CHAT = "/v1/chat/completions"


def post(answer):
    with Peer({CHAT: answer}) as peer:
        return DemoClient(peer.url).post(CHAT, {"model": "m", "messages": []})


def test_a_good_answer_has_the_servers_figures_and_the_wall_clock():
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}
    cost = post({"usage": usage})
    assert (cost.usage.prompt, cost.usage.reused, cost.usage.evaluated) == (9, 4, 5)
    assert cost.wall > 0


def test_a_refusal_of_late_system_messages_is_an_answer():
    said = {"error": {"message": "Jinja Exception: System message must be at the beginning."}}
    assert post((400, said)).refused == 400


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"<html>", "not JSON"), ((404, {}), ("check that --upstream is the server's root"))],
)
def test_a_bad_answer_is_one_line(answer, words):
    with pytest.raises(CommandError, match=words):
        post(answer)


def test_nobody_there_is_one_line_that_says_what_to_do():
    with pytest.raises(CommandError, match=f"^No answer from {NOBODY} .*start the model server"):
        DemoClient(NOBODY).post(CHAT, {"model": "m"})


@pytest.mark.parametrize(("status", "served"), [(404, False), (405, False), (400, True)])
def test_an_api_is_served_or_not(status, served):
    with Peer(posts=(status, {})) as peer:
        assert DemoClient(peer.url).serves("/v1/messages") is served


@pytest.mark.parametrize(
    ("page", "models"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}, {"id": 5}]}, ["a", "b"]),
        ({"models": 1}, []),
        (b"[", []),
        ((404, b""), []),
    ],
)
def test_models_are_listed_or_not_known(page, models):
    with Peer({"/v1/models": page}) as peer:
        assert DemoClient(peer.url).models() == models
