"""Proxies before a model server with a template of its own."""

from contextlib import ExitStack

import pytest

from tests.core.templates import strict
from tests.proxy.harness import Proxy, answer_ok

from .bodies import LLAMA, of_this_test
from .templated import ModelServer, put, starting


@pytest.fixture(autouse=True)
def model(request):
    """A model that no other test asks for, so that they can share a proxy."""
    of_this_test["model"] = request.node.name
    return request.node.name


@pytest.fixture
def start(tmp_path, upstream):
    """Start a proxy, which is new to the upstream, before a model server."""
    with starting(tmp_path, upstream) as start:
        yield start


@pytest.fixture(scope="module")
def _running(_upstream, tmp_path_factory):
    """Start a proxy once for each way, before a server that is ``found`` when it starts."""
    with ExitStack() as stack:
        proxies = {}

        def running(*arguments, found=answer_ok):
            if arguments not in proxies:
                _upstream.reset(found)
                folder = tmp_path_factory.mktemp("placing")
                proxy = Proxy(folder, "--upstream", _upstream.url, *arguments)
                proxies[arguments] = stack.enter_context(proxy)
            return proxies[arguments]

        yield running
    assert not any("Traceback" in proxy.output for proxy in proxies.values())


@pytest.fixture
def shared(_running, upstream):
    """A proxy for servers that render nothing for us."""
    return _running()


@pytest.fixture
def quiet(_running, upstream):
    """A proxy that learns by refusals alone, before a server without pages; returns both."""
    return _running("--placement", "quiet"), put(upstream, ModelServer(strict))


@pytest.fixture
def knowing(_running, upstream):
    """A proxy that knows its server's template, which is strict; returns both."""
    server = ModelServer(strict, pages=LLAMA)
    proxy = _running("--verbose", found=server)
    server.paths()
    return proxy, put(upstream, server)
