"""JSON values that a target makes up."""

import json
from collections.abc import Sequence
from typing import Any

import atheris

PLAIN = [None, True, False, 0, 9, -1, 1 << 60, 1.5, [], {}]


def value_of(
    data: atheris.FuzzedDataProvider, texts: Sequence[str], names: Sequence[str], depth: int = 0
) -> Any:
    """Make up a value, at most four deep, with some of ``texts`` and ``names``."""
    kind = data.ConsumeIntInRange(0, 3 if depth > 2 else 5)
    if kind < 2:
        return data.ConsumeUnicode(12) if kind else data.PickValueInList(list(texts))
    if kind < 4:
        return data.PickValueInList(PLAIN)
    inner = [value_of(data, texts, names, depth + 1) for _ in range(data.ConsumeIntInRange(0, 3))]
    return inner if kind == 4 else {data.PickValueInList(list(names)): each for each in inner}


def written(data: atheris.FuzzedDataProvider, value: Any) -> bytes:
    """Write a value as one of the programs might that send JSON."""
    kind = data.ConsumeIntInRange(0, 3)
    if kind == 0:
        return json.dumps(value, indent=1).encode()
    separators = (",", ":") if kind == 1 else None
    text = json.dumps(value, separators=separators, ensure_ascii=kind != 3)
    return text.encode(errors="replace")
