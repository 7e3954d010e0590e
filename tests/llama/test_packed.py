"""The real server takes no packed request; through the proxy, it is as good as a plain one."""

from __future__ import annotations

import gzip
import json

from cacheproxy.asking import Site
from cacheproxy.core.http1.content_coding import zstd

from .replay import erase

ASKED = {
    "max_tokens": 4,
    "temperature": 0,
    "messages": [{"role": "user", "content": "The quick brown fox jumps over the lazy dog. " * 20}],
}
PACKED = {"gzip": gzip.compress, "zstd": zstd.compress, "": lambda body: b"\xef\xbb\xbf" + body}


def test_it_has_the_same_answer_and_the_same_figures(llama, proxy):
    """The first time all is evaluated, the second time it is in the cache."""
    body = json.dumps(ASKED).encode()
    found = []
    for coding in ("plain", *PACKED):
        erase(llama.url)
        pack = PACKED.get(coding, bytes)
        headers = {"Content-Encoding": coding} if coding in PACKED and coding else {}
        for _ in range(2):
            site = Site(proxy.url, headers)
            answer = site.post("/v1/chat/completions", pack(body))
            assert answer.status == 200
            said = json.loads(answer.body)
            timings = said["timings"]
            found.append((said["choices"], timings["cache_n"], timings["prompt_n"]))
    assert found == found[:2] * (1 + len(PACKED))
    assert found[0] != found[1]
