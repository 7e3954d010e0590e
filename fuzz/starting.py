"""How a target starts: from inputs that get deep, since bytes at random are no HTTP and no JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

CORPUS = Path(__file__).with_name("corpus")
LONGEST = 4096
"""Bytes of a seed: a longer one is slow to feed byte by byte."""


def start(one: Callable[[bytes], None], seeds: Iterable[bytes] = ()) -> None:
    """Give ``one`` what libFuzzer makes of ``seeds``; never returns.

    The seeds, and what was found worth trying, are kept in the folder that the command line names,
    else in ``corpus/TARGET``. Files that it names are run once, and no more.

    Args:
        one: raises where its property does not hold.
        seeds: what to begin with.

    """
    arguments = list(sys.argv)
    named = [Path(word) for word in arguments[1:] if not word.startswith("-")]
    if not any(path.is_file() for path in named):
        folder = named[0] if named else CORPUS / Path(arguments[0]).stem
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            if len(seed) <= LONGEST:
                folder.joinpath(f"seed-{number:03}").write_bytes(seed)
        if not named:
            arguments.append(str(folder))
    atheris.Setup(arguments, one)
    atheris.Fuzz()
