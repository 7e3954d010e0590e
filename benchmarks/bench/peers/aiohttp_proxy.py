"""aiohttp on both sides, on uvloop.

One ClientSession for the life of the app, connections kept without limit, no cookie jar, bodies
passed as they are. The answer's head goes out with its first chunk: aiohttp holds it until then.
Run: aiohttp_proxy.py PORT UPSTREAM
"""

import re
import sys
from collections.abc import AsyncIterator

import uvloop
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

BILLING = re.compile(rb'x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;')
CONSTANT = b"x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;"
HOP = (
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
)
LARGEST_BODY = 64 * 1024 * 1024
UPSTREAM = f"http://127.0.0.1:{sys.argv[2]}"
SESSION = web.AppKey("session", ClientSession)


def end_to_end(headers) -> CIMultiDict:
    kept = CIMultiDict(headers)
    for name in HOP:
        kept.popall(name, None)
    return kept


async def forward(request: web.Request) -> web.StreamResponse:
    body = BILLING.sub(CONSTANT, await request.read(), count=1)
    headers = end_to_end(request.headers)
    headers.popall("Host", None)
    headers.popall("Content-Length", None)
    try:
        upstream = await request.app[SESSION].request(
            request.method,
            URL(UPSTREAM + request.raw_path, encoded=True),
            headers=headers,
            data=body or None,
            allow_redirects=False,
        )
    except ClientError:
        return web.Response(status=502)
    async with upstream:
        answer = web.StreamResponse(
            status=upstream.status, reason=upstream.reason, headers=end_to_end(upstream.headers)
        )
        await answer.prepare(request)
        async for chunk in upstream.content.iter_any():
            await answer.write(chunk)
        await answer.write_eof()
    return answer


async def session(app: web.Application) -> AsyncIterator[None]:
    async with ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=600),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
    ) as app[SESSION]:
        yield


if __name__ == "__main__":
    app = web.Application(client_max_size=LARGEST_BODY)
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", forward)
    web.run_app(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        backlog=1024,
        keepalive_timeout=600,
        handler_cancellation=True,  # a client that leaves ends its upstream request
        shutdown_timeout=0.5,
        loop=uvloop.new_event_loop(),
    )
