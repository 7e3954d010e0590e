"""One real llama.cpp server for all tests here, and the real proxy before it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from cacheproxy_demo.embedded import write_model

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.testing import capture_name, find_captures
from tests import needs

from .percommit import choose
from .replay import Session, load_sessions, start_server, write_model_for
from .templates import REWRITING, TEMPLATES

HERE = Path(__file__).parent
REPLAYED = (
    "claude_2.1.114-localmodel",
    "claude_2.1.174-gitchange",
    "claude-stream",
    "openclaw-completions",
    "openclaw_2026.6.11-completions",
    "codex-resume",
    "pi-datechange",
)
"""Captures the tests send; those of benchmarks/reuse.py are all there are."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the night what percommit.py does not name."""
    unknown = choose([item for item in items if item.path.is_relative_to(HERE)])
    if unknown and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"percommit.py names tests that are not there: {unknown}")


@pytest.fixture(scope="session")
def recorded() -> dict[str, Session]:
    """The main session of each capture that is replayed, by name."""
    files = [file for name in REPLAYED for file in find_captures(f"{name}.jsonl", __file__)]
    return {capture_name(file): load_sessions(file)[0] for file in files}


@pytest.fixture(scope="session")
def llama(recorded, tmp_path_factory):
    """The embedded server on a tiny model whose words are those of the captures."""
    needs.llama()
    folder = tmp_path_factory.mktemp("llama")
    model = write_model_for(folder / "tiny.gguf", recorded.values())
    with start_server(model, folder, sampling__ignore_eos=True) as server:
        yield server


@pytest.fixture(scope="session")
def proxy(llama):
    """The proxy as it comes, in front of the server."""
    with Proxy(llama.url) as proxy:
        yield proxy


@pytest.fixture
def serve(tmp_path):
    """Start the embedded server with a template of TEMPLATES or REWRITING, or with another text.

    ``text``: what its model learns its words from.
    """
    needs.llama()
    with ExitStack() as stack:

        def serve(template, text="a b", **settings):
            template = (TEMPLATES | REWRITING).get(template, template)
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            model = write_model(folder / "tiny.gguf", text=text, template=template)
            settings = {"sampling__ignore_eos": True} | settings
            return stack.enter_context(start_server(model, tmp_path, **settings))

        yield serve
