"""Two trees of cacheproxy on the same captures: the same bytes upstream, verdicts and pages?

    python benchmarks/compare_trees.py --before TREE --after TREE [CAPTURE|FOLDER ...]
    python benchmarks/compare_trees.py --before TREE --save FOLDER     only that one, kept
    python benchmarks/compare_trees.py --before FOLDER --after TREE    with what was kept
    python benchmarks/compare_trees.py ... --variant plain,pins --only 'claude-*'

Each tree's own interpreter (TREE/.venv) runs its own ``twistd -n cacheproxy``, anew for each
capture, before a scripted upstream that counts tokens and the prefix shared with earlier prompts.
Every request of a capture is sent in order. Compared: what came to the upstream (head and bytes),
what the client got, what the proxy asked the upstream by itself, its log, its pages, and what it
left on disk; without times, ports and the proxy's random mark. Exit status 1 if anything differs.
Captures: those of tests/captures by default. Variants: plain (a server that says nothing of
itself), hoists and refuses (llama-server, by what becomes of late system messages), pins (with the
pin rules), chat (Messages translated for a server of Chat Completions alone), messages (the
reverse: refused), thinking (earlier reasoning is kept), midnight (the next day begins in the middle
of the capture), down (one of two upstreams refuses connections), capture and totals (what is
written to disk), polls (the server's pages are looked at all the time).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from same.drive import load, run
from same.upstream import common_prefix
from same.variants import VARIANTS

RESULT = "result.json"
CAPTURES = Path(__file__).resolve().parents[1] / "tests/captures"


def main() -> int:
    options = parse()
    jobs = list(find_jobs(options))
    with tempfile.TemporaryDirectory() as scratch:
        folders = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for name, tree in (("before", options.before), ("after", options.after)):
                if tree is not None:
                    kept = options.save / name if options.save else Path(scratch, name)
                    folders.append(results(tree, kept, jobs, pool))
        if len(folders) < 2:
            return 0
        found = [
            (f"{job}: {where}", before, after)
            for job in folders[0][1]
            if job in folders[1][1]
            for where, before, after in differences(folders[0][1][job], folders[1][1][job])
        ]
        every = len(found)
        if options.without is not None:
            found = [one for one in found if not options.without.search(one[0])]
        for where, *values in found[: options.most]:
            before, after = shown([folder for folder, _ in folders], values)
            print(f"{where}\n  before: {before}\n  after:  {after}")
        both = [job for job in folders[0][1] if job in folders[1][1]]
    requests = sum(len(folders[0][1][job]["exchanges"]) for job in both)
    names = {job.partition(" ")[0] for job in both}
    said = f"on {requests} requests, {len(names)} captures, {len(both)} runs"
    said += f"; {every - len(found)} left out" if every > len(found) else ""
    print(f"{len(found)} differences {said}" if found else f"equal {said}")
    return 1 if found else 0


def results(
    tree: Path, kept: Path, jobs: list[tuple[Path, str]], pool: ThreadPoolExecutor
) -> tuple[Path, dict[str, Any]]:
    """Run all jobs with ``tree``, or read what was kept of it; return the folder, the results."""
    if (tree / RESULT).exists():
        asked = {title(*job) for job in jobs}
        found = json.loads((tree / RESULT).read_text())
        return tree, {job: result for job, result in found.items() if job in asked}
    (kept / "bodies").mkdir(parents=True)
    work = [pool.submit(run, tree.resolve(), *job, kept / "bodies") for job in jobs]
    found = {}
    for job, each in zip(jobs, work, strict=True):
        found[title(*job)] = each.result()
        if len(found) % 20 == 0 or len(found) == len(jobs):
            print(f"{tree}: {len(found)} of {len(jobs)} runs", file=sys.stderr)
    (kept / RESULT).write_text(json.dumps(found))
    return kept, found


def differences(before: Any, after: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places where two values differ, and what is there; None for nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            yield from differences(before.get(name), after.get(name), f"{where} {name}".strip())
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            one, other = (each[number] if number < len(each) else None for each in (before, after))
            yield from differences(one, other, f"{where}[{number}]")
    elif before != after:
        yield where, before, after


def shown(folders: Sequence[Path], values: Sequence[Any]) -> list[str]:
    """Return both values for people; of bodies what stands where they part."""
    texts = []
    for folder, value in zip(folders, values, strict=True):
        name = str(value).rpartition(" ")[2]
        file = folder / "bodies" / name.replace("/", "")
        is_body = isinstance(value, str) and "-" in name and file.is_file()
        texts.append(file.read_bytes() if is_body else str(value).encode())
    at = common_prefix(*texts)
    return [
        f"{str(value)[:80]} at {at}: {text[max(0, at - 40) : at + 80]!r}"
        for value, text in zip(values, texts, strict=True)
    ]


def find_jobs(options: argparse.Namespace) -> Iterator[tuple[Path, str]]:
    for given in options.captures or [CAPTURES]:
        files = sorted(given.glob("*.jsonl*")) if given.is_dir() else [given]
        for file in files:
            if fnmatch(file.name.partition(".jsonl")[0], options.only):
                prompts = [line for line in load(file) if line["method"] == "POST"]
                for name in options.variant:
                    if any(map(VARIANTS[name].suits, prompts)):
                        yield file, name


def title(capture: Path, variant: str) -> str:
    return f"{capture.name.partition('.jsonl')[0]} {variant}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, metavar="TREE")
    parser.add_argument("--after", type=Path, metavar="TREE")
    parser.add_argument("captures", type=Path, nargs="*", metavar="CAPTURE")
    parser.add_argument("--variant", type=names, default=tuple(VARIANTS), metavar="NAME,...")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of captures")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="keep what was seen")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument(
        "--without",
        type=re.compile,
        metavar="REGEX",
        help="places that are meant to differ",
    )
    parser.add_argument("--most", type=int, default=40, metavar="N", help="differences to print")
    return parser.parse_args()


def names(text: str) -> tuple[str, ...]:
    found = tuple(filter(None, text.split(",")))
    unknown = [name for name in found if name not in VARIANTS]
    if unknown:
        message = f"no {', '.join(unknown)}: there are {', '.join(VARIANTS)}"
        raise argparse.ArgumentTypeError(message)
    return found


if __name__ == "__main__":
    sys.exit(main())
