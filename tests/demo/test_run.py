"""Both passes over real sockets: the embedded server, the real service."""

import json

import pytest
from click.testing import CliRunner

from cacheproxy.cli.demo import demo
from cacheproxy.demo import conversation
from cacheproxy.demo.errors import DemoError
from cacheproxy.demo.figures import figures
from cacheproxy.demo.proxy import require_plugin
from cacheproxy.demo.run import Plan, on_embedded, on_upstream
from cacheproxy.embedded import LlamaServer, write_model
from tests import needs

pytestmark = pytest.mark.llama


@pytest.fixture(autouse=True)
def _installed():
    needs.llama()
    try:
        require_plugin()
    except DemoError as missing:
        pytest.skip(str(missing))


class Steps(list):
    def __call__(self, doing, done):
        self.append((doing, done))


def test_on_chat_the_proxy_turns_a_cold_prompt_into_a_warm_one(small):
    steps = Steps()
    measured = figures(on_embedded(Plan(small, "chat", 3), steps))

    assert sum(done for _, done in steps) == 6
    assert measured.server_time
    assert [row.reused for row in (measured.direct[0], measured.through[0])] == [0, 0]
    for direct, through in zip(measured.direct[1:], measured.through[1:], strict=True):
        assert direct.share < 0.1
        assert through.share > 0.9


def test_on_messages_this_server_repairs_a_five_character_cch_itself(small):
    measured = figures(on_embedded(Plan(small, "messages", 2), Steps()))
    assert not measured.server_time
    assert measured.direct[1].share > 0.9
    assert measured.through[1].share > 0.9


def test_on_a_server_that_keeps_running_each_pass_starts_cold(small, tmp_path):
    plan = Plan(small, "chat", 2)
    model = write_model(tmp_path / "m.gguf", text=plan.text())
    with LlamaServer(model) as server:
        for _ in range(2):
            measured = figures(on_upstream(plan, server.url, Steps(), edit_remote=False))
            assert not measured.warm
            assert measured.direct[1].share < 0.1
            assert measured.through[1].share > 0.9


def test_the_command_asks_a_running_server_for_its_own_model(small, tmp_path, monkeypatch):
    monkeypatch.setattr(conversation, "load", lambda: small)
    model = write_model(tmp_path / "m.gguf", text=Plan(small, "chat", 2).text())
    with LlamaServer(model, model_alias=["own-name"]) as server:
        result = CliRunner().invoke(
            demo, ["--upstream", server.url + "/v1", "--turns", "2", "--json"]
        )
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert (value["model"], value["embedded"]) == ("own-name", False)
    assert value["direct"]["turns"][1]["reused"] < 100 < value["through"]["turns"][1]["reused"]


def test_a_context_that_is_too_small_is_told(small, tmp_path):
    model = write_model(tmp_path / "m.gguf")
    with LlamaServer(model, n_ctx=512) as server, pytest.raises(DemoError, match="larger context"):
        on_upstream(Plan(small, "chat", 1), server.url, Steps(), edit_remote=False)
