"""How many turns of the recorded traffic only add to the turn before, as captured and through us.

    python benchmarks/pairs.py [--only 'claude*'] [--list] [--proxies 3]

Takes every capture (tests/captures) through the rules of all installed packages, as the proxy does,
without a server: requests that extend one another make pairs, and a pair is pure append if the
later prompt begins with the whole earlier one. Prints a Markdown table; ``--list`` names the place
where each other pair parts. With ``--proxies`` so many of them, which know nothing of each other,
have the requests by turns; a pair is what the one server behind them sees. The figures on what a
server renders are those of benchmarks/reuse.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from cacheproxy.config import Config
from cacheproxy.core.conversation.divergence import Parting, parting
from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.prompt import Prompt, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import run
from cacheproxy.plugin.packages import configured
from cacheproxy.testing import capture_name, find_captures, load_capture


class Pair(NamedTuple):
    """A turn after another: where it parts from it as captured, and as it goes upstream."""

    number: int
    captured: Parting
    sent: Parting


def pairs(requests: list[Request], settings: Config, proxies: int = 1) -> Iterator[Pair]:
    """Yield the pairs among the requests of one capture, in their order."""
    known = configured(settings)
    plan = known.packages.plan(known.on)
    others = [Store(hears=False) for _ in range(proxies)]
    store, memo = Store(hears=False), Memo()
    unedited: dict[int, Prompt] = {}
    for number, request in enumerate(requests):
        came = Request(request.method, request.target, request.headers, request.body, memo)
        plan.clients.introduce(came)
        if proxies == 1:
            prepared = run(prepare(came, plan, store))
        else:  # what one of them sends is what the server has, and its store knows
            mine = others[number % proxies]
            ready = run(prepare(came, plan, mine))
            if ready.turn is not None:
                mine.end(ready.turn.session, mine.begin(ready.turn, ready.request), None)
            prepared = run(prepare(ready.request, plan.only(), store))
        turn, own = prepared.turn, prompt_of(came)
        if turn is None or turn.prompt is None or own is None:
            continue
        if turn.lane is not None and not turn.replaced:
            before = unedited[id(turn.lane)]
            yield Pair(number, parting(before, own), parting(turn.lane.prompt, turn.prompt))
        place = store.begin(turn, prepared.request)
        conversation = store.conversation(turn.session)
        lane = None if conversation is None else conversation.lane(place.lane)
        unedited[id(lane)] = own


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="captures whose names match")
    parser.add_argument("--list", action="store_true", help="name the pairs that part")
    parser.add_argument("--proxies", type=int, default=1, help="how many, by turns")
    asked = parser.parse_args()
    print("| capture | pairs | as captured | through |\n|---|---|---|---|")
    sums, parted = [0, 0, 0], []
    for file in find_captures("*.jsonl", Path(__file__)):
        name = capture_name(file)
        if not fnmatch(name, asked.only):
            continue
        found = list(pairs(load_capture(file), Config(), asked.proxies))
        counts = (
            len(found),
            sum(pair.captured.was is None for pair in found),
            sum(pair.sent.was is None for pair in found),
        )
        sums = [total + count for total, count in zip(sums, counts, strict=True)]
        print(f"| {name} | {' | '.join(map(str, counts))} |")
        parted += [(name, pair) for pair in found if pair.sent.was is not None]
    print(f"| all | {' | '.join(map(str, sums))} |")
    for name, pair in parted if asked.list else ():
        share = pair.sent.shared
        print(
            f"{name} #{pair.number}: {pair.sent.part} after {share:,} characters, {pair.sent.path}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
