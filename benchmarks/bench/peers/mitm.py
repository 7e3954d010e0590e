"""mitmproxy's add-on: pass every answer on as it comes.

``stream_large_bodies`` would stream requests too, and a streamed request cannot be edited. The edit
itself is mitmproxy's own option ``modify_body``.
"""

from mitmproxy import http


def responseheaders(flow: http.HTTPFlow) -> None:
    flow.response.stream = True
