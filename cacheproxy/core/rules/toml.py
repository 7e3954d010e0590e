"""A rule as a table of the config file."""

from __future__ import annotations

from cacheproxy.core.rules.rule import Rule


def rule_toml(rule: Rule) -> str:
    """Return ``rule`` as a ``[[rule]]`` table; what is as usual is left out."""
    where = rule.where if isinstance(rule.where, str) else rule.where[0]
    places = (
        _quoted(where)
        if isinstance(rule.where, str) or len(rule.where) == 1
        else f"[{', '.join(_quoted(place) for place in rule.where)}]"
    )
    lines = ["[[rule]]", f"name = {_quoted(rule.name)}", f"where = {places}"]
    lines.append(f"pattern = {_quoted(rule.pattern)}")
    lines.append("pin = true" if rule.pin else f"replacement = {_quoted(rule.replacement or '')}")
    if rule.note is not None:
        lines.append(f"note = {_quoted(rule.note)}")
    if rule.why:
        lines.append(f"why = {_quoted(rule.why)}")
    if rule.client is not None:
        lines.append(f"client = {_quoted(rule.client.name)}")
        if rule.client.must_begin:
            lines.append(f"head = {_quoted(rule.client.must_begin)}")
    if not rule.default:
        lines.append("default = false")
    if rule.literals:
        lines.append(f"literals = [{', '.join(_quoted(text) for text in rule.literals)}]")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """``text`` as a TOML string: a literal one, readable for patterns, where that can be."""
    if "'" not in text and text.isprintable():
        return f"'{text}'" if "\\" in text or '"' in text else f'"{text}"'
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else _escape(c) for c in escaped) + '"'


def _escape(character: str) -> str:
    if character in "\n\t":
        return "\\n" if character == "\n" else "\\t"
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
