"""On the real server, the second user message costs what is new in it, no more.

All of it, for each memory: ``benchmarks/thinking.py``.
"""

import contextlib
import time

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from tests import needs

from .causes.servers import Llama
from .causes.talk import words
from .thinker import ASKED, SETTINGS, Thinker, new_tokens

pytestmark = pytest.mark.llama

SECOND = words(ASKED, 9)
TOLERANCE = 1.1
"""Of what is new, with which a message costs what it has to."""


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Return a server of a family whose model thinks, with a template; each is started once."""
    needs.llama()
    with contextlib.ExitStack() as stack:
        known = {}

        def serve(family, template):
            if (family, template) not in known:
                folder = tmp_path_factory.mktemp(family)
                server = Llama(family, folder, template, **SETTINGS)
                stack.callback(server.close)
                known[family, template] = server
            return known[family, template]

        yield serve


LOOK_SECONDS = 1.5
"""In which the proxy looks at a server behind a turn that lost the cache."""


def second_message(url, name, **client):
    """What it costs: evaluated tokens, and the conversation."""
    one = Thinker(url, name, **client)
    one.turn(words(100, 1))
    return one.ask(SECOND).evaluated, one


@pytest.mark.parametrize(
    ("family", "sends", "api", "stream"),
    [
        ("llama", True, "chat", True),
        ("llama", False, "messages", False),
        ("llama", False, "chat", False),
        ("qwen35", True, "messages", True),
        ("qwen35", False, "messages", True),
        ("qwen35", False, "chat", True),
    ],
)
def test_with_thinking_kept_only_what_is_new_is_read(serve, family, sends, api, stream):
    """Whether the client sends it back or not, in each API, in the very first conversation."""
    server = serve(family, "keep")
    with Proxy(server.url, "--keep-thinking", "yes") as proxy:
        cost, one = second_message(proxy.url, "yes", sends=sends, api=api, stream=stream)
        one.turn(words(30, 12), 4)
        again = one.ask(SECOND).evaluated
    new = new_tokens(server.url, SECOND)
    assert max(cost, again) <= TOLERANCE * new


@pytest.mark.parametrize("family", ["gemma3", "qwen35"])
def test_by_itself_where_the_memory_cannot_rewind(serve, family):
    """For a client that sends reasoning back, once that was learned; for no other."""
    server = serve(family, "keep")
    new = new_tokens(server.url, SECOND)
    with Proxy(server.url, "--poll", "10") as proxy:
        while "Ready." not in proxy.log():  # it has looked at the server
            time.sleep(0.02)
        first, one = second_message(proxy.url, "first", sends=True)
        time.sleep(LOOK_SECONDS)
        one.turn(words(30, 12), 4)
        later, _ = second_message(proxy.url, "later", sends=True)
        dropping, _ = second_message(proxy.url, "dropping", sends=False)
        assert "conversations keep it if the client sends it back" in proxy.log()
    assert later <= TOLERANCE * new
    assert min(first, dropping) > 5 * new
