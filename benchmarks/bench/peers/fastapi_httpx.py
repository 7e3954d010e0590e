"""FastAPI in front, httpx behind, served by uvicorn on uvloop and httptools.

One AsyncClient for the life of the app, as httpx's documentation asks for. A client per request,
as many published proxies have it, reads the certificate store for each, also for plain HTTP: that
alone is some 20 ms of CPU per request. Connections are kept without limit, since httpx's default
of 100 would hold back the streams above it. Run: fastapi_httpx.py PORT UPSTREAM
"""

import re
import sys
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from starlette.background import BackgroundTask

BILLING = re.compile(rb'x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;')
CONSTANT = b"x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;"
HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
NOT_SENT = HOP | {b"host", b"content-length"}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
UPSTREAM = int(sys.argv[2])


@asynccontextmanager
async def lifespan(app: FastAPI):
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)


@app.api_route("/{path:path}", methods=METHODS)
async def forward(request: Request) -> Response:
    body = BILLING.sub(CONSTANT, await request.body(), count=1)
    scope = request.scope
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    onward = httpx.Request(
        request.method,
        httpx.URL(scheme="http", host="127.0.0.1", port=UPSTREAM, raw_path=target),
        headers=[(name, value) for name, value in request.headers.raw if name not in NOT_SENT],
        content=body,
    )
    try:
        upstream = await app.state.client.send(onward, stream=True)
    except httpx.TransportError:
        return Response(status_code=502)
    answer = StreamingResponse(
        upstream.aiter_raw(),
        status_code=upstream.status_code,
        background=BackgroundTask(upstream.aclose),
    )
    answer.raw_headers = [
        (name.lower(), value) for name, value in upstream.headers.raw if name.lower() not in HOP
    ]
    return answer


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        timeout_keep_alive=600,
    )
