"""Transcripts: what is asked of a part of the program, and what it says, compared whole.

    # why
    >>> chat({"system": "a"})
    = {"messages": [{"role": "system", "content": "a"}]}

A statement is run, an expression's value shown: text line by line behind ``| ``, all else behind
``= ``, an exception behind ``! ``. ``GOLDEN=write python -m pytest FILE`` writes anew what is said;
whoever does reads the difference. Fields with their defaults are left out. ``grouped``
shows many cases by their answers.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec import structs


def holds(name: str, names: dict[str, Any]) -> None:
    """Run the transcript ``name`` beside the test module whose globals are ``names``."""
    file = Path(names["__file__"]).with_name(name)
    written = file.read_text(encoding="utf-8")
    found = "\n".join(_said(written, dict(names))) + "\n"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(found, encoding="utf-8")
        return
    assert found.split("\n") == written.split("\n"), f"{file}, see tests/transcript.py"


def _said(written: str, names: dict[str, Any]) -> list[str]:
    said, asked = [], list[str]()
    lines = [line for line in written.splitlines() if not re.match(r"[=|!]( |$)", line)]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        said.append(line)
        if line.startswith((">>> ", "... ")):
            asked.append(line[4:])
            if not after.startswith("... "):
                said += _run("\n".join(asked), names)
                asked.clear()
    return said


def _run(code: str, names: dict[str, Any]) -> list[str]:
    *first, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        exec(compile(code, "transcript", "exec"), names)
        return []
    try:
        exec(compile(ast.Module(first, []), "transcript", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "transcript", "eval"), names)
    except NameError:  # what is shown then is the test's fault
        raise
    except Exception as error:
        return [f"! {type(error).__name__}: {' '.join(str(error).split())}"]
    if isinstance(value, str) and value:
        return [f"| {line}".rstrip() for line in value.split("\n")]
    return [f"= {plainly(value)}"]


def grouped(answer: Callable[[Any], Any], asked: Iterable[Any]) -> str:
    """What is ``asked``, by its answer: a line for each answer, for a transcript to show."""
    found: dict[str, list[str]] = {}
    for each in asked:
        found.setdefault(plainly(answer(each)), []).append(plainly(each))
    return "\n".join(f"{said}: {', '.join(those)}" for said, those in found.items())


def plainly(value: Any) -> str:
    """What a value is, on one line."""
    match value:
        case Enum():
            return value.name
        case float():
            return repr(float(f"{value:.12g}"))
        case str():
            return json.dumps(value, ensure_ascii=not value.isprintable())
        case dict():
            pairs = (f"{plainly(key)}: {plainly(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case tuple() if hasattr(value, "_fields"):
            defaults = type(value)._field_defaults
            shown = [
                f"{name}={plainly(each)}"
                for name, each in zip(value._fields, value, strict=True)
                if name not in defaults or defaults[name] != each
            ]
            return f"{type(value).__name__}({', '.join(shown)})"
        case list() | tuple():
            opens, closes = "[]" if isinstance(value, list) else "()"
            return opens + ", ".join(map(plainly, value)) + closes
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(plainly, value)))}}}"
        case _ if hasattr(value, "__struct_fields__"):
            shown = [
                f"{field.name}={plainly(getattr(value, field.name))}"
                for field in structs.fields(value)
                if field.required or field.default != getattr(value, field.name)
            ]
            return f"{type(value).__name__}({', '.join(shown)})"
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            shown = [
                f"{field.name}={plainly(getattr(value, field.name))}"
                for field in dataclasses.fields(value)
                if field.repr and getattr(value, field.name) != _default(field)
            ]
            return f"{type(value).__name__}({', '.join(shown)})"
    return repr(value)


def _default(field: Any) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def columns(rows: list[dict[str, Any]]) -> str:
    """Rows side by side, as text: a member to a line."""
    return "\n".join(
        f"{name}: {' | '.join(plainly(row[name]) for row in rows)}" for name in rows[0]
    )


def members(found: dict[str, Any]) -> str:
    """A value as text: a member to a line."""
    return columns([found])
