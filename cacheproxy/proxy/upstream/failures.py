"""Failures between the proxy and the upstream, as messages for the client."""

from __future__ import annotations

import errno

from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.python.failure import Failure

from cacheproxy.core.http1.content_coding import CodingError, TooLargeError
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.proxy.upstream.connection import UpstreamSilent
from cacheproxy.translate.reading import NoTranslationError, TranslationError

BUSY = 429
ELSEWHERE = (BUSY, 503)
"""Statuses by which a server says that it has not looked at a request, so another one may."""


def is_ours(error: BaseException | None) -> bool:
    """Whether ``error`` is about this process, whatever server it asked."""
    return getattr(error, "osError", None) in (errno.EMFILE, errno.ENFILE)


def explain(failure: Failure, upstream: str) -> tuple[int, str]:
    """Return the status and one sentence for a request that never got a response."""
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
        # As the server said of the path: clients and proxies before us do not try that again.
        return 404, failure.value.at(upstream)
    if failure.check(TranslationError, CodingError):
        return 400, failure.getErrorMessage()
    if failure.check(UpstreamSilent):
        return 504, f"{failure.getErrorMessage()} ({upstream})"
    if failure.check(ResponseError):
        return 502, f"{failure.getErrorMessage()} ({upstream})"
    return 500, "an internal error; see the proxy's log"
