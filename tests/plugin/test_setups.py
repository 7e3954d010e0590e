"""Which clients can be set up, by what is installed."""

from __future__ import annotations

import pytest

from cacheproxy.client_setup.need import Need
from cacheproxy.plugin.hooks import PluginError
from cacheproxy.plugin.setups import Setups
from tests.plugin.installing import others

SETUP = """
from cacheproxy import Setup
CLIENT = Client({client!r})
@hookimpl
def cacheproxy_setup(need): {does}
"""
NEED = Need("http://here")


def client(name, does="return Setup({'URL': need.url})"):
    return SETUP.format(client=name, does=does)


def test_a_client_is_found_by_its_name_before_a_package_is(install):
    """Of two packages for one client, the first by name counts."""
    install("a-package", client("mine"))
    install("b-package", client("mine", "return None"))
    install("other", client("a-package"))
    install("silent", "CLIENT = Client('silent')\nRULES = ()")
    setups = Setups(others())
    assert setups.package("mine").client.has_setup
    assert setups.clients == ["a-package", "mine"]
    assert setups.package("mine").name == "a-package"
    assert setups.package("a-package").name == "other"
    assert setups.package("other").name == "other"
    assert setups.package("mine").setup(NEED).variables == {"URL": "http://here"}


def test_one_that_is_not_there(install):
    """The message says what is, what cannot be loaded, and how to get others."""
    with pytest.raises(PluginError, match="no client called 'mine' is installed; there is none"):
        Setups(others()).package("mine")
    install("mine-package", "raise OSError('no disk')")
    install("silent", "CLIENT = Client('silent')\nRULES = ()")
    with pytest.raises(PluginError, match="there is none; mine-package cannot be loaded: OSError"):
        Setups(others()).package("silent")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise OSError('no disk')", "OSError: no disk"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return None", "PluginError: cacheproxy_setup returns a cacheproxy.Setup"),
        ("return 5", "PluginError: cacheproxy_setup returns a cacheproxy.Setup"),
    ],
)
def test_a_hook_that_fails_is_one_line_with_its_plugins_name(install, does, said):
    """Whatever it raises or returns."""
    install("mine-package", client("mine", does))
    with pytest.raises(PluginError) as caught:
        Setups(others()).package("mine").setup(NEED)
    assert str(caught.value) == f"plugin mine-package: cacheproxy_setup: {said}"
