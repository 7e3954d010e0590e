"""Proxies before a model server with a template of its own."""

from __future__ import annotations

import pytest

from tests.core.templates import strict
from tests.proxy.harness import Proxy

from .bodies import of_this_test
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
def _shared(_upstream, tmp_path_factory):
    _upstream.reset()  # it must find no page when it starts
    with Proxy(tmp_path_factory.mktemp("placing"), "--upstream", _upstream.url) as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def shared(_shared, upstream):
    """A proxy for servers that render nothing for us."""
    return _shared


@pytest.fixture(scope="module")
def _quiet(_upstream, tmp_path_factory):
    _upstream.reset()  # it must find no page when it starts
    folder = tmp_path_factory.mktemp("quiet")
    with Proxy(folder, "--upstream", _upstream.url, "--placement", "quiet") as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def quiet(_quiet, upstream):
    """A proxy that learns by refusals alone, before a server without pages; returns both."""
    return _quiet, put(upstream, ModelServer(strict))
