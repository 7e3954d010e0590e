"""How the demo's fixtures are made: ``python -m tests.demo.pack CAPTURE.jsonl OUT.json.gz``."""

import gzip
import json
import re
import sys
from pathlib import Path

KEPT = ("user-agent", "x-app", "x-claude-code-session-id", "anthropic-version", "anthropic-beta")


def requests(capture):
    """The main requests of a capture with their bodies as text, in order."""
    rows = map(json.loads, capture.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["method"] == "POST" and "/v1/messages" in row["path"]]


def pack(rows):
    bodies = [json.loads(row["body"]) for row in rows]
    headers = rows[-1]["headers"]
    return {
        "client": "Claude Code " + re.search(r"claude-cli/(\S+)", json.dumps(headers))[1],
        "headers": {name: value for name, value in headers.items() if name.lower() in KEPT},
        "last": bodies[-1],
        "turns": [
            {
                "billing_header": body["system"][0]["text"],
                "history": len(body["messages"]) - 1,
                "message": body["messages"][-1],
            }
            for body in bodies
        ],
    }


def main(capture, out):
    text = json.dumps(pack(requests(Path(capture))), ensure_ascii=False, separators=(",", ":"))
    Path(out).write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
