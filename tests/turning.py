"""A reactor in memory for real threads: ``turn`` does what they ask for, time is a clock's."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.python.threadpool import ThreadPool

from .proxy.harness import eventually


class TurningReactor(Clock):
    """What is asked for from a thread waits for the next ``turn``; so much was ``turned``."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = ThreadPool(0, 1)
        self.turned = 0
        self._asked: list[tuple[Callable, tuple, dict]] = []

    def getThreadPool(self) -> ThreadPool:  # noqa: N802
        return self.pool

    def callFromThread(self, function, *arguments, **keywords) -> None:  # noqa: N802
        self._asked.append((function, arguments, keywords))

    def turn(self) -> None:
        while self._asked:
            function, arguments, keywords = self._asked.pop(0)
            function(*arguments, **keywords)
            self.turned += 1

    def turn_until(self, condition: Callable[[], object]) -> None:
        """Turn until ``condition`` holds."""

        def holds() -> object:
            self.turn()
            return condition()

        eventually(holds)
