"""The texts of a proposed rule: its client, its note for the model, its table in the config file.

A pin's note is in words that a client would use. A rule for one program never edits the requests of
all programs that use the same library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from cacheproxy.core.diagnose.volatile import Field, Step
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client, client_of, is_shared
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.rule import Rule

_VOLATILE = r"\g<volatile>"
_CALENDAR = re.compile(r"(?i)\b(?:week|kw|cw|day|month|quarter|year|hour|minute)\W*\Z")
_TODAY = re.compile(r"(?i)\b(?:today|current|now)\b|\A\W*(?:the )?date\W*\Z")
_NAMES = re.compile(r"(?i)(?:[:=>(\"'`|]|\b(?:is|was|are))\s*\Z")
"""Pattern of what separates a name from its value."""
_LABEL = re.compile(r"(?<![A-Za-z0-9 '_-])[0-9 '_-]*+([A-Za-z][A-Za-z0-9 '_-]*)\Z")
_IS = re.compile(r"(?i)(?<!\s)\s*\b(?:is|was|are)\Z")
_LEAST = 8
_HEAD, _TELLING = 80, 16
"""Characters of a system text's head, at most; letters and digits in it, at least."""


def notes_for(kind: ChangeKind, before: str) -> Iterator[str]:
    """Yield notes for a rule (see ``rules.note``), the best first: some may match its own pattern.

    ``before``: the line's text before the value, which the note quotes if it is no name.
    """
    if kind is ChangeKind.DATE and _TODAY.search(before):
        yield f"Today's date is now {_VOLATILE}."
    found = _LABEL.search(before.rstrip(" :=\t\"'(`<>"))
    label = _IS.sub("", found[1].strip()) if found else ""
    said = f"{label[:1].upper()}{label[1:]} is now {_VOLATILE}."
    if not (_NAMES.search(before) or _CALENDAR.search(before)) and "\\" not in before:
        yield f"It now reads: {before.strip()} {_VOLATILE}."
    elif label and len(said) >= _LEAST + len(_VOLATILE):
        yield said
        yield f"Changed: {said}"
    yield f"The {kind.value} is now {_VOLATILE}."


def git_note(heading: str) -> str:
    """Return the note of a git status, or of commits, below the line ``heading``."""
    plain = heading.isascii() and "\\" not in heading and "<" not in heading
    said = heading.strip().rstrip(":") if plain else "Git status"
    return f"It has changed: {said} now\n{_VOLATILE}"


def rule_toml(rule: Rule) -> str:
    """Return ``rule`` as a ``[[rule]]`` table, without members that have their default.

    A comment above it names the requests it is for if the client's name alone does not.
    """
    client, where = rule.client, rule.where
    table = {
        "name": rule.name,
        "where": where if isinstance(where, str) or len(where) > 1 else where[0],
        "pattern": rule.pattern,
        "pin": rule.pin or None,
        "replacement": None if rule.pin else rule.replacement or "",
        "note": rule.note,
        "why": rule.why or None,
        "client": client.name if client else None,
        "head": (client.must_begin or None) if client else None,
        "default": None if rule.default else False,
        "literals": rule.literals or None,
    }
    lines = [f"{key} = {_value(value)}\n" for key, value in table.items() if value is not None]
    comment = ""
    if client is None:
        comment = "# For every client: no name tells whose requests these are.\n"
    elif client.must_begin:
        comment = (
            f"# {client.name} is a library's name: for system texts that begin with head alone.\n"
        )
    return f"{comment}[[rule]]\n{''.join(lines)}"


def _value(value: str | bool | Sequence[str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    """Return ``text`` as a TOML string, without escapes if possible, for readable patterns."""
    if "'" not in text and text.isprintable():
        return f"'{text}'" if "\\" in text or '"' in text else f'"{text}"'
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else _escape(c) for c in escaped) + '"'


def _escape(character: str) -> str:
    if character in "\n\t":
        return "\\n" if character == "\n" else "\\t"
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class RefusedError(Exception):
    """A field that no rule can be made for; the message is the reason, and quotes no request."""


def whose_field(
    field: Field, steps: Sequence[Step], whose: Callable[[Request], Client | None]
) -> Client | None:
    """Return the client in whose requests the field was seen, None if there are several.

    A client with a library's name is identified by the head of its system text as well; raises
    RefusedError if that head is too short or not fit for a rule.
    """
    requests = [request for one in field.sightings for request in steps[one.step]]
    seen = set(map(whose, requests))
    client = seen.pop() if len(seen) == 1 else None
    if client is None or client.name != client_of(requests[0]) or not is_shared(requests[0]):
        return client
    head = _head(requests)
    if sum(map(str.isalnum, head)) < _TELLING or not head.isprintable() or hide_text(head) != head:
        raise RefusedError(
            f"{client.name} is the name of a library, and no system text tells this program from "
            "others that use it"
        )
    return replace(client, must_begin=head)


def _head(requests: Sequence[Request]) -> str:
    """Return the words of the first line with which the system texts of all requests begin."""
    heads = [one.opening[0][0].lstrip()[:_HEAD] if one.opening else "" for one in requests]
    shared = reduce(lambda one, other: one[: common_prefix(one, other)], heads)
    line, end, _ = shared.partition("\n")
    is_cut = len(shared) == _HEAD or any(len(head) > len(shared) for head in heads)
    return line[: line.rfind(" ") + 1].rstrip() if is_cut and not end else line.rstrip()
