"""What the second user message costs where a chat template drops the thinking of earlier turns.

    python benchmarks/thinking.py [--family qwen35 ...] [--template keep ...] [--json]

A model that thinks (tests/llama/thinker.py) answers a user message and the results of two tools;
then the user speaks again. Prints a Markdown table of the tokens that the server evaluates then:
without the proxy, through it with ``--keep-thinking auto`` in the first conversation after its
start and in the next one, with ``--keep-thinking yes``, and what is really new. A client sends the
reasoning back, or drops it. About a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from cacheproxy.child.process import ChildProxy as Proxy
from tests.llama.causes.servers import Llama
from tests.llama.causes.talk import words
from tests.llama.thinker import ASKED, SETTINGS, Thinker, new_tokens

FAMILIES = ("llama", "gemma3", "gpt-oss", "qwen35", "lfm2")
TEMPLATES = ("keep", "think")
COLUMNS = ("model", "template", "client", "direct", "auto, first", "auto, next", "yes", "new")
SECOND = words(ASKED, 9)


def second_message(url: str, name: str, *, sends: bool, api: str) -> int:
    """Return what it costs in one conversation of three turns, in tokens."""
    one = Thinker(url, name, sends=sends, api=api)
    one.turn(words(100, 1))
    found = one.ask(SECOND).evaluated
    one.turn(words(30, 12), 4)  # what the proxy has learned shows from here on
    return found


def measure(family: str, template: str, api: str) -> list[dict[str, Any]]:
    """Return a row for each kind of client."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        server = Llama(family, Path(folder), template, **SETTINGS)
        try:
            for sends in (True, False):
                found = [second_message(server.url, f"d{sends}", sends=sends, api=api)]
                for setting, times in (("auto", 2), ("yes", 1)):
                    with Proxy(server.url, "--keep-thinking", setting) as proxy:
                        found += [
                            second_message(proxy.url, f"{setting}{sends}{n}", sends=sends, api=api)
                            for n in range(times)
                        ]
                client = "sends it back" if sends else "drops it"
                new = new_tokens(server.url, SECOND)
                row = (family, template, client, *found, new)
                rows.append(dict(zip(COLUMNS, row, strict=True)))
        finally:
            server.close()
    return rows


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--template", action="append", choices=TEMPLATES)
    parser.add_argument("--api", default="chat", choices=("chat", "messages"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for template in given.template or TEMPLATES:
        for family in given.family or FAMILIES:
            print(f"{family} {template} …", file=sys.stderr)
            rows += measure(family, template, given.api)
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    print("|" + "|".join(f" {name} " for name in COLUMNS) + "|")
    print("|" + "---|" * len(COLUMNS))
    for row in rows:
        print("|" + "|".join(f" {value} " for value in row.values()) + "|")


if __name__ == "__main__":
    main()
