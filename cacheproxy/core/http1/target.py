"""The target of a request that is a whole URL: the absolute form (RFC 9112, section 3.2.2).

Clients send it to what they take for a forward proxy.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# RFC 3986, section 3.2.2, and a port: an address in brackets, or a name. Nobody's user and
# password: to RFC 9110, section 4.2.4, these are an error.
AUTHORITY = re.compile(
    r"(\[[0-9A-Za-z:.%~_-]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
# RFC 3986, section 3, as far as it matters here: what follows the authority is the upstream's.
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*+)://([^/?#]*+)(.*)")


class Absolute(NamedTuple):
    """A URL's parts."""

    scheme: bytes  #: in lower case
    authority: bytes  #: host and port as they came
    path: bytes  #: path and query in one


def absolute(method: bytes, target: bytes) -> Absolute | None:
    """Return the parts of ``target``, None if it begins like no URL.

    Without a path it asks for ``/``, or with OPTIONS for ``*``, the server as a whole (RFC 9112,
    sections 3.2.1 and 3.2.4). Raises ValueError, with one sentence, for a URL of no host.
    """
    found = _URL.fullmatch(target)
    if found is None:
        return None
    scheme, authority, path = found.groups()
    host = AUTHORITY.fullmatch(authority.decode("latin-1"))
    if host is None or not host[1] or path.startswith(b"#"):
        raise ValueError("the URL in the request line names no host")
    if not path:
        path = b"*" if method == b"OPTIONS" else b"/"
    elif path.startswith(b"?"):
        path = b"/" + path
    return Absolute(scheme.lower(), authority, path)
