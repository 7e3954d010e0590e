"""Who may read our own pages."""

from __future__ import annotations

import pytest
from twisted.web.test.requesthelper import DummyRequest

from cacheproxy.web.access import refusal


def refused(**headers):
    request = DummyRequest([b""])
    for name, value in headers.items():
        request.requestHeaders.setRawHeaders(name.replace("_", "-"), [value])
    return refusal(request) is not None


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8081", "127.0.0.1:8081", "[::1]:8081", "[::1]", "192.168.1.2"]
)
def test_programs_on_this_machine_may(host):
    """They send no Origin."""
    assert not refused(host=host)
    assert not refused(host=host, sec_fetch_site="none")
    assert not refused(host=host, origin=f"http://{host}", sec_fetch_site="same-origin")


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "1.2.3.4.example:80"]
)
def test_a_name_may_be_anybodys(host):
    """A page from elsewhere can give itself our address (DNS rebinding)."""
    assert refused(host=host)


def test_a_request_without_a_host_is_refused():
    """HTTP/1.1 demands one."""
    assert refused()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", ""])
def test_other_sites_may_not(origin):
    """Whatever they say."""
    assert refused(host="localhost:8081", origin=origin)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_browsers_say_where_a_request_comes_from(site):
    """Even when they send no Origin."""
    assert refused(host="localhost:8081", sec_fetch_site=site)
