"""A request target that is a whole URL, by RFC 9112, section 3.2.2."""

import pytest

from cacheproxy.core.http1.request_head import absolute


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("http://a:1/v1/models?x=1#y", ("http", "a:1", "/v1/models?x=1#y")),
        ("HTTPS://[::1]:8081/", ("https", "[::1]:8081", "/")),
        ("http://a//b/../c", ("http", "a", "//b/../c")),
        ("http://a", ("http", "a", "/")),
        ("http://a?x=/y", ("http", "a", "/?x=/y")),
        ("ws+unix.1-2://a", ("ws+unix.1-2", "a", "/")),
        ("http://a/@b", ("http", "a", "/@b")),
        ("http://a/http://b/", ("http", "a", "/http://b/")),
        *((it, None) for it in ("*", "/x", "//a/x", "/http://a/", "a:1", "http:/a", "http:a")),
        *((it, None) for it in ("://a/", "1http://a/", "a/http://b", "urn:x", "@a")),
    ],
)
def test_a_url_has_a_scheme_an_authority_and_a_path(target, parts):
    """The path as it came; one that is missing is the root. What is no URL has no parts."""
    found = absolute(b"GET", target.encode())
    assert (found and tuple(part.decode() for part in found)) == parts


@pytest.mark.parametrize(
    "authority",
    [
        *("", ":80", "u@a", "u:p@a", "a@b:80", "a:b", "a:80:80", "::1"),
        *("[a", "a]", "a\\@b", "a%4", "<a>", "a#@b"),
    ],
)
@pytest.mark.parametrize("rest", ["", "/v1/models", "?x"])
def test_a_url_of_no_host_is_an_error(authority, rest):
    """Nor may there be a user (RFC 9110, sections 4.2.1 and 4.2.4), or a fragment for a path."""
    with pytest.raises(ValueError, match="names no host"):
        absolute(b"GET", f"http://{authority}{rest}".encode())


def test_options_without_a_path_are_those_of_the_server():
    """RFC 9112, section 3.2.4."""
    assert [absolute(b"OPTIONS", it)[2] for it in (b"http://a", b"http://a/", b"http://a?x")] == [
        *(b"*", b"/", b"/?x")
    ]
