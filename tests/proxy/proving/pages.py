"""Servers of pages, good and bad, and turns of which they show what they rendered."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from tests.core.templates import thinking
from tests.proxy.harness import Peer, Received, head, whole

from .turned import chat, compared

LLAMA, VLLM = "/apply-template", "/tokenize"
CANARY = "kanarienvogel"
WORD = re.compile(r"\w+|\W")
_seen: dict[str, int] = {}


def tokens_of(text):
    """A number for each word: what a tokenizer does."""
    return [_seen.setdefault(word, len(_seen)) for word in WORD.findall(text)]


def render(template, body):
    return {"prompt": template(body["messages"], body.get("tools"))}


def tokenize(body):
    return {"tokens": tokens_of(body["content"])}


def llama(template, **pages):
    """The two pages of a llama-server."""
    rendering = {"apply_template": Says(partial(render, template)), "tokenize": Says(tokenize)}
    return Pages(**rendering | pages)


USER = {"role": "user", "content": f"Look at the {CANARY}."}
SYSTEM = {"role": "system", "content": "Be brief. " * 20}
THOUGHT = {"role": "assistant", "content": "", "reasoning_content": "Let me think. " * 10}
BEFORE = (SYSTEM, USER, THOUGHT)
AFTER = (*BEFORE, {"role": "user", "content": "What now?"})


def turn(template=thinking, before=BEFORE, after=AFTER, headers=(), **fields):
    """Two requests and what is known of them: counted as ``template`` renders them."""
    one, other = chat(*before, headers=headers, **fields), chat(*after, headers=headers, **fields)
    counts = [len(tokens_of(template(list(each), fields.get("tools")))) for each in (before, after)]
    return compared(one, other, *counts)


class Pages:
    """A server of pages: bytes, what makes a JSON value of a body, or what talks to the peer.

    ``asked``: path and body of what came.
    """

    def __init__(self, **pages: Any) -> None:
        self.pages = {f"/{name.replace('_', '-')}": page for name, page in pages.items()}
        self.asked: list[tuple[str, bytes]] = []

    def __call__(self, peer: Peer, received: Received) -> None:
        path = received.line.split()[1].decode()
        self.asked.append((path, received.body))
        page = self.pages.get(path)
        if page is None:
            peer.send(whole(b'{"error":"no such page"}', status=b"404 Not Found"))
        elif isinstance(page, bytes):
            peer.send(page)
        elif isinstance(page, Says):
            peer.send(whole(json.dumps(page.made(json.loads(received.body))).encode()))
        else:
            page(peer)

    @property
    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [path for path, _ in self.asked]


class Says:
    """A page that answers with what ``made`` makes of the body."""

    def __init__(self, made: Any) -> None:
        self.made = made


def bad(status):
    return whole(b'{"error":"%s"}' % CANARY.encode(), status=status)


NONSENSE = {
    "missing": None,
    "an error": bad(b"500 Internal Server Error"),
    "nothing": b"",
    "half": head(b"Content-Length: 100") + b'{"prompt":"' + CANARY.encode(),
    "no JSON": whole(b"<html>%s</html>" % CANARY.encode()),
    "no text": whole(b'\xff\xfe{"prompt":"x"}'),
    "a list": whole(b"[[]]"),
    "null": whole(b'{"prompt":null,"tokens":null}'),
    "numbers": whole(b'{"prompt":7,"tokens":7}'),
    "deep": whole(b"[" * 100_000),
    "closed": lambda peer: peer.reset(),
}


def page_of(prompt=0, reused=0, start=1.5):
    lines = [f'vllm:prompt_tokens_total{{engine="0"}} {prompt}']
    if reused is not None:
        lines.append(f'vllm:prompt_tokens_cached_total{{engine="0"}} {reused}')
    if start is not None:
        lines.append(f"process_start_time_seconds {start}")
    return whole("\n".join([*lines, ""]).encode(), b"Content-Type: text/plain")
