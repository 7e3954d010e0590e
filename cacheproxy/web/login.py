"""POST /_cacheproxy/login: a browser that has shown the token gets a cookie for it.

The cookie is not the token, but derived from it; scripts cannot read it, other sites cannot have
it sent (RFC 6265bis: HttpOnly, SameSite), and it opens our own pages alone.
"""

from __future__ import annotations

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.web.pages import Content, failed, not_allowed, respond


def login(access: Access, request: ProxyRequest) -> bytes:
    """Give the cookie. The channel lets only those in who know the token, by header or cookie."""
    if request.method != b"POST":
        return not_allowed(request, b"POST", "send the token by POST")
    if not access.token:
        return failed(request, 404, "this proxy asks for no token")
    name, value = access.cookie
    secure = b"; Secure" if request.secure else b""
    cookie = b"%s=%s; Path=/_cacheproxy; HttpOnly; SameSite=Strict%s" % (name, value, secure)
    headers = ((b"Set-Cookie", cookie),)
    return respond(request, Content(b"application/json", b"{}\n", headers=headers))
