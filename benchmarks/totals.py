"""What the totals cost: CPU per exchange, bytes per row, and what a page waits for its answers.

``python benchmarks/totals.py [DAYS] [FOLDER]``: records DAYS (30) of one request a second, and asks
what a dashboard asks. Takes a few minutes and 600 MB.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from twisted.internet.task import Clock

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.columns import record_of
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.totals.file import NAME, open_file
from cacheproxy.totals.lists import FILTERS, requests, sessions
from cacheproxy.totals.store import Json, TotalsStore, tidy
from cacheproxy.totals.totals import Totals
from cacheproxy.totals.windows import WINDOWS, breaks, lifetime, overview

URL = "http://localhost:8080"
DAY = 86_400
NOW = 1_700_000_000


class Reactor(Clock):
    """Answers are not waited for here."""

    def callFromThread(self, function: Callable[..., object], *arguments: object) -> None:  # noqa: N802
        function(*arguments)


def exchange() -> Exchange:
    request = Request("POST", "/v1/messages", (), b'{"model":"m","messages":[]}')
    _ = request.json
    return Exchange(
        received=request, sent=request, reports=(), session=Session("agent", "s"), turn=1,
        upstream=URL, status=200, outcome=Outcome.COMPLETE, usage=Usage(19_000, 18_700, 200),
        wall=float(NOW), first_byte=0.8, seconds=7.0, bytes_down=9000,
    )  # fmt: skip


def per_exchange(folder: Path, count: int = 20_000) -> None:
    """The reactor's part and the thread's, each by its own clock of CPU time."""
    totals = Totals(Reactor(), folder, time.time)
    one = exchange()
    threads: list[float] = []
    put: list[float] = []
    totals.ask(lambda _: threads.append(time.thread_time()))
    for _ in range(count // 1000):
        before = time.thread_time()
        for _ in range(1000):
            totals.cacheproxy_exchange_finished([one])
        put.append((time.thread_time() - before) / 1000)
        written = threading.Event()
        totals.ask(lambda _, written=written: written.set())
        written.wait(60)
    totals.ask(lambda _: threads.append(time.thread_time()))
    totals.close()
    print(f"reactor   {statistics.median(put) * 1e6:6.1f} µs per exchange")
    print(f"thread    {(threads[1] - threads[0]) / count * 1e6:6.1f} µs per exchange, {count:,}")


def records(days: int, random_: random.Random) -> Iterator[Json]:
    plain = record_of(exchange(), served="m")
    start = NOW - days * DAY
    for second in range(days * DAY):
        broke = random_.random() < 0.03
        prompt = random_.randrange(1000, 60_000)
        reused = prompt // 10 if broke else prompt - random_.randrange(50, 800)
        yield plain | {
            "at": (start + second) * 1000,
            "number": second,
            "session": f"{second // 400:08x}",
            "client": ("claude", "cline", "openclaw", "codex")[second // 400 % 4],
            "prompt": prompt,
            "reused": reused,
            "evaluated": prompt - reused,
            "output": random_.randrange(5, 900),
            "prompt_ms": round((prompt - reused) / 0.43),
            "output_ms": 6000,
            "first_ms": round((prompt - reused) / 0.4),
            "waited": None,
            "failed": random_.random() < 0.01,
            "verdict": Judgement.BREAK if broke else Judgement.OK,
            "reason": random_.choice(list(Reason)) if broke else None,
            "shape": "date" if broke else None,
            "place": "/messages/0/content/0/text" if broke else None,
            "lost": prompt - reused if broke else None,
            "spared": prompt // 2,
            "rules": "claude-billing-header",
            "up": prompt * 4,
        }


def fill(folder: Path, days: int) -> TotalsStore:
    """Record it all, tidied every hour."""
    store = TotalsStore(open_file(folder)[0])
    execute = store.connection.execute
    began = time.process_time()
    execute("BEGIN")
    for count, record in enumerate(records(days, random.Random(1)), 1):
        store.record(record)
        if count % 3600 == 0:
            tidy(store, record["at"])
            store.flush()
            execute("COMMIT")
            execute("BEGIN")
    store.flush()
    execute("COMMIT")
    seconds = time.process_time() - began
    count = days * DAY
    print(f"filled    {count:,} exchanges, {seconds / count * 1e6:.1f} µs each")
    execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = (folder / NAME).stat().st_size
    rows = execute("SELECT count(*) FROM exchanges").fetchone()[0]
    print(f"file      {size / 1e6:,.0f} MB, {rows:,} rows, {size / rows:.0f} bytes for each")
    return store


def ask(store: TotalsStore) -> None:
    now = NOW * 1000
    questions: dict[str, Callable[[], object]] = {}
    for name in WINDOWS:
        questions[f"overview {name}"] = partial(overview, store, name, now)
        questions[f"breaks {name}"] = partial(breaks, store, name, now)
    for which in FILTERS:
        questions[f"requests {which}"] = partial(requests, store, which)
        questions[f"requests {which}, search claude"] = partial(requests, store, which, "claude")
        rare = f"{5 * DAY // 400:08x}"
        questions[f"requests {which}, search one session"] = partial(requests, store, which, rare)
        questions[f"requests {which}, search nobody"] = partial(requests, store, which, "nobody")
        six_hours = (now - 8 * 3_600_000, now - 2 * 3_600_000)
        questions[f"requests {which}, six hours"] = partial(
            requests, store, which, period=six_hours
        )
        questions[f"requests {which}, 30 days"] = partial(
            requests, store, which, period=(now - 30 * DAY * 1000, now)
        )
    questions["requests all, page far down"] = partial(requests, store, "all", "", 100_000)
    questions["sessions 30d"] = partial(sessions, store, now - 30 * DAY * 1000, now)
    questions["lifetime"] = partial(lifetime, store)
    questions["tidy"] = partial(tidy, store, now)
    for name, question in questions.items():
        times = []
        for _ in range(5):
            before = time.perf_counter()
            question()
            times.append(time.perf_counter() - before)
        print(f"{name:38} {times[0] * 1e3:7.1f} ms first, {statistics.median(times) * 1e3:6.1f} ms")


def main(days: int, folder: Path) -> None:
    per_exchange(folder / "one")
    store = fill(folder / "many", days)
    ask(store)
    store.connection.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(
            int(sys.argv[1]) if sys.argv[1:] else 30,
            Path(sys.argv[2] if sys.argv[2:] else scratch),
        )
