"""UpstreamURL: where the model server is, or what is wrong with the URL (urls.txt)."""

from cacheproxy.proxy.upstream.upstream import UpstreamURL, UpstreamURLError
from tests import transcript


def read(*texts):
    """Whether it is secure, host, port and base path of each, and what its Host header says.

    Or what is wrong: on one line, as it may go to terminals and logs.
    """
    return "\n".join(f"{text!r}: {parsed(text)}" for text in texts)


def parsed(text):
    try:
        url = UpstreamURL.parse(text)
    except UpstreamURLError as error:
        said = str(error)
        assert said.isprintable()
        assert "kanarienvogel" not in said
        return said
    assert not url.text.endswith("/")
    return transcript.plainly((url.secure, url.host, url.port, url.base, url.authority))


def test_a_url_is_taken_apart_or_what_is_wrong_is_said():
    transcript.holds("urls.txt", globals())
