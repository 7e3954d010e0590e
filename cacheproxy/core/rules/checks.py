"""What rules of every kind have in common, and its checks."""

from __future__ import annotations

import re
from typing import Any

from cacheproxy.core.prompt.client import Client

RULE_FIELDS = ("name", "why", "default", "literals", "needs_previous", "edits")
"""What every rule has."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MOST_NAME = 100
"""Characters of a rule's name, which stands in log lines."""


class RuleError(ValueError):
    """A rule that cannot work: bad name, pattern, place or replacement."""


def check_fields(rule: Any, *flags: str) -> None:
    """Raise RuleError unless the fields that rules share are right; ``flags``: the booleans."""
    name = rule.name
    if type(name) is not str or len(name) > MOST_NAME or not _NAME.fullmatch(name):
        raise RuleError(f"rule {_shown(name)}: a name must be lower-case words joined by '-'")
    literals = rule.literals  # JSON may spell others than ASCII with escapes
    if not are_texts(literals) or not all(text and text.isascii() for text in literals):
        raise RuleError(f"rule {name!r}: 'literals' must be a list of plain ASCII texts")
    for field, kind in (("why", str), *((flag, bool) for flag in flags)):
        if type(getattr(rule, field)) is not kind:
            raise RuleError(f"rule {name!r}: '{field}' must be of type {kind.__name__}")
    if rule.client is not None and type(rule.client) is not Client:
        raise RuleError(f"rule {name!r}: 'client' must be a Client")


def are_texts(values: Any) -> bool:
    """Whether ``values`` is a list or tuple of nothing but texts."""
    return isinstance(values, tuple | list) and all(type(text) is str for text in values)


def _shown(name: Any) -> str:
    """A name that is none, to be shown in an error: its text is another's, and may be long."""
    return repr(name[:MOST_NAME]) if type(name) is str else f"of type {type(name).__name__}"


def on_one_line(error: Exception) -> str:
    """What ``error`` says on one line: a pattern it quotes may have several."""
    return " ".join(str(error).split())
