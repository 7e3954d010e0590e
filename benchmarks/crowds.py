"""Tokens that several conversations evaluate on the embedded llama.cpp, by its settings.

    python -m benchmarks.crowds [--only TURNS] [--slots 1 4] [--holding]

Each cell has a server of its own, on a tiny random model, so that nothing is left from the one
before. The table is the one of benchmarks/README.md and of cacheproxy/core/kinds/crowds.py (ten
minutes). ``--holding``: instead, agents that start together on four slots, sent at once, held back
until the first answer has ended, or one after the other: tokens, and seconds to the first and to
the last answer as shares of those sent at once (twenty minutes).
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.core.kinds.crowds import MEASURED, SIMILARITIES, Crowd
from cacheproxy.http_client import Site

_WORDS = [
    "house",
    "river",
    "stone",
    "table",
    "green",
    "window",
    "paper",
    "carbon",
    "letter",
    "market",
    "garden",
    "silver",
    "of",
    "to",
]
_APART = 0.1
"""Seconds between two that start together."""
Conversation = list[dict[str, str]]


def text(words: int, seed: int = 0) -> str:
    """Return that many words, the same for the same seed."""
    chosen = random.Random(seed)
    return " ".join(chosen.choice(_WORDS) for _ in range(words))


HEAD = f"You are an agent. {text(440, 1)}"


def conversation(head: str, own: int, seed: int) -> Conversation:
    """Return a conversation with ``own`` words of its own behind ``head``."""
    said = f"{seed} {text(own, 100 + seed)}"
    return [{"role": "system", "content": head}, {"role": "user", "content": said}]


class Server:
    """A server, and the tokens that were evaluated there."""

    def __init__(self, url: str) -> None:
        self.site, self.evaluated = Site(url), 0

    def ask(self, said: Conversation, answer: int = 8, **more: Any) -> dict[str, str]:
        """Send ``said``, and return the answer's message; ``answer``: at most so many tokens."""
        body = {"model": "m", "messages": said, "max_tokens": answer, "temperature": 0}
        found: Any = self.site.tell("/v1/chat/completions", body | more, 600.0)
        self.evaluated += found["timings"]["prompt_n"]
        message: dict[str, str] = found["choices"][0]["message"]
        return message

    def turn(self, said: Conversation) -> None:
        """Send ``said``, and add the answer and the next question."""
        answer = {"role": "assistant", "content": self.ask(said)["content"]}
        said += [answer, {"role": "user", "content": f"go {text(10, len(said))}"}]

    def by_turns(self, said: list[Conversation], turns: int = 3) -> None:
        """Let each conversation have a turn, one after the other, ``turns`` times."""
        for each in said * turns:
            self.turn(each)

    def together(self, said: list[Conversation], turns: int = 2) -> None:
        """Start all of them at about the same time."""
        threads = [threading.Thread(target=self.by_turns, args=([each], turns)) for each in said]
        for thread in threads:
            thread.start()
            time.sleep(_APART)
        for thread in threads:
            thread.join()


def _turns(server: Server) -> None:
    server.by_turns([conversation(HEAD, 180, seed) for seed in range(2)])


def _head(server: Server) -> None:
    server.by_turns([conversation(HEAD, 40, seed) for seed in range(5)])


def _subagents(server: Server) -> None:
    """Subagents have half of main's prompt, titles nothing of it."""
    tools = f"Tools. {text(280, 3)}"
    main = conversation(tools + text(280, 4), 60, 0)
    for number in range(3):
        server.turn(main)
        server.ask(conversation(f"Write a title. {text(24, 9)}", 12, 70 + number))
        sub = f"{tools} You are a subagent. {text(120, 8)}"
        server.together([conversation(sub, 40, 10 * number + each) for each in (1, 2)])
    server.turn(main)


def _together(server: Server) -> None:
    server.together([conversation(HEAD, 40, seed) for seed in range(4)])


