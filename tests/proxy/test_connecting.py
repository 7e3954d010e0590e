"""An upstream that does not take connections."""

import contextlib
import json
import socket
import time

import pytest

from .harness import Client, Proxy, eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    """A proxy before a server whose queue is full, so that nobody gets an answer."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        time.sleep(0.05)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        arguments = ("--upstream", url, "--connect-timeout", "2")
        yield stack.enter_context(Proxy(tmp_path_factory.mktemp("stuck"), *arguments))


def sockets(proxy):
    """How many connections the proxy has, and begins, besides its listening socket."""
    return sum(name.startswith("socket:") for name in proxy.open_files()) - 1


def test_the_client_gets_504_in_time(stuck):
    """It says so in each dialect; and names the upstream."""
    paths = ["/v1/messages", "/v1/chat/completions", "/api/chat"]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(stuck.address)).ask(path, b"{}") for path in paths]
        for client in clients:
            answer = client.answer()
            assert (answer.status, answer.end) == (504, "whole")
            error = json.loads(answer.body)["error"]
            assert "in time" in (error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_client_that_leaves_meanwhile_takes_the_attempt_along(stuck, how):
    eventually(lambda: not sockets(stuck))
    mark = stuck.mark()
    clients = [Client(stuck.address).ask("/v1/messages", b"{}") for _ in range(5)]
    eventually(lambda: sockets(stuck) == 2 * len(clients))
    for client in clients:
        client.leave(how)
    eventually(lambda: not sockets(stuck))
    eventually(lambda: sum("CLIENT LEFT" in line for line in stuck.lines[mark:]) == len(clients))
