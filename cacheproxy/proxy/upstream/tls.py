"""TLS to the upstream: whom to trust, and what its failures mean.

It trusts what OpenSSL trusts on this machine; SSL_CERT_FILE or SSL_CERT_DIR replace that.
"""

from __future__ import annotations

from OpenSSL.SSL import Error
from service_identity import CertificateError, VerificationError
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.ssl import optionsForClientTLS

NOT_IN_TIME = "no TLS with the upstream in time: should it be http instead of https?"
_NO_TLS = {"wrong version number", "packet length too long", "record layer failure"}


def with_tls(endpoint: IStreamClientEndpoint, host: str) -> IStreamClientEndpoint:
    """Return ``endpoint`` with TLS to ``host``, a DNS name or an IP address."""
    wrapped: IStreamClientEndpoint = wrapClientTLS(optionsForClientTLS(host), endpoint)
    return wrapped


def problem(error: BaseException | None) -> str | None:
    """Return what is wrong if ``error``, with which a connection ended, is of TLS, else None."""
    if isinstance(error, VerificationError | CertificateError):
        return "the upstream's certificate is for another host"
    if not isinstance(error, Error):
        return None
    reasons = _reasons(error)
    if "certificate verify failed" in reasons:
        return (
            "the upstream's certificate is not trusted, or out of date: SSL_CERT_FILE may name a "
            "file with the certificate of who signed it"
        )
    if reasons & _NO_TLS:
        return "the upstream does not speak TLS: should it be http instead of https?"
    return f"TLS to the upstream failed: {', '.join(sorted(reasons)) or 'nobody says why'}"


def _reasons(error: Error) -> set[str]:
    """Return the last parts of what OpenSSL had queued: ``[(library, function, reason), …]``."""
    queue = error.args[0] if error.args else ()
    return {entry[-1] for entry in queue} if isinstance(queue, list) else set()
