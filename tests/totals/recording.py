"""A process that keeps totals until it is killed: ``python -m tests.totals.recording FOLDER``.

Prints the number of the last record that the file has, each time it has been told so.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from cacheproxy.totals.database import Database

from .builders import record


class Nobody:
    """There is no reactor to be called from: what is to be done is done in the thread."""

    def callFromThread(self, function, *arguments) -> None:  # noqa: N802 - Twisted's
        function(*arguments)


def main(folder: Path) -> None:
    database = Database(Nobody(), folder)
    database.check()
    for number in itertools.count(1):
        each = record(number=number, session=f"s{number % 7}")
        database.put(lambda store, each=each: store.record(each))
        if number % 75 == 0:
            database.run(lambda _, number=number: number).addCallback(tell)
        time.sleep(0.01)


def tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
