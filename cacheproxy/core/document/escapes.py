"""Maps characters of a decoded JSON string to their places in its literal."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")


def offsets_in_string(literal: str, positions: list[int]) -> list[int]:
    r"""Map ascending character ``positions`` of a decoded string into its JSON ``literal``.

    ``literal`` is the text between the quotes. An escape counts as one character, a pair of
    surrogate escapes (``\ud83d\ude00``) as one too (RFC 8259, section 7).
    """
    if "\\" not in literal:
        return positions
    mapped: list[int] = []
    wanted = iter(positions)
    want = next(wanted, None)
    raw = decoded = 0
    escapes = _ESCAPE.finditer(literal)
    pending = next(escapes, None)
    while want is not None:
        plain = (pending.start() if pending else len(literal)) - raw
        if pending is None or want <= decoded + plain:
            mapped.append(raw + want - decoded)
            want = next(wanted, None)
            continue
        raw, decoded = pending.end(), decoded + plain + 1
        following = next(escapes, None)
        if following is not None and _is_pair(pending, following):
            raw = following.end()
            following = next(escapes, None)
        pending = following
    return mapped


def _is_pair(first: re.Match[str], second: re.Match[str]) -> bool:
    if first.end() != second.start() or not first[1] or not second[1]:
        return False
    return 0xD800 <= int(first[1], 16) < 0xDC00 <= int(second[1], 16) < 0xE000
