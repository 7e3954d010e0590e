"""The group bytes: what reaches the upstream is what was sent, but for the header's line.

Shares are printed: 1 where every byte was right, 0 where not. "edited": the line was changed.
"""

from __future__ import annotations

import re

from bench.answers import ANSWER, stream_text
from bench.bodies import CHAT
from bench.first import Connection, split
from bench.run import Run
from bench.targets import Target

_LINE = re.compile(rb'x-anthropic-billing-header:[^"]*')
_EVENTS = 2000


def measure(targets: list[Target], run: Run) -> None:
    bodies, figures = run.bodies, run.figures
    direct = Connection(targets[0].port)
    for target in targets:
        client = Connection(target.port)
        for name in ("2 KB", "80 KB", "2 MB", CHAT):
            body = bodies[name]
            try:
                _, answer = client.exchange(body.request(target.port, 1, "X-Bench: keep\r\n"))
            except (OSError, EOFError) as error:
                run.note(target.name, f"{name}: {error!r}")
                client.close()
                continue
            _, kept = direct.exchange(b"GET /bench/kept HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sent, received = body.content(1), split(kept)[1]
            figures.add("bytes", name, target.name, _masked(sent) == _masked(received))
            figures.add("bytes", f"{name} answer", target.name, split(answer) == (200, ANSWER))
            if name == "80 KB":
                figures.add("bytes", "edited", target.name, sent != received)
        body = bodies["80 KB"]
        _, answer = client.exchange(body.request(target.port, 1, f"X-Bench: flood {_EVENTS}\r\n"))
        whole = split(answer) == (200, stream_text(_EVENTS))
        figures.add("bytes", "stream", target.name, whole)
        client.close()
    direct.close()


def _masked(body: bytes) -> bytes:
    return _LINE.sub(b"", body)
