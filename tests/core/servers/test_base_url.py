"""A server's URL as people write it."""

import pytest

from cacheproxy.core.servers.base_url import server_root


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("http://localhost:8080/v1", "http://localhost:8080"),
        ("http://localhost:8080/v1/", "http://localhost:8080"),
        ("https://host/api/v1", "https://host/api"),
        ("https://host/api/v12", "https://host/api/v12"),
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1:8081/v1", "http://127.0.0.1:8081"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("my-host.lan:80/base/v1", "http://my-host.lan:80/base"),
    ],
)
def test_the_root_of_a_server(text, root):
    """And of a root it is itself."""
    assert server_root(text) == root
    assert server_root(root) == root


@pytest.mark.parametrize("text", ["", "8080", "host", "ftp", "//x/v1", ":8080", "a b:80", "v1"])
def test_what_is_no_url_stays_as_it_is(text):
    assert server_root(text) == text
