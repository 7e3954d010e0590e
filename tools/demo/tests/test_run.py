"""Both passes over real sockets: the embedded server, the real service."""

import json

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_demo.embedded.model import default_template
from cacheproxy_demo.figures import figures
from cacheproxy_demo.run import DemoPlan, on_upstream, require_plugin, text_of

from cacheproxy.http_client import CommandError
from tests import needs
from tests.cli.invoking import invoke

pytestmark = [pytest.mark.llama, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _installed():
    needs.llama()
    try:
        require_plugin()
    except CommandError as missing:
        pytest.skip(str(missing))


def quiet(_doing, _done):
    pass


def test_on_a_server_that_keeps_running_each_pass_starts_cold(small, tmp_path):
    scenes = small(embedded=False)
    model = write_model(tmp_path / "m.gguf", text=text_of(scenes))
    with LlamaServer(model) as server:
        late, cch = on_upstream(DemoPlan(2), scenes, server.url, quiet, edit_remote=False)
    for costs in (late.direct, late.through, cch.direct, cch.through):
        assert costs[0].usage.reused < 0.1 * costs[0].usage.prompt
    assert late.placement["late"] == "inline"
    assert figures(late.direct).share >= 0.99
    assert figures(late.through).share >= 0.99
    assert figures(cch.direct).share < 0.1


def test_the_command_tells_of_a_running_servers_own_model_and_template(small, tmp_path):
    model = write_model(tmp_path / "m.gguf", text=text_of(small(embedded=False)))
    strict = default_template("refused")
    with LlamaServer(model, model_alias=["own-name"], chat_template=strict) as server:
        result = invoke("demo", "--upstream", f"{server.url}/v1", "--turns", 2, "--json")
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert (value["model"], value["embedded"]) == ("own-name", False)
    late, cch = value["scenes"]
    assert late["direct"]["total"]["refused"] == 2
    assert late["through"]["total"]["refused"] == 0
    assert late["placement"]["late"] == "refused"
    assert any(note.startswith("here: the server refuses") for note in value["notes"])
    assert cch["direct"]["turns"][1]["reused"] < 100 < cch["through"]["turns"][1]["reused"]


def test_a_context_that_is_too_small_is_told(small, tmp_path):
    model = write_model(tmp_path / "m.gguf")
    with (
        LlamaServer(model, n_ctx=512) as server,
        pytest.raises(CommandError, match="larger context"),
    ):
        on_upstream(DemoPlan(2), small(embedded=False), server.url, quiet, edit_remote=False)
