"""The real server is restarted, and has read the last prompt again before its next turn comes."""

import json

import pytest
from cacheproxy_demo.embedded import write_model

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.http_client import Site
from tests import needs
from tests.proxy.harness import eventually

from .replay import PATHS, start_server

pytestmark = pytest.mark.llama

WORDS = " of or in is to"
LONG = [{"role": "user", "content": WORDS * 400}]
NEXT = [{"role": "assistant", "content": "of or"}, {"role": "user", "content": "in is"}]
ONCE_MORE = "warmed 1 conversation"


class Restarted:
    """A server behind the proxy that has had a turn, was ended, and is there again."""

    def __init__(self, folder, size="tiny", **settings):
        self.model = write_model(folder / "model.gguf", text=WORDS, size=size)
        self.size, self.folder, self.settings = size, folder, {"n_ctx": 16_384, **settings}
        self.server = self.started()
        self.port = int(self.server.url.rpartition(":")[2])
        self.proxy = Proxy(self.server.url, "--poll", "0.5")
        eventually(lambda: "Ready." in self.proxy.log())

    def started(self, **settings):
        return start_server(self.model, self.folder, **self.settings, **settings)

    def restart(self, *, seed=1):
        """Restart it; another ``seed``: with other weights under the same name."""
        self.server.close()
        if seed != 1:
            other = self.folder / "other.gguf"
            self.model = write_model(other, text=WORDS, size=self.size, seed=seed)
        self.server = self.started(port=self.port)

    def turn(self, api, said):
        """Send it; what was counted."""
        limit = "max_output_tokens" if api == "responses" else "max_tokens"
        name = "input" if api == "responses" else "messages"
        body = {"model": "random", name: said, limit: 4, "seed": 1}
        return usage_of(Site(self.proxy.url).post(PATHS[api], json.dumps(body).encode()).json())

    def close(self):
        self.proxy.close()
        self.server.close()


@pytest.fixture
def restarted(tmp_path):
    """Make one with settings."""
    needs.llama()
    made = []

    def make(**settings):
        made.append(Restarted(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("api", ["chat", "messages"])
def test_the_first_turn_after_a_restart_reuses_the_last_prompt(restarted, api, slots):
    """All of it but a twentieth; the turn is judged as any other."""
    found = restarted(n_parallel=slots)
    first = found.turn(api, LONG)
    found.restart()
    eventually(lambda: ONCE_MORE in found.proxy.log())
    again = found.turn(api, LONG + NEXT)
    assert again.evaluated <= again.prompt - first.prompt + first.prompt / 20
    eventually(lambda: "#2" in found.proxy.log())
    assert "BREAK" not in found.proxy.log()
    metrics = Site(found.proxy.url).get("/_cacheproxy/metrics").body.decode()
    assert f'warmed_tokens_total{{upstream="{found.server.url}"}} ' in metrics
