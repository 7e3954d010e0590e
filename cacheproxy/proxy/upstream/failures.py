"""Failures between proxy and upstream, and the messages about them for clients."""

from __future__ import annotations

import errno

from OpenSSL.SSL import Error
from service_identity import CertificateError, VerificationError
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.python.failure import Failure

from cacheproxy.core.http1.content_coding import CodingError, TooLargeError
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.translate.reading import NoTranslationError, TranslationError

BUSY = 429
ELSEWHERE = (BUSY, 503)
"""Statuses of a server that has not processed the request, so that another one may."""

NOT_IN_TIME = (
    "the upstream did not answer the TLS handshake in time: does it need http instead of https?"
)
_NO_TLS = {"wrong version number", "packet length too long", "record layer failure"}


class UpstreamSilent(Exception):  # noqa: N818 - the name describes the upstream
    """The upstream sent nothing for longer than it may.

    Prefill takes minutes, so the limit is long; without one, a server that hangs would make its
    client wait for ever.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the upstream sent nothing for {seconds:g} s; allow more with --upstream-silence "
            "(0 = no limit)"
        )


def is_ours(error: BaseException | None) -> bool:
    """Whether ``error`` is this process's lack of file descriptors, not a server's fault."""
    return getattr(error, "osError", None) in (errno.EMFILE, errno.ENFILE)


def explain(failure: Failure, upstream: str) -> tuple[int, str]:
    """Return status and message for a request whose exchange failed.

    ``upstream``: URL or URLs, for the message.
    """
    if failure.check(ConnectTimeout):
        return (
            504,
            f"no connection to {upstream} in time; check that the model server can be reached",
        )
    if failure.check(DNSLookupError):
        return 502, f"the host of {upstream} is not known; check --upstream"
    if is_ours(failure.value):
        return (
            503,
            "the proxy is out of file descriptors: raise the limit (ulimit -n), or try again",
        )
    if failure.check(ConnectError):
        return 502, f"cannot connect to {upstream}; check that the model server is running there"
    if failure.check(TooLargeError):
        return 413, failure.getErrorMessage()
    if isinstance(failure.value, NoTranslationError):
        # The status that the server gave for the path: clients and other proxies do not retry it.
        return 404, failure.value.at(upstream)
    if failure.check(TranslationError, CodingError):
        return 400, failure.getErrorMessage()
    if failure.check(UpstreamSilent):
        return 504, f"{failure.getErrorMessage()} ({upstream})"
    if failure.check(ResponseError):
        return 502, f"{failure.getErrorMessage()} ({upstream})"
    return 500, "an internal error; see the proxy's log"


def problem_of_tls(error: BaseException | None, whose: str = "the upstream") -> str | None:
    """Return a message if ``error``, with which a connection ended, is one of TLS, else None."""
    if isinstance(error, VerificationError | CertificateError):
        return f"{whose}'s certificate is for another host"
    if not isinstance(error, Error):
        return None
    # OpenSSL's error queue: [(library, function, reason), …].
    queue = error.args[0] if error.args else ()
    reasons = {entry[-1] for entry in queue} if isinstance(queue, list) else set()
    if "certificate verify failed" in reasons:
        return (
            f"{whose}'s certificate is not trusted, or out of date: set SSL_CERT_FILE to a "
            "file with the certificate of its signer"
        )
    if reasons & _NO_TLS:
        return f"{whose} does not speak TLS: write http instead of https"
    return f"TLS to {whose} failed: {', '.join(sorted(reasons)) or 'no reason given'}"
