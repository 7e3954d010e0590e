"""A scripted model server: keeps every request as it came, answers from the capture."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import zlib
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, AnyStr, Self

from same.answers import OUTPUT, SECONDS_READ, SECONDS_WRITTEN, Usage, answer
from same.midnight import EVENING
from same.replies import NOTHING, Json, Said, is_late, parsed, rendered

LINE = "X-Capture-Line"
"""The header that says which line of the capture a request is; the proxy's own have none."""
_OWN = b"cacheproxy asks once"
"""What its own short prompts say, whose headers are those of the client."""
PROMPTS = ("/messages", "/chat/completions", "/responses", "/messages/count_tokens")
_CHARACTERS = 4
"""Of one token."""
_SLOTS, _CONTEXT = 4, 1 << 20
_DAY = "%d %B %Y"
"""How a template that tells the day writes it."""
_NONCE = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")


@dataclass(frozen=True)
class Kind:
    """What server this is: ``llama``: it has llama-server's pages. ``hoists``, ``refuses``: what
    becomes of late system messages. ``drops_reasoning``: of earlier turns, unless it is asked to
    keep it; ``tells_day``: at the head of each prompt. ``counts``: with the pages that tell what it
    has done. ``without``: how paths end that it does not have."""

    llama: bool = False
    hoists: bool = False
    refuses: bool = False
    drops_reasoning: bool = False
    tells_day: bool = False
    counts: bool = False
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Got:
    """One request as it came; ``line``: of the capture, None for one of the proxy's own."""

    line: int | None
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass
class Upstream:
    """The server, on a port of its own, while it is entered."""

    kind: Kind
    said: dict[int, Said]
    today: date = field(default_factory=EVENING.date)
    got: list[Got] = field(default_factory=list)
    _usages: list[Usage] = field(default_factory=list)
    _prompts: list[str] = field(default_factory=list)
    _nonces: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        upstream = self

        class Answering(_Answering):
            owner = upstream

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait_for_look(self) -> None:
        """Return when the proxy has looked at all pages once more, or after ten seconds."""
        begun, until = self._looks(), time.monotonic() + 10
        while self._looks() < begun + 2 and time.monotonic() < until:
            time.sleep(0.02)

    def _looks(self) -> int:
        return sum(got.target == "/health" for got in self.got)

    def reply(self, got: Got) -> tuple[int, str, bytes]:
        """Keep ``got``; return status, content type and body."""
        with self._lock:
            self.got.append(got)
            return self._reply(got)

    def _reply(self, got: Got) -> tuple[int, str, bytes]:
        path = got.target.partition("?")[0]
        body = parsed(self.steady(got.body.decode("utf-8", "replace")))
        page = self._page(path, body)
        if page is not None:
            status, value = page
            if isinstance(value, str):
                return status, "text/plain; version=0.0.4", value.encode()
            return status, "application/json", json.dumps(value).encode()
        if got.method == "HEAD":
            return 200, "text/plain", b""
        is_prompt = path.endswith(PROMPTS) or ":" in path
        if not is_prompt or path.endswith(self.kind.without or ("\0",)):
            return 404, "application/json", b'{"error": {"message": "there is no such page"}}'
        if not any(body.get(name) for name in ("messages", "input", "contents")):
            return 400, "application/json", b'{"error": {"message": "messages are missing"}}'
        if self.kind.refuses and is_late(body):
            message = "System message must be at the beginning."
            error = {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}
            return 400, "application/json", json.dumps(error).encode()
        usage = self._usage(self._rendered(body))
        if not path.endswith("/count_tokens"):
            self._usages.append(usage)
        said = NOTHING if got.line is None else self.said[got.line]
        return 200, *answer(path, body, said, usage, timings=self.kind.llama)

    def steady(self, text: str) -> str:
        """Return ``text`` with the first random mark of the proxy as 1, the second as 2 ..."""

        def counted(found: re.Match[str]) -> str:
            return self._nonces.setdefault(found[0], f"{zlib.crc32(b'%d' % len(self._nonces)):012}")

        return _NONCE.sub(counted, text)

    def _usage(self, prompt: str) -> Usage:
        """Count tokens: shared with the one of the last prompts that shares most."""
        shared, best = 0, None
        for earlier in self._prompts:
            length = common_prefix(earlier, prompt)
            if length > shared:
                shared, best = length, earlier
        tokens = len(prompt) // _CHARACTERS + 1
        if best is not None and shared > len(best) // 2:
            self._prompts.remove(best)
        self._prompts = [*self._prompts, prompt][-_SLOTS:]
        return Usage(tokens, min(shared // _CHARACTERS, tokens - 1))

    def _page(self, path: str, body: Json) -> tuple[int, Any] | None:
        if path == "/v1/models":
            owner = "llamacpp" if self.kind.llama else "us"
            return 200, {"object": "list", "data": [{"id": "m", "owned_by": owner, "created": 1}]}
        if not self.kind.llama:
            return None
        if path == "/props":
            settings = {"n_ctx": _CONTEXT}
            build = {"build_info": "b9999-abcdef", "total_slots": _SLOTS, "model_path": "m.gguf"}
            if self.kind.counts:
                build["media_marker"] = "<__media_marker__>"
            template = f"{{{{ strftime_now('{_DAY}') }}}}" if self.kind.tells_day else ""
            return 200, {
                "default_generation_settings": settings,
                "chat_template": template,
                **build,
            }
        if path == "/health":
            return 200, {"status": "ok"}
        if path == "/apply-template":
            if self.kind.refuses and is_late(body):
                return 400, {"error": {"message": "System message must be at the beginning."}}
            return 200, {"prompt": self._rendered(body)}
        if path == "/tokenize":
            text = body.get("content") or ""
            pieces = [text[at : at + _CHARACTERS] for at in range(0, len(text), _CHARACTERS)]
            return 200, {"tokens": [zlib.crc32(p.encode("utf-8", "replace")) >> 12 for p in pieces]}
        if path == "/metrics" and self.kind.counts:
            return 200, self._counters()
        if path == "/slots" and self.kind.counts:
            return 200, self._slots()
        return None

    def _rendered(self, body: Json) -> str:
        return rendered(
            body,
            hoists=self.kind.hoists,
            drops_reasoning=self.kind.drops_reasoning,
            day=f"Today is {self.today.strftime(_DAY)}.\n" if self.kind.tells_day else "",
        )

    def _counters(self) -> str:
        """Return llama-server's page of counters, over all that was answered."""
        new = sum(usage.prompt - usage.reused for usage in self._usages)
        output = OUTPUT * len(self._usages)
        counters = {
            "prompt_tokens_total": new,
            "prompt_tokens_cached_total": sum(usage.reused for usage in self._usages),
            "prompt_seconds_total": new * SECONDS_READ,
            "tokens_predicted_total": output,
            "tokens_predicted_seconds_total": output * SECONDS_WRITTEN,
            "requests_processing": 0,
            "requests_deferred": 0,
        }
        return "".join(f"llamacpp:{name} {value}\n" for name, value in counters.items())

    def _slots(self) -> list[Json]:
        """Return llama-server's slots: each holds one of the last prompts."""
        held = [len(prompt) // _CHARACTERS + 1 for prompt in self._prompts]
        tasks = range(len(self._usages) - len(held), len(self._usages))
        used = [*zip(tasks, held, strict=True), *[(-1, 0)] * (_SLOTS - len(held))]
        idle = {"n_ctx": _CONTEXT, "is_processing": False}
        return [
            {"id": number, **idle, "id_task": task, "n_prompt_tokens": tokens}
            for number, (task, tokens) in enumerate(used)
        ]


def common_prefix(one: AnyStr, other: AnyStr) -> int:
    """Return how long both are equal from the start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Upstream

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._chunks()
        line = self.headers.get(LINE)
        headers = tuple(self.headers.items())
        line = None if _OWN in body else line
        got = Got(None if line is None else int(line), self.command, self.path, headers, body)
        status, kind, text = self.owner.reply(got)
        with contextlib.suppress(ConnectionError):  # the proxy was stopped while it asked
            self._send(status, kind, text)

    def _send(self, status: int, kind: str, text: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def log_message(self, *_: object) -> None:
        """Say nothing."""
