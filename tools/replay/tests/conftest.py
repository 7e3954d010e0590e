"""The embedded server on a model that knows the words of the conversation."""

import os

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_replay.run import ruleset

from cacheproxy.sources import load
from tests import conversation, installed, needs


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    needs.llama()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    folder = tmp_path_factory.mktemp("replay")
    model = write_model(folder / "tiny.gguf", text=conversation.text())
    settings = {"slot_save_path": f"{folder}{os.sep}", "sampling__ignore_eos": True}
    with LlamaServer(model, n_ctx=16_384, **settings) as server:
        yield server


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch):
    """Load what is installed once: most of what a command takes."""
    installed.load_once(monkeypatch)


@pytest.fixture
def config(tmp_path):
    """A config file with one rule, that for the nonce."""
    file = tmp_path / "config.toml"
    file.write_text(conversation.RULE)
    return file


@pytest.fixture
def rules(config):
    return ruleset(load({}, {}, str(config)))
