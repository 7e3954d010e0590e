"""The groups that send whole requests: ttfb and cpu (together), rps, growth."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterable

from bench import process, wrk
from bench.bodies import CHAT, TURNS, Body
from bench.first import Client
from bench.run import Run
from bench.targets import DIRECT, Target

CONNECTIONS = (1, 8, 32)
SSE = "80 KB SSE"
"""The figure of a body whose answer is a short stream."""


class Requests:
    """Measures ``targets``, of which the first is the direct way, in turn in every round."""

    def __init__(self, targets: list[Target], run: Run) -> None:
        self._targets = targets
        self._run = run
        self._bodies = run.bodies
        self._plan = run.plan
        self._figures = run.figures

    def first_byte(self) -> None:
        """Groups ttfb and cpu: microseconds to the first byte beyond direct, CPU per request."""
        counts = self._plan.first_requests
        kinds = [(name, name, "", requests) for name, requests in counts.items()]
        kinds.append((SSE, "80 KB", "X-Bench: flood 20\r\n", counts["80 KB"]))
        kinds.append((CHAT, CHAT, "", counts["80 KB"]))
        for session, (name, of, more, requests) in enumerate(kinds):
            body = self._bodies[of].of_session(session)  # none shrinks from one size to another
            blocks = self._blocks(body, requests, self._plan.first_rounds, more)
            pooled: dict[str, list[float]] = {}
            for seconds, cpu in blocks:
                direct = statistics.median(seconds[DIRECT])
                for target, found in seconds.items():
                    pooled.setdefault(target, []).extend(found)
                    median = statistics.median(found) - (direct if target != DIRECT else 0)
                    self._figures.add("ttfb", name, target, median * 1e6)
                for target, each in cpu.items():
                    self._figures.add("cpu", name, target, each)
            for target, found in pooled.items():
                base = percentile(pooled[DIRECT], 99) if target != DIRECT else 0
                p99 = (percentile(found, 99) - base) * 1e6
                self._figures.add("ttfb p99", name, target, p99)

    def growth(self) -> None:
        """Groups growth: first byte and CPU by turns of the conversation, and their lines."""
        sizes = []
        for turns in TURNS:
            body = self._bodies[f"{turns} turns"]
            sizes.append(len(body) / 1000)
            rounds = self._blocks(body, self._plan.growth_requests, self._plan.growth_rounds)
            for seconds, cpu in rounds:
                for target, found in seconds.items():
                    median = statistics.median(found) * 1e6
                    self._figures.add("growth ttfb", f"{turns}", target, median)
                for target, each in cpu.items():
                    self._figures.add("growth cpu", f"{turns}", target, each)
        for group in ("growth ttfb", "growth cpu"):
            for target in self._targets:
                found = [self._figures.get(group, f"{turns}", target.name) for turns in TURNS]
                values = [value for value in found if value is not None]
                if len(values) == len(sizes):
                    slope, deviation = line(sizes, values)
                    self._figures.add(group, "µs/KB", target.name, slope)
                    self._figures.add(group, "% off the line", target.name, deviation * 100)

    def rate(self) -> None:
        """Group rps: requests a second by wrk, and what of its core a proxy used at most."""
        for number in range(self._plan.rate_rounds):
            for connections in CONNECTIONS:
                for target in rotated(self._targets, number):
                    try:
                        self._load(target, connections)
                    except RuntimeError as error:
                        self._run.note(target.name, error)

    def _load(self, target: Target, connections: int) -> None:
        plan, run = self._plan, self._run
        pids = target.pids()
        before = process.cpu_ns(pids)
        body = self._bodies["80 KB"]
        found = wrk.run(target.port, body, connections, plan.rate_seconds, run.folder)
        used = process.cpu_ns(pids) - before
        self._figures.add("rps", f"{connections}", target.name, found.per_second)
        if found.failed:
            run.note(target.name, f"{connections} connections: {found.failed} requests failed")
        if connections == CONNECTIONS[-1]:
            at = f"at {connections}"
            self._figures.add("rps", f"p99 ms {at}", target.name, found.p99 * 1e3)
            if pids:
                each = used / 1e3 / max(1, found.requests)
                self._figures.add("rps", f"cpu µs {at}", target.name, each)
                self._figures.add("rps", "core used", target.name, used / 1e9 / found.seconds)

    def _blocks(
        self, body: Body, requests: int, rounds: int, more: str = ""
    ) -> Iterable[tuple[dict[str, list[float]], dict[str, float]]]:
        """Yield for each round: seconds of each request, µs of CPU per request, by target."""
        clients = {target.name: Client(target.port, body, more) for target in self._targets}
        for client in clients.values():
            self._try(client, 3)
        for number in range(rounds):
            seconds: dict[str, list[float]] = {}
            cpu: dict[str, float] = {}
            for target in rotated(self._targets, number):
                pids = target.pids()
                before = process.cpu_ns(pids)
                found = self._try(clients[target.name], requests)
                if not found:
                    continue
                seconds[target.name] = found
                if pids:
                    used = process.cpu_ns_at_rest(pids, self._plan.settle) - before
                    cpu[target.name] = used / 1000 / len(found)
            yield seconds, cpu
        for client in clients.values():
            client.close()

    def _try(self, client: Client, requests: int) -> list[float]:
        gc.collect()
        gc.disable()
        try:
            return client.run(requests, self._plan.first_seconds)
        except (OSError, EOFError, RuntimeError) as error:
            client.close()
            target = next(t for t in self._targets if t.port == client.port)
            self._run.note(target.name, error)
            return []
        finally:
            gc.enable()


def rotated(targets: list[Target], number: int) -> list[Target]:
    """The same in turn, another one first in each round."""
    start = number % len(targets)
    return targets[start:] + targets[:start]


def percentile(values: list[float], share: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def line(across: list[float], up: list[float]) -> tuple[float, float]:
    """Return the slope of the least-squares line and the largest deviation from it.

    The deviation is a share of the largest value.
    """
    slope, intercept = statistics.linear_regression(across, up)
    pairs = zip(across, up, strict=True)
    return slope, max(abs(y - intercept - slope * x) for x, y in pairs) / max(up)
