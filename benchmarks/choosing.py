"""What it costs to choose among ten upstreams by ten routes, for each request: microseconds.

    python -m benchmarks.choosing

Upstreams and routes are made from a configuration, as the proxy makes them. For the last request
of a recorded session of Claude Code a server is chosen again and again; no route but the last one
matches. Processor time: the median of 20 runs of 2,000 choices.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from twisted.internet.testing import MemoryReactorClock

from cacheproxy.config import Config
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.route.facts import RequestKind
from cacheproxy.daemon.process_parts import ProcessParts
from cacheproxy.tables import RouteTable, UpstreamTable
from cacheproxy.tap import arrange
from cacheproxy.testing import find_captures, load_capture

RUNS, CHOICES, COUNT = 20, 2000, 10
NAMES = tuple(f"big{number}" for number in range(COUNT))
UPSTREAMS = tuple(
    UpstreamTable(name, f"http://127.0.0.1:{9000 + at}", models=("claude*", "local*"))
    for at, name in enumerate(NAMES)
)
ROUTES = tuple(
    RouteTable(NAMES, client="nobody*", model="none*", kind=RequestKind.MAIN) for _ in NAMES[1:]
)


def main() -> int:
    """Print the figures."""
    config = Config(upstreams=UPSTREAMS, route=(*ROUTES, RouteTable(NAMES)), state_dir="none")
    process = ProcessParts(MemoryReactorClock(), config)
    servers, store = arrange(process, config).servers, process.store
    (file,) = find_captures("claude-resume.jsonl", Path(__file__))
    prepared = None
    for request in load_capture(file):
        if request.dialect is None or request.method != "POST":
            continue
        turn = store.find(session_of(request), request)
        place, prepared = store.begin(turn, request), Prepared(request, turn=turn)
        chosen = servers.choose(prepared)
        servers.settle(chosen, chosen.servers[0], turn, place.lane)
        if turn.prompt is not None:
            before = Before(turn.prompt, turn.prompt, tokens=turn.prompt.chars // 4)
            store.end(turn.session, place, before)
    assert prepared is not None
    figures = []
    for _ in range(RUNS):
        begun = time.process_time()
        for _ in range(CHOICES):
            servers.choose(prepared)
        figures.append((time.process_time() - begun) / CHOICES * 1e6)
    size = len(prepared.request.body)
    print(f"body {size:,} bytes: {statistics.median(figures):.1f} µs a choice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
