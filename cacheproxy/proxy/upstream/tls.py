"""TLS to the upstream: whom to trust, and what its failures mean.

It trusts what OpenSSL trusts on this machine; SSL_CERT_FILE or SSL_CERT_DIR replace that.
"""

from __future__ import annotations

from OpenSSL.SSL import Error
from service_identity import CertificateError, VerificationError
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.ssl import optionsForClientTLS

NOT_IN_TIME = (
    "the upstream did not answer the TLS handshake in time: does it need http instead of https?"
)
_NO_TLS = {"wrong version number", "packet length too long", "record layer failure"}


def with_tls(endpoint: IStreamClientEndpoint, host: str) -> IStreamClientEndpoint:
    """Return ``endpoint`` with TLS to ``host``, a DNS name or an IP address."""
    wrapped: IStreamClientEndpoint = wrapClientTLS(optionsForClientTLS(host), endpoint)
    return wrapped


def problem(error: BaseException | None, whose: str = "the upstream") -> str | None:
    """Return what is wrong if ``error``, with which a connection ended, is of TLS, else None."""
    if isinstance(error, VerificationError | CertificateError):
        return f"{whose}'s certificate is for another host"
    if not isinstance(error, Error):
        return None
    reasons = _reasons(error)
    if "certificate verify failed" in reasons:
        return (
            f"{whose}'s certificate is not trusted, or out of date: set SSL_CERT_FILE to a "
            "file with the certificate of its signer"
        )
    if reasons & _NO_TLS:
        return f"{whose} does not speak TLS: write http instead of https"
    return f"TLS to {whose} failed: {', '.join(sorted(reasons)) or 'no reason given'}"


def _reasons(error: Error) -> set[str]:
    """Return the last parts of what OpenSSL had queued: ``[(library, function, reason), …]``."""
    queue = error.args[0] if error.args else ()
    return {entry[-1] for entry in queue} if isinstance(queue, list) else set()
