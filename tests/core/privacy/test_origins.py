"""Origins: what can be allowed, and what is said to their pages."""

from __future__ import annotations

import pytest

from cacheproxy.core.privacy.access import Access
from cacheproxy.core.privacy.origins import NOT_SHARED, OriginError, origins

PAGE = "http://localhost:3000"
TOKEN = "correct horse"
ACCESS = Access(origins=origins([PAGE]))


def values(**headers):
    found = {name.replace("_", "-").encode(): value for name, value in headers.items()}

    def get(name):
        value = found.get(name, [])
        return [it.encode() for it in ([value] if isinstance(value, str) else value)]

    return get


def status(access=ACCESS, path=b"/v1/messages", method=b"POST", **headers):
    asked = values(host="localhost:8081", **headers)
    refusal = access.refusal(asked, "127.0.0.1", method=method, path=path)
    return refusal and refusal.status


def said(access=ACCESS, path=b"/v1/messages", method=b"POST", **headers):
    """The headers of the answer by name, and whether it is a preflight's."""
    sharing = access.sharing(method, path, values(**headers))
    assert len(dict(sharing.headers)) == len(sharing.headers)
    found = {name.decode().lower(): value.decode() for name, value in sharing.headers}
    return found, sharing.is_preflight


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *((it, it) for it in (PAGE, "https://chat.example", "tauri://localhost", "http://[::1]:1")),
        *((it, it) for it in ("vscode-webview://0a-1b", "chrome-extension://abc", "app://x_y.z")),
        ("HTTP://LocalHost:3000", PAGE),
        # as a browser leaves them out
        ("http://chat.example:80", "http://chat.example"),
        ("https://chat.example:443", "https://chat.example"),
        ("https://chat.example:80", "https://chat.example:80"),
    ],
)
def test_an_origin_is_read_as_browsers_write_it(name, wanted):
    assert origins([name]) == {wanted.encode()}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("*", "* would let in every web page: name each origin, like http://localhost:3000"),
        ("null", "null is the origin of every sandboxed page and local file: serve yours from"),
        ("localhost:3000", "localhost:3000 has no scheme: write http://localhost:3000"),
        ("chat.example", "chat.example has no scheme: write http://chat.example"),
        (PAGE + "/", f"{PAGE}/ is more than an origin: write {PAGE}"),
        (PAGE + "/chat?x", f"{PAGE}/chat?x is more than an origin: write {PAGE}"),
        *(
            (it, f"{it} is not an origin: write one like")
            for it in ("http://*.example", "http://a@b")
        ),
        ("http://a\nx", "http://a x is not an origin: write one like"),
        *(
            (it, f"{it} is not an origin: write one like")
            for it in ("http://", "file:///", "http://é")
        ),
    ],
)
def test_what_is_no_origin_is_refused_with_a_hint(name, hint):
    with pytest.raises(OriginError) as caught:
        origins([PAGE, name])
    assert str(caught.value).startswith(hint)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("site", ["cross-site", "same-site", []])
def test_an_allowed_page_may_ask_the_model_server_but_not_us(site):
    """Whatever browsers call its site; our own pages are for none but ours."""
    page = {"origin": PAGE, "sec_fetch_site": site}
    for path in (b"/v1/messages", b"/", b"/_cacheproxyx", b"/dashboard/"):
        assert status(path=path, **page) is None
        assert status(Access(), path=path, **page) == 403
    for path in (b"/_cacheproxy", b"/_cacheproxy/", b"/_cacheproxy/ready", b"/dashboard"):
        assert status(path=path, **page) == 403
        assert said(path=path, **page) == ({}, False)


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost:3001", "https://localhost:3000", "http://localhost", "null", ""),
        *(PAGE + "/", PAGE.upper(), [PAGE, PAGE], [PAGE, "http://evil.example"], [], "*"),
    ],
)
def test_no_other_page_may(origin):
    """Nor one that does not say who it is."""
    assert status(origin=origin, sec_fetch_site="cross-site") == 403
    assert said(origin=origin) == ({"vary": "Origin"}, False)


def test_who_is_refused_is_told_what_to_do_about_an_origin():
    """But nothing that is none is repeated, and own pages cannot be allowed."""

    def message(path=b"/v1/messages", **headers):
        return Access().refusal(values(host="localhost", **headers), "", path=path).message

    assert "--allow-origin http://localhost:3000" in message(origin=PAGE)
    for wrong in ("null", "http://a b", "http://" + "x" * 300, PAGE + "/", "http://x\x1b"):
        assert message(origin=wrong) == "web pages of other sites may not use this proxy"
    assert "--allow-origin" not in message(origin=PAGE, path=b"/_cacheproxy/")
    assert "--allow-origin" not in message(sec_fetch_site="cross-site")


def test_another_host_name_is_still_none_of_ours():
    """An allowed page cannot give our address a name of its own (DNS rebinding)."""
    asked = values(host="evil.example", origin=PAGE)
    assert ACCESS.refusal(asked, "127.0.0.1").status == 421


def test_an_allowed_page_may_read_the_answer():
    """All its headers, but without cookies."""
    assert said(origin=PAGE) == (
        {
            "access-control-allow-origin": PAGE,
            "vary": "Origin",
            "access-control-expose-headers": "*",
        },
        False,
    )


def test_without_the_option_nothing_is_said():
    assert Access().sharing(b"POST", b"/v1/messages", values(origin=PAGE)) is NOT_SHARED


ASKED = {"origin": PAGE, "access_control_request_method": "PUT"}


def test_a_preflight_is_told_what_it_asks_for():
    """The method, the headers if there are any, the network if it asks."""
    found, is_preflight = said(method=b"OPTIONS", **ASKED)
    assert is_preflight
    assert found == {
        "access-control-allow-origin": PAGE,
        "vary": "Origin",
        "access-control-allow-methods": "PUT",
        "access-control-max-age": "7200",
    }
    more = {
        "access_control_request_headers": "authorization,x-stainless-os",
        "access_control_request_private_network": "true",
    }
    found, _ = said(method=b"OPTIONS", **ASKED, **more)
    assert found["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert found["access-control-allow-private-network"] == "true"


def test_a_preflight_needs_no_token_and_its_request_does():
    """A browser sends no credentials in it."""
    access = Access(token=TOKEN, origins=origins([PAGE]))
    assert status(access, method=b"OPTIONS", **ASKED) is None
    assert status(access, method=b"OPTIONS", origin=PAGE) == 401  # no preflight
    assert status(access, **ASKED) == 401
    assert status(access, **ASKED, x_api_key=TOKEN) is None
    other = ASKED | {"origin": "http://localhost:3001"}
    assert status(access, method=b"OPTIONS", **other) == 403
    assert status(access, method=b"OPTIONS", path=b"/_cacheproxy/data", **ASKED) == 403
