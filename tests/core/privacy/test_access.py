"""Who may use the proxy."""

from __future__ import annotations

import pytest

from cacheproxy.core.privacy.access import Access, Door

TOKEN = "correct horse"


def asked(access=None, address="127.0.0.1", http10=False, path=b"/v1/messages", **headers):
    """The refusal of a request with these headers, or None."""
    found = {name.replace("_", "-").encode(): value for name, value in headers.items()}

    def values(name):
        value = found.get(name, [])
        return [v.encode() for v in ([value] if isinstance(value, str) else value)]

    return (access or Access()).refusal(values, address, path=path, http10=http10)


def status(*arguments, **headers):
    refusal = asked(*arguments, **headers)
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost:8081", "127.0.0.1:8081", "[::1]:8081", "[::1]", "127.8.9.1"),
        *("localhost:", "[::1]:"),  # RFC 3986, section 3.2.3: a port may be empty
    ],
)
def test_programs_on_this_machine_may(host):
    """They send no Origin."""
    assert status(host=host) is None
    assert status(host=host, sec_fetch_site="none") is None
    assert status(host=host, origin=f"http://{host}", sec_fetch_site="same-origin") is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "1.2.3.4.example:80", "0.0.0.0:8081"),
        *("192.168.1.2:8081", "2130706433", "[::]:8081", "", "gpu_1.lan", "a%41:"),
    ],
)
def test_a_name_may_be_anybodys(host):
    """A page from elsewhere can give itself our address (DNS rebinding)."""
    assert status(host=host) == 421
    assert status(Access(frozenset({"host.docker.internal"})), host=host) == 421


def test_names_can_be_added():
    """Containers reach their host under a name."""
    access = Access(frozenset({"host.docker.internal"}))
    assert status(access, host="host.docker.internal:8081") is None
    assert status(access, host="Host.Docker.Internal") is None


def test_the_refusal_says_what_to_do_about_a_name():
    """But repeats nothing that is no host name."""
    assert "--allow-host gpu.lan" in asked(host="gpu.lan:8081").message
    assert "(gpu)" not in asked(host="(gpu)").message


@pytest.mark.parametrize(
    "host",
    [
        "localhost:80:80",
        "localhost@evil",
        "<script>",
        "a b",
        "a/b",
        "localhost:x",
        "[::1",
        "::1",
        "a%4",
        "\xe9",
    ],
)
def test_what_is_no_host_is_a_bad_request(host):
    """Not one for another server (RFC 9112, section 3.2), wherever it came in."""
    assert status(host=host) == status(host=host, address="", path="/_cacheproxy/ready") == 400
    assert host not in asked(host=host).message


def test_the_address_a_request_came_in_at_is_ours():
    """Browsers cannot be made to believe that another site has an address of ours."""
    assert status(host="192.168.1.2:8081", address="192.168.1.2") is None
    assert status(host="192.168.1.2:8081", address="::ffff:192.168.1.2") is None
    assert status(host="192.168.1.3:8081", address="192.168.1.2") == 421


def test_a_socket_in_the_file_system_has_no_name():
    """No browser can reach it."""
    assert status(host="x", address="") is None
    assert status(host="x", origin="http://evil.example", address="") == 403


def test_a_request_has_one_host():
    """HTTP/1.1 demands one; two may be read in two ways."""
    assert status() == 400
    assert status(host=["localhost", "localhost"]) == 400
    assert status(http10=True) is None
    assert status(http10=True, origin="http://evil.example") == 403


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(("origin", it) for it in ("http://evil.example", "null", "http://localhost:9999", "")),
        ("origin", "http://localhost"),  # another port is another site
        *(("sec_fetch_site", it) for it in ("cross-site", "same-site", "")),
    ],
)
def test_other_sites_may_not(name, said):
    """Whatever they say; browsers name them even when they send no Origin."""
    assert status(host="localhost:8081", **{name: said}) == 403


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"x_cacheproxy_token": TOKEN}, None),
        *(({key: TOKEN}, None) for key in ("x_api_key", "api_key", "x_goog_api_key")),
        ({"authorization": f"Bearer {TOKEN}"}, None),
        ({"authorization": f"bearer  {TOKEN} "}, None),
        ({"authorization": "Bearer sk-upstream", "x_cacheproxy_token": TOKEN}, None),
        ({}, 401),
        *(({"x_api_key": wrong}, 401) for wrong in ("", TOKEN[:-1], TOKEN + "x", "é")),
        *(({"authorization": wrong}, 401) for wrong in (TOKEN, f"Basic {TOKEN}")),
        ({"cookie": TOKEN}, 401),
    ],
)
def test_a_token_is_taken_where_clients_can_put_it(headers, wanted):
    """It is asked for even of programs on this machine, after what says less about us."""
    access = Access(token=TOKEN)
    assert status(access, host="localhost", **headers) == wanted
    assert status(access, host="evil.example", **headers) == 421


