"""apply(edits): whatever is asked, it is done to a JSON text or refused, and means what it says."""

import copy
import json
from typing import Any

import atheris

with atheris.instrument_imports(include=["cacheproxy.core"]):
    from cacheproxy.core.document.document import Document
    from cacheproxy.core.document.edits import REMOVE, Edit, EditError, apply
    from cacheproxy.core.document.pointer import PathError, parse_pointer, to_pointer
    from cacheproxy.core.document.reader import NotUnderstoodError

from fuzz.starting import start
from fuzz.values import value_of, written

NAMES = ["messages", "content", "system", "a/b", "~", "\u00e9"]
TEXTS = ["", "You are an agent.\nDate: 2026-11-20", '"\\\u2028', "\U0001f600 x"]
VALUES = ["", "new", '"\\\n\0', "\ud83d", "\U0001f600", 0, 1.5, True, None, [], {"a": [1]}, {}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in ``value``."""
    found = [path]
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(inner, (*path, step))
    return found


def edit_of(data: atheris.FuzzedDataProvider, value: Any) -> Edit:
    """Make up an edit, mostly of a place that is there."""
    path = data.PickValueInList(places(value))
    pointer = data.ConsumeUnicode(6) if data.ConsumeIntInRange(0, 15) == 0 else to_pointer(path)
    kind = data.ConsumeIntInRange(0, 3)
    if kind == 0:
        return Edit(pointer, REMOVE, "")
    new = data.ConsumeUnicode(8) if data.ConsumeBool() else data.PickValueInList(VALUES)
    if kind == 1:
        return Edit(pointer, new, "")
    start = data.ConsumeIntInRange(-1, 8)
    return Edit(pointer, new, "", (start, start + data.ConsumeIntInRange(-1, 4)))


def on_the_value(value: Any, edit: Edit, path: tuple[Any, ...]) -> Any:
    """Make one edit of what a document means."""
    holder = value = copy.deepcopy(value)
    for step in path[:-1]:
        holder = holder[step]
    if edit.new is REMOVE:
        del holder[path[-1]]
    elif edit.span is None:
        holder[path[-1]] = edit.new
    else:
        old = holder[path[-1]]
        holder[path[-1]] = old[: edit.span[0]] + edit.new + old[edit.span[1] :]
    return value


def one(raw: bytes) -> None:
    """Some of the bytes say what the text is, the others the edits."""
    data = atheris.FuzzedDataProvider(raw)
    if data.ConsumeIntInRange(0, 7):
        body = written(data, {name: value_of(data, TEXTS, NAMES) for name in NAMES[:3]})
    else:
        body = data.ConsumeBytes(data.ConsumeIntInRange(0, len(raw) // 2))
    try:
        document = Document(body)
    except NotUnderstoodError:
        return
    edits = [edit_of(data, document.value) for _ in range(data.ConsumeIntInRange(1, 4))]
    try:
        result = apply(document, edits)
    except (EditError, PathError):
        assert document.body == body
        return
    said = json.loads(result)
    assert Document(result).value.keys() == said.keys()
    if len(edits) == 1:
        path = document.resolve(parse_pointer(edits[0].path))
        expected = on_the_value(document.value, edits[0], path)
        assert json.dumps(said) == json.dumps(expected)


if __name__ == "__main__":
    start(one)