CROWDS: dict[Crowd, Callable[[Server], None]] = {
    Crowd.TURNS: _turns,
    Crowd.HEAD: _head,
    Crowd.SUBAGENTS: _subagents,
    Crowd.TOGETHER: _together,
}


def started(model: Path, slots: int, *, ram: bool, similarity: float = 0.1) -> LlamaServer:
    """Return a server with these settings; several slots share one memory."""
    return LlamaServer(
        model,
        n_ctx=32_768,
        n_parallel=slots,
        kv_unified=slots > 1,
        cache_ram_mib=8192 if ram else 0,
        slot_prompt_similarity=similarity,
        cpuparams__n_threads=1,
        cpuparams_batch__n_threads=1,
    )


def evaluated(model: Path, crowd: Crowd, slots: int, *, ram: bool, similarity: float) -> int:
    """Return the tokens that ``crowd`` evaluates on a fresh server."""
    with started(model, slots, ram=ram, similarity=similarity) as llama:
        server = Server(llama.url)
        CROWDS[crowd](server)
        return server.evaluated


def as_table(cells: dict[tuple[int, int], dict[Crowd, tuple[int, ...]]]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    crowds = next(iter(cells.values()))
    yield f"| slots, `--cache-ram` | {' | '.join(crowds)} |"
    yield f"| --- |{' --- |' * len(crowds)}"
    for (slots, ram), row in cells.items():
        figures = (" / ".join(f"{each:,}" for each in row[crowd]) for crowd in crowds)
        yield f"| {slots}, {8192 if ram else 0} | {' | '.join(figures)} |"


def _held(model: Path, way: str, agents: int, answer: int) -> tuple[int, float, float]:
    with started(model, 4, ram=True) as llama:
        server, ended = Server(llama.url), threading.Event()
        begun, times = time.monotonic(), list[float]()

        def one(seed: int) -> None:
            if way == "held" and seed:
                ended.wait()
            server.ask(conversation(f"{HEAD} {text(660, 2)}", 40, seed), answer, ignore_eos=True)
            times.append(time.monotonic() - begun)
            ended.set()

        threads = [threading.Thread(target=one, args=(seed,)) for seed in range(agents)]
        for thread in threads:
            thread.start()
            if way == "one by one":
                thread.join()
            else:
                time.sleep(_APART)
        for thread in threads:
            thread.join()
        return server.evaluated, min(times), max(times)


def holding(model: Path) -> Iterator[str]:
    """Yield a line for each number of agents, length of answers, and way to send them."""
    yield "| agents, tokens of an answer | at once | held back | one by one |"
    yield "| --- | --- | --- | --- |"
    for agents, answer in itertools.product((2, 4), (8, 200, 1000)):
        ways = ("at once", "held", "one by one")
        runs = [[_held(model, way, agents, answer) for way in ways] for _ in range(3)]
        cells = []
        for number in range(len(ways)):
            tokens = statistics.median(run[number][0] for run in runs)
            shares = (
                statistics.median(run[number][which] / run[0][which] for run in runs)
                for which in (1, 2)
            )
            cells.append(f"{tokens:,.0f}; {'; '.join(f'{share:.2f}' for share in shares)}")
        yield f"| {agents}, {answer:,} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=[crowd.name for crowd in Crowd])
    parser.add_argument("--slots", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--holding", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tiny.gguf"
        write_model(model)
        if given.holding:
            for line in holding(model):
                print(line, flush=True)
            return
        cells = {
            (slots, ram): {
                crowd: tuple(
                    evaluated(model, crowd, slots, ram=bool(ram), similarity=each)
                    for each in SIMILARITIES
                )
                for crowd in Crowd
                if given.only in (None, crowd.name)
            }
            for slots, ram in MEASURED
            if slots in given.slots
        }
        print("\n".join(as_table(cells)))


if __name__ == "__main__":
    main()