def test_only_the_headers_that_hold_the_token_are_ours():
    """An upstream's own key beside it goes on."""
    access = Access(token=TOKEN)

    def names(**found):
        return access.token_headers(
            lambda name: [found[name.decode()].encode()] if name.decode() in found else []
        )

    assert names(authorization=f"Bearer {TOKEN}") == [b"authorization"]
    both = {"authorization": "Bearer sk-1", "x-cacheproxy-token": TOKEN, "x-api-key": TOKEN}
    assert sorted(names(**both)) == [b"x-api-key", b"x-cacheproxy-token"]


def cookie(access):
    return b"=".join(access.cookie).decode()


@pytest.mark.parametrize(
    ("paths", "bare", "with_cookie"),
    [
        # our own pages
        (("/data", "/diagnose/last", "/live", "/login", "/static", "/exchanges", "//"), 401, None),
        # the page that asks for the token holds no data
        (("", "/", "/static/dashboard.js"), None, None),
        # a browser that sends the cookie elsewhere gains nothing by it
        (("x",), 401, 401),
    ],
)
def test_the_cookie_opens_our_own_pages_alone(paths, bare, with_cookie):
    """But none of them to other sites."""
    access = Access(token=TOKEN)
    given = f"a=b; {cookie(access)} ;c"
    for path in (f"/_cacheproxy{path}".encode() for path in paths):
        assert status(access, host="localhost", path=path) == bare
        assert status(access, host="localhost", path=path, cookie=given) == with_cookie
        assert status(access, host="evil.example", path=path, cookie=given) == 421
        foreign = {"cookie": given, "sec_fetch_site": "cross-site"}
        assert status(access, host="localhost", path=path, **foreign) == 403


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (b"/dashboard", None),  # leads to our own page
        *((path, 401) for path in (b"/dashboard/", b"//_cacheproxy/", b"/v1/messages")),
        *((path, 401) for path in (b"/", b"", b"*")),
    ],
)
def test_what_is_not_ours_takes_no_cookie(path, wanted):
    access = Access(token=TOKEN)
    assert status(access, host="localhost", path=path, cookie=cookie(access)) == wanted


def test_another_tokens_cookie_is_none():
    """Neither under its own name, nor under ours; nor a part of it, nor the token itself."""
    access, other = Access(token=TOKEN), Access(token="another")
    name, value = (part.decode() for part in access.cookie)
    for wrong in (cookie(other), f"{name}={other.cookie[1].decode()}", f"{name}={value[:-1]}",
                  f"{name}=", name, f"{name}={TOKEN}", f"x={value}"):  # fmt: skip
        assert status(access, host="localhost", path=b"/_cacheproxy/data", cookie=wrong) == 401


def test_the_cookie_does_not_tell_the_token():
    """It goes to every port of the host, and differs with the token."""
    first, second = Access(token=TOKEN).cookie, Access(token="another").cookie
    assert TOKEN.encode() not in b"".join(first)
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert len(first[1]) == 64


CHECKS = (b"/_cacheproxy/ready", b"/_cacheproxy/health")


@pytest.mark.parametrize("path", CHECKS)
def test_a_load_balancer_asks_by_its_own_name_or_none(path):
    """It checks by an address, by its own host name, or as HTTP/1.1 forbids."""
    assert status(path=path) is None
    assert status(path=path, host="balancer.lan") is None
    assert status(path=path, host=["a", "b"]) == 400
    for more in (b"x", b"/", b"/../exchanges"):
        assert status(path=path + more) == 400
        assert status(path=path + more, host="balancer.lan") == 421


@pytest.mark.parametrize("path", CHECKS)
def test_a_page_of_another_site_does_not(path):
    """Also where it has given our address its own name."""
    assert status(path=path, host="evil.example", origin="http://evil.example") == 403
    assert status(path=path, host="evil.example", sec_fetch_site="cross-site") == 403
    assert status(path=path, host="localhost", origin="http://localhost") is None


