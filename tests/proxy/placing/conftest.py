"""Proxies before a model server with a template of its own."""

import pytest

from tests.core.templates import strict
from tests.proxy.conftest import proxy_with
from tests.proxy.harness import Proxy

from .bodies import LLAMA, of_this_test
from .templated import ModelServer, put


@pytest.fixture(autouse=True)
def model(request):
    """A model that no other test asks for, so that they can share a proxy."""
    of_this_test["model"] = request.node.name
    return request.node.name


_shared, _quiet = proxy_with(), proxy_with("--placement", "quiet")


@pytest.fixture
def shared(_shared, upstream):
    """A proxy for servers that render nothing for us."""
    return _shared


@pytest.fixture
def quiet(_quiet, upstream):
    """A proxy that learns by refusals alone, before a server without pages; returns both."""
    return _quiet, put(upstream, ModelServer(strict))


@pytest.fixture(scope="module")
def _knowing(_upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("knowing")
    put(_upstream, ModelServer(strict, pages=LLAMA))
    with Proxy(folder, "--verbose", "--upstream", _upstream.url) as proxy:
        yield proxy
    assert "Traceback" not in proxy.output


@pytest.fixture
def knowing(_knowing, upstream):
    """A proxy that knows its server's template, which is strict; returns both."""
    return _knowing, put(upstream, ModelServer(strict, pages=LLAMA))
