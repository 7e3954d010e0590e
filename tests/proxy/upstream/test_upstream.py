"""UpstreamURL: where the model server is, or what is wrong with the URL."""

import pytest

from cacheproxy.proxy.upstream.upstream import UpstreamURL, UpstreamURLError


@pytest.mark.parametrize(
    ("text", "parts", "authority"),
    [
        ("http://localhost:8080", (False, "localhost", 8080, ""), "localhost:8080"),
        ("http://localhost:8080/", (False, "localhost", 8080, ""), "localhost:8080"),
        ("HTTP://LocalHost", (False, "localhost", 80, ""), "localhost"),
        ("https://api.anthropic.com", (True, "api.anthropic.com", 443, ""), "api.anthropic.com"),
        ("https://h:80", (True, "h", 80, ""), "h:80"),
        ("http://h:443/v1", (False, "h", 443, ""), "h:443"),
        ("http://h/api/v1/", (False, "h", 80, "/api"), "h"),
        ("localhost:8080", (False, "localhost", 8080, ""), "localhost:8080"),
        ("http://h:80/a//b/", (False, "h", 80, "/a//b"), "h"),
        ("http://[::1]:8080/x", (False, "::1", 8080, "/x"), "[::1]:8080"),
        ("http://[fd00::1]", (False, "fd00::1", 80, ""), "[fd00::1]"),
        ("http://10.0.0.5:1", (False, "10.0.0.5", 1, ""), "10.0.0.5:1"),
    ],
)
def test_a_url_is_taken_apart(text, parts, authority):
    """The Host header names the port unless it is the scheme's own."""
    url = UpstreamURL.parse(text)
    assert (url.secure, url.host, url.port, url.base) == parts
    assert url.authority == authority
    assert not url.text.endswith("/")


BAD = {
    "is not an http or https URL:": (
        *("", "localhost", "8080", "ftp://localhost"),
        *("http://", "http:///path", "http://:8080"),
    ),
    "ort": ("http://h:port", "http://h:99999", "http://h:-1"),
    "port 0": ("http://h:0",),
    "IPv6": ("http://[::1",),
    "query": ("http://h/?x=1",),
    "fragment": ("http://h/#x",),
    "ASCII": ("http://h ost", "http://h/a b", "http://h/\r\nX: 1", "http://höst"),
}


@pytest.mark.parametrize(
    ("text", "names"), [(text, names) for names, texts in BAD.items() for text in texts]
)
def test_a_bad_url_is_one_line_that_says_how_to_write_it(text, names):
    with pytest.raises(UpstreamURLError) as caught:
        UpstreamURL.parse(text)
    message = str(caught.value)
    assert names in message
    assert message.isprintable()
    assert message.endswith("write it like http://localhost:8080")


@pytest.mark.parametrize(
    "text",
    [
        "http://user:kanarienvogel@h",
        "http://kanarienvogel@h",
        "http://user:kanarienvogel@h:port",
        "http://user:kanarienvogel@h:99999",
        "http://user:kanarienvogel@",
        "ftp://user:kanarienvogel@h",
        "http://user:kanarienvogel@[::1",
        "http://h/?key=kanarienvogel",
        "http://h:x/?key=kanarienvogel",
        "http://h/#kanarienvogel",
        "//h?kanarienvogel",
    ],
)
def test_a_password_in_a_url_is_not_shown(text):
    """Errors go to terminals and logs."""
    with pytest.raises(UpstreamURLError) as caught:
        UpstreamURL.parse(text)
    assert "kanarienvogel" not in str(caught.value)
