"""The real server and the real proxy for the checks, and scripted peers for what they never do."""

from contextlib import ExitStack

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_demo.run import require_plugin

from cacheproxy.child.process import ChildProxy
from cacheproxy.doctor import trial_prompt
from cacheproxy.http_client import CommandError, Site
from tests import needs
from tests.doctor.builders import HEADS
from tests.peer import NOBODY, Peer

VOCABULARY = "\n".join(
    [trial_prompt.text("0123456789abcdef"), trial_prompt.QUESTION, HEADS.texts[0]] * 3
)


@pytest.fixture
def peer():
    """Start a Peer."""
    with ExitStack() as stack:
        yield lambda *pages: stack.enter_context(Peer(*pages))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model whose words are those of the test prompt."""
    needs.llama()
    return write_model(tmp_path_factory.mktemp("model") / "tiny.gguf", text=VOCABULARY)


@pytest.fixture(scope="session")
def llama(model):
    """The embedded server."""
    with LlamaServer(model, n_ctx=8192, n_parallel=2) as server:
        yield server


@pytest.fixture(scope="session")
def proxy(llama):
    """The proxy as it comes, in front of the server."""
    try:
        require_plugin()
    except CommandError as missing:
        pytest.skip(str(missing))
    with ChildProxy(llama.url) as service:
        yield service


@pytest.fixture
def site(llama):
    return Site(llama.url)


@pytest.fixture
def nobody():
    """A URL where nobody listens."""
    return NOBODY
