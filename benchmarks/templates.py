"""What late system messages cost on chat templates of vendors, directly and through the proxy.

    python benchmarks/templates.py [NAME ...] [--json]

For each template of tests/fixtures/templates a llama.cpp server renders one turn of two clients: a
prompt and three results of tools, each request with more messages than the one before. Claude Code
(2.1.233 to 2.1.280) sends a late system message behind each, Codex a developer message at the head
and two user messages. Prints a Markdown table: where the proxy places late messages, how many
reasoning blocks stand in the last prompt, and how many tokens the server evaluated, directly and
through the proxy; last, what is evaluated if each prompt only adds to the one before. A minute.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.kinds.placement import Placement
from cacheproxy.core.kinds.profile import UNKNOWN
from cacheproxy.doctor.facts import learned
from cacheproxy.http_client import Site
from tests.llama.vendors import AGENTS, VENDORS, Held, config_for, hold, start_farm

COLUMNS = ("template", "late messages", "reasoning", *AGENTS)


def placed(placement: Placement | None) -> str:
    """Return where the proxy places late messages, in a few words."""
    if placement is None or not placement.places:
        return f"stay ({placement.late})" if placement is not None else "unknown"
    if placement.joins_user:
        way = "joined to the message beside them"
    elif placement.joins_tool:
        way = "user messages; joined to a tool's result"
    else:
        way = "user messages"
    return f"{way} ({placement.late})"


def tokens(direct: Held, held: Held) -> str:
    """Return what was evaluated directly, through the proxy, and at the least."""
    first = f"{direct.evaluated:,}" if direct.served else "refused"
    return f"{first} -> {held.evaluated:,} -> {held[-1].tokens:,}"


def measure(name: str, server: str, proxy: str) -> dict[str, Any]:
    """Return one row."""
    known = learned(Site(server), UNKNOWN).placement
    row = {"template": name, "late messages": placed(known)}
    for shape in AGENTS:
        direct, held = (hold(url, server, shape, name).loop for url in (server, proxy))
        if shape == "claude":
            before = direct[-1].thoughts if direct.served else "refused"
            row["reasoning"] = f"{before} -> {held[-1].thoughts}"
        row[shape] = tokens(direct, held)
    return row


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    templates = {name: VENDORS[name] for name in given.name or VENDORS}
    with tempfile.TemporaryDirectory() as folder, start_farm(Path(folder), templates) as farm:
        config = Path(folder, "config.toml")
        config.write_text(config_for(farm.urls))
        with Proxy("", "--config", str(config)) as proxy:
            rows = [measure(name, url, proxy.url) for name, url in farm.urls.items()]
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for row in rows:
        print("| " + " | ".join(str(row[name]) for name in COLUMNS) + " |")


if __name__ == "__main__":
    main()
