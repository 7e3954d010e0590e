"""What each recorded session reuses of its prompts, directly and through the proxy.

Sends every multi-turn session of the captures to the embedded llama.cpp server (tiny random
model, one slot), one request after the other with max_tokens 1, twice: directly, and through a
real ``twistd -n cacheproxy`` with the rules that are on by default. The slot is emptied before
each pass. Claude Code's and other Anthropic bodies go to /v1/messages and, turned into chat shape
as gateways do, to /v1/chat/completions.

    python benchmarks/reuse.py                   one Markdown table, about 20 minutes
    python benchmarks/reuse.py --only 'claude*'  only captures whose names match
    python benchmarks/reuse.py --json            every turn, with seconds
    python benchmarks/reuse.py --template FILE   with another chat template (Jinja)
    python benchmarks/reuse.py --enable RULE     with more rules on

Needs tools/demo, the client packages and an editable install (requirements-dev.txt).

Reading the table: "reuse" is the reused part of all prompt tokens after the first turn, "worst"
that of the worst turn. A turn breaks if it reuses less than the prompt before it, less 8 tokens.
"!" marks a break through the proxy that tests/llama/exceptions.py does not explain; any of these
makes the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.testing import capture_name, find_captures, load_capture
from tests.llama import openclaw_2026_02
from tests.llama.exceptions import EXCEPTIONS
from tests.llama.replay import (
    Measured,
    Session,
    Turn,
    breaks,
    erase,
    load_sessions,
    replay,
    start_server,
    write_model_for,
)

COLUMNS = (
    "session", "api", "turns", "prompt",
    "direct reuse", "worst", "breaks",
    "through reuse", "worst", "breaks",
    "broken turns, and why",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    session: Session
    name: str
    api: str
    direct: list[Measured]
    through: list[Measured]

    def cells(self) -> list[str]:
        cells = [self.name, self.api, str(len(self.direct)), f"{self.direct[-1].prompt:,}"]
        for measured in (self.direct, self.through):
            later = measured[1:]
            reused = sum(turn.reused for turn in later) / sum(turn.prompt for turn in later)
            worst = min(later, key=lambda turn: turn.share)
            broken = len(list(breaks(measured)))
            cells += [f"{reused:.1%}", f"{worst.share:.1%} (#{worst.number})", str(broken)]
        return [*cells, "; ".join(self.explained())]

    def explained(self) -> list[str]:
        """The broken turns, those of one reason together."""
        why = EXCEPTIONS.get(self.session.capture, {})
        broken = [(why.get(turn.number, "!"), turn.number) for turn in breaks(self.through)]
        together: dict[str, list[str]] = {}
        for reason, number in broken:
            together.setdefault(reason, []).append(f"#{number}")
        return [f"{' '.join(numbers)} {reason}" for reason, numbers in together.items()]

    def json(self) -> dict:
        return {
            "session": self.name,
            "api": self.api,
            "direct": [asdict(turn) for turn in self.direct],
            "through": [asdict(turn) for turn in self.through],
            "broken": self.explained(),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--template", type=Path)
    parser.add_argument("--enable", default="", metavar="RULE[,RULE]")
    arguments = parser.parse_args()
    jobs = list(find_jobs(arguments.only))
    template = arguments.template.read_text() if arguments.template else None
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        found = [session for _, session, _ in jobs]
        model = write_model_for(Path(folder, "m.gguf"), found, template=template)
        with start_server(model, Path(folder)) as server:
            for number, (name, session, api) in enumerate(jobs, start=1):
                start = time.monotonic()
                rows.append(measure(server, name, session, api, arguments.enable))
                took = f"{time.monotonic() - start:.0f} s"
                progress = f"{number}/{len(jobs)} {name} {api}: {took} {rows[-1].explained()}"
                print(progress, file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps([row.json() for row in rows], indent=1))
    else:
        print(table(rows))
    return int(any("!" in line for row in rows for line in row.explained()))


def find_jobs(pattern: str):
    """Every session of the captures with every API it can be sent to, under a name."""
    for file in find_captures(f"{pattern}.jsonl", __file__):
        found = load_sessions(file)
        if not found:  # each request is a session of its own, and what they share is the question
            turns = enumerate(load_capture(file), start=1)
            found = [Session(capture_name(file), tuple(Turn(number, one) for number, one in turns))]
        for session in found:
            name = capture_name(file)
            if len(found) > 1:
                name += f" #{session.turns[0].number}…"
            for api in session.apis:
                yield name, session, api
    if pattern == "*":
        base = find_captures("openclaw_2026.6.11-completions.jsonl", __file__)
        body = load_capture(base[0])[0].json
        for api in ("messages", "chat", "responses"):
            old = openclaw_2026_02.session(api, body["messages"][0]["content"], body["tools"])
            yield old.capture, old, api


def measure(server: LlamaServer, name: str, session: Session, api: str, enable: str) -> Row:
    erase(server.url)
    direct = replay(server.url, api, session.turns)
    with Proxy(server.url, *(("--enable", enable) if enable else ())) as proxy:
        erase(server.url)
        through = replay(proxy.url, api, session.turns)
    return Row(session, name, api, direct, through)


def table(rows: list[Row]) -> str:
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
