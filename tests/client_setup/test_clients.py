"""What holds for all clients."""

from __future__ import annotations

import pytest

from cacheproxy.client_setup.clients import CLIENTS
from cacheproxy.client_setup.need import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
TOKEN = Need(URL, token="SECRET", model="m", context=4096)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)


@pytest.mark.parametrize("name", CLIENTS)
def test_files_hold_no_secret(name):
    """They can be shown and shared; shells need the value."""
    for need in (TOKEN, BOTH):
        setup = CLIENTS[name](need)
        text = f"{setup.content} {setup.notes}"
        assert "SECRET" not in text
        assert "SERVERKEY" not in text
        assert bool(setup.variables) != bool(setup.content)
        if setup.file:
            assert setup.file.startswith("~/")
            assert "in the environment of the client" in text


@pytest.mark.parametrize("name", CLIENTS)
def test_without_a_running_proxy(name):
    """The base URL is there all the same, and no window is made up."""
    setup = CLIENTS[name](BARE)
    text = f"{setup.variables} {setup.content or ''} {setup.notes}"
    assert URL in text
    assert "None" not in text
    assert "null" not in text
    assert not [line for line in text.splitlines() if "ontext" in line]
