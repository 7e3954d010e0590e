"""Python calls that a request takes, from its first byte until its record is written.

    python benchmarks/calls.py [TREE ...]        this one by default
    python benchmarks/calls.py --bytecodes       instructions of the interpreter instead
    python benchmarks/calls.py --functions 10    and the functions that take most of either
    python benchmarks/calls.py --turns 100       of the conversation that grows

No clock: the figures are the same on any machine, within 2 %. Each tree's own interpreter
(TREE/.venv) runs the proxy as shipped, with all client packages that it has, before a server of
ours. Counted is what all threads do, ours and that of libraries (Twisted, the standard library)
apart: for requests of Claude Code of 2 and 80 KB, whose billing header and last message change, and
for a turn of a conversation that grows by two messages each time. Fewer calls are no aim by
themselves: work that moves into one line that loops is still work, and bytecodes show it; neither
shows what C does. Measure CPU beside them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from same.counting import COUNTING, counted, is_ours
from same.drive import Proxy

Json = dict[str, Any]
REPOSITORY = Path(__file__).resolve().parents[1]
SIZES = (2, 80)
"""KB of a request."""
WARM_UP, REQUESTS = 30, 200
SETTLE_SECONDS = 2.5
"""In which all records are judged and written."""
SESSION, GROWING = "5b0c6e1e-8f0a-4c8e-9a5b-0d6f1f3a2b4c", "6b0c6e1e-8f0a-4c8e-9a5b-0d6f1f3a2b4d"
_TEXT = "The river runs slowly past the old roofs of the town.\n" * 4000
_ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 3},
    }
).encode()


class Counts(NamedTuple):
    """Of one request, on average."""

    ours: float
    libraries: float
    functions: dict[str, float]
    """By file and function, those that took most first."""

    def __str__(self) -> str:
        return f"{self.ours:,.0f} + {self.libraries:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="*", default=[REPOSITORY], metavar="TREE")
    parser.add_argument("--bytecodes", dest="what", action="store_const", const="bytecodes")
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    parser.add_argument("--turns", type=int, default=30, metavar="N")
    parser.set_defaults(what="calls")
    options = parser.parse_args()
    trees = [tree.resolve() for tree in options.trees]
    columns = [dict(measure(tree, options.turns, options.what)) for tree in trees]
    print(f"{f'{options.what}, ours + libraries':36}", *(f"{tree.name:>15}" for tree in trees))
    for name in columns[0]:
        print(f"{name:36}", *(f"{column[name]!s:>15}" for column in columns))
    if options.functions:
        for tree, column in zip(trees, columns, strict=True):
            for name, counts in column.items():
                print(f"\n{name}, {tree.name}")
                for function, number in islice(counts.functions.items(), options.functions):
                    print(f"{number:8,.0f} {function.removeprefix(f'{tree}/')}")


def measure(tree: Path, turns: int, what: str = "calls") -> Iterator[tuple[str, Counts]]:
    """Yield what was counted and how many calls it took; ``what``: or ``bytecodes``."""
    options, first = ("--state-dir", "state"), COUNTING[what]
    with (
        tempfile.TemporaryDirectory() as made,
        _upstream() as port,
        Proxy(tree, Path(made), port, options, first) as proxy,
    ):
        counting = _Counting(tree, Path(made), proxy)
        for number, size in enumerate(SIZES):
            for warm in range(WARM_UP):
                counting.send(request(size, warm), SESSION)
            time.sleep(SETTLE_SECONDS)
            first = 1000 + 4000 * number
            yield (
                f"a request of {size} KB",
                counting.count(
                    REQUESTS, lambda i, size=size, first=first: request(size, first + i)
                ),
            )
        grown = [_said("user", "begin")]
        yield (
            f"a turn of a growing conversation ({turns})",
            counting.count(turns, lambda i: _grow(grown, i), GROWING),
        )


class _Counting:
    def __init__(self, tree: Path, folder: Path, proxy: Proxy) -> None:
        self._tree, self._folder, self._proxy = tree, folder, proxy

    def count(self, number: int, make: Callable[[int], bytes], session: str = SESSION) -> Counts:
        """Send ``number`` requests; return what one took."""
        before = counted(self._proxy.pid, self._folder)
        for each in range(number):
            self.send(make(each), session)
        time.sleep(SETTLE_SECONDS)
        taken = (counted(self._proxy.pid, self._folder) - before).most_common()
        functions = {function: count / number for function, count in taken}
        ours = sum(n for function, n in functions.items() if is_ours(function, self._tree))
        return Counts(ours, sum(functions.values()) - ours, functions)

    def send(self, body: bytes, session: str) -> None:
        """Send one request, on a connection of its own."""
        headers = {
            "User-Agent": "claude-cli/2.1.114 (external, cli)",
            "X-Claude-Code-Session-Id": session,
            "anthropic-version": "2023-06-01",
            "Content-Type": "application/json",
            "Connection": "close",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._proxy.port, timeout=60)
        with closing(connection):
            connection.request("POST", "/v1/messages", body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status


def request(size: int, number: int, messages: list[Json] | None = None) -> bytes:
    """Return a request of some ``size`` KB; each ``number`` has its own header and last message."""
    header = f"cc_version=2.1.63.a43; cc_entrypoint=sdk-cli; cch={number % 0x100000:05x};"
    system: list[Json] = [
        {"type": "text", "text": f"x-anthropic-billing-header: {header}"},
        {
            "type": "text",
            "text": "You are Claude Code, Anthropic's official CLI for Claude.",
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "text", "text": _TEXT[: size * 300]},
    ]
    schema = {"type": "object", "properties": {"p": {"type": "string"}}}
    tool = {"description": _TEXT[500 : 500 + size * 20], "input_schema": schema}
    body = {
        "model": "m",
        "max_tokens": 100,
        "metadata": {"user_id": f"user_a_account__session_{SESSION}"},
        "messages": _conversation(size, number) if messages is None else messages,
        "system": system,
        "tools": [{"name": name, **tool} for name in ("Read", "Bash")],
    }
    return json.dumps(body).encode()


def _conversation(size: int, number: int) -> list[Json]:
    reminder = "# currentDate\nToday's date is 2026-02-18."
    messages = [
        _said("user", f"<system-reminder>\n{reminder}\n</system-reminder>", "fix it"),
    ]
    for each in range(size // 4):
        messages += _tool_call(f"toolu_{each:024d}", each, _TEXT[each * 900 : each * 900 + 2400])
    return [*messages, _said("assistant", "done"), _said("user", f"and then, {number}?")]


def _grow(messages: list[Json], turn: int) -> bytes:
    """Add what a turn adds to ``messages``; return the request."""
    if turn:
        result = _TEXT[turn * 700 : turn * 700 + 2400]
        messages += _tool_call(f"toolu_g{turn:023d}", turn, result)
    return request(20, 9000 + turn, messages)


def _said(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def _tool_call(name: str, number: int, result: str) -> list[Json]:
    asked = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": f"f{number}"}}
    found = {"type": "tool_result", "tool_use_id": name, "content": result}
    return [{"role": "assistant", "content": [asked]}, {"role": "user", "content": [found]}]


@contextmanager
def _upstream() -> Iterator[int]:
    """Yield the port of a server that always answers the same, and has no other pages."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_prompt = self.command == "POST" and self.path == "/v1/messages"
        body = _ANSWER if is_prompt else b"{}"
        self.send_response_only(200 if is_prompt else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    main()
