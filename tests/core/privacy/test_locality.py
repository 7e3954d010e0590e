"""is_local(): the user's own network, or a vendor's API (law 5)."""

from __future__ import annotations

import pytest

from cacheproxy.core.privacy.locality import is_local


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "localhost.", "llama.localhost", "127.0.0.1", "127.1.2.3"),
        *("0.0.0.0", "::1", "::", "10.0.0.5", "172.16.0.1", "172.31.255.255", "192.168.1.20"),
        *("169.254.1.1", "fe80::1", "fe80::1%eth0", "fd00::1", "100.64.0.1", "100.127.255.254"),
        *("::ffff:192.168.1.20", "gpubox", "gpubox.local", "GPUBOX.LOCAL.", "gpubox.lan"),
        *("gpubox.home", "gpubox.home.arpa", "llm.internal", "host.docker.internal"),
        "gpubox.tail1234.ts.net",
    ],
)
def test_own_networks_are_local(host):
    """Loopback, private addresses, names without a dot, names that never leave the house."""
    assert is_local(host)


@pytest.mark.parametrize(
    "host",
    [
        *("api.anthropic.com", "api.openai.com.", "openrouter.ai", "8.8.8.8", "172.32.0.1"),
        *("172.15.255.255", "100.63.255.255", "100.128.0.1", "192.169.0.1", "::ffff:8.8.8.8"),
        *("2001:4860:4860::8888", "localhost.example.com", "evil-ts.net", "ts.net"),
        *("local.example", "127.0.0.1.nip.io", "10.0.0.5.example"),
    ],
)
def test_everything_else_is_not(host):
    """A public address, or a name that only looks like a local one."""
    assert not is_local(host)