@pytest.mark.parametrize(
    ("peer", "fields", "trusted"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("::ffff:127.0.0.1", {}, True),
        ("", {}, True),  # a socket in the file system
        ("10.0.0.1", {}, False),
        ("127.0.0.1", {"x_forwarded_for": "127.0.0.1"}, False),
        ("", {"forwarded": "for=10.0.0.1"}, False),
        ("127.0.0.1", {"via": "1.1 other"}, False),
    ],
)
def test_prompts_are_for_this_machine_or_the_token(peer, fields, trusted):
    """With a token nobody comes that far without it, from wherever it is."""
    given = {name.replace("_", "-").encode(): [value.encode()] for name, value in fields.items()}

    def values(name):
        return given.get(name, [])

    assert Access().is_trusted(values, peer) is trusted
    assert Access(token=TOKEN).is_trusted(values, peer)


def test_ready_needs_no_token():
    """It tells nothing but that. The page health tells more."""
    access = Access(token=TOKEN)
    assert [status(access, path=path) for path in CHECKS] == [None, 401]


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("/x", "/x"),
        ("/x?key=correct+horse", "/x"),
        ("/x?a=%20b&key=correct%20horse&&c", "/x?a=%20b&&c"),
        ("/x?key=other&key=%63orrect+horse", "/x?key=other"),
        ("/x?key=correct+horses", "/x?key=correct+horses"),
        ("/x?apikey=1&q=correct+horse&", "/x?apikey=1&q=correct+horse&"),
        ("/x?key=\xff", "/x?key=\xff"),
    ],
)
def test_the_token_in_a_query_is_not_the_upstreams(target, left):
    """Only there where clients give keys; all else stays as it was."""
    found = Access(token=TOKEN).without_token(target.encode("latin-1"))
    assert found.decode("latin-1") == left


HERE = Door("127.0.0.1", 8081)


def misdirected(host, scheme=b"http", door=HERE, access=None):
    """The refusal of a request for a URL, or None."""
    return (access or Access()).misdirected(lambda _: [host.encode()], scheme, door)


@pytest.mark.parametrize(
    ("host", "scheme", "door"),
    [
        *((it, b"http", HERE) for it in ("127.0.0.1:8081", "LocalHost:8081", "localhost:08081")),
        ("[::1]:8081", b"http", Door("::1", 8081)),
        ("192.168.1.2:8081", b"http", Door("::ffff:192.168.1.2", 8081)),
        ("localhost", b"http", Door("127.0.0.1", 80)),
        ("localhost", b"https", Door("127.0.0.1", 443, secure=True)),
        ("localhost:8081", b"https", Door("127.0.0.1", 8081, secure=True)),
        ("localhost:8081", b"http", Door("127.0.0.1", 8081, secure=True)),
        ("evil.example", b"https", Door()),  # a socket in the file system has no name
    ],
)
def test_a_url_that_is_ours_is_answered(host, scheme, door):
    """By the names that a Host may have, and at our port."""
    assert misdirected(host, scheme, door) is None


@pytest.mark.parametrize(
    ("host", "scheme"),
    [
        *((it, b"http") for it in ("evil.example:8081", "0.0.0.0:8081", "localhost.example:8081")),
        *((it, b"http") for it in ("localhost", "localhost:80", "127.0.0.1:11434", "[::1]:808")),
        *((it, b"http") for it in ("localhost:" + "8" * 5000, "localhost:", "gpu.lan:8081")),
        *(("localhost:8081", it) for it in (b"https", b"ftp", b"ws")),
    ],
)
def test_a_url_that_is_not_is_refused(host, scheme):
    """Also another server's on this machine, and an encrypted one at an open port."""
    assert misdirected(host, scheme).status == 421


def test_a_name_that_was_allowed_may_have_any_port():
    """That of what stands before us."""
    access = Access(frozenset({"gpu.lan"}))
    assert misdirected("GPU.lan:9", access=access) is None
    assert misdirected("gpu.lan", b"https", access=access).status == 421


def test_who_takes_us_for_a_forward_proxy_is_told_what_to_do():
    """But nothing is repeated that is no host name."""
    message = misdirected("api.example:80").message
    assert message.startswith("the request is for api.example:80: HTTP_PROXY is most likely set")
    assert "(gpu)" not in misdirected("(gpu)").message
    assert "x" * 300 not in misdirected("x" * 300).message
    assert "http://" in misdirected("localhost:8081", b"https").message
    tunnel = Access().refusal(lambda _: [b"api.example:443"], "127.0.0.1", method=b"CONNECT")
    assert tunnel.status == 501
    assert "HTTPS_PROXY is most likely set" in tunnel.message
    assert "--allow-host" not in tunnel.message
