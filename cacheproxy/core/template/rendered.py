"""The text of a conversation that a server has rendered for us.

llama-server's POST ``/apply-template`` answers with a text, vLLM's POST ``/tokenize`` (with
``return_token_strs``) with the tokens as its tokenizer keeps them: byte-level BPE spells each byte
as a character of its own (``Ġ`` a space, ``Ċ`` a line's end: GPT-2's ``bytes_to_unicode``),
SentencePiece a space as ``▁`` and odd bytes as ``<0x0A>``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cacheproxy.core.document.parsed import parsed

_LARGEST = 64 << 10
"""Bytes of a rendered dozen of words; what is larger is none."""
_BYTES_IN_HEX = re.compile(r"(?:<0x[0-9A-F]{2}>)+")
_SPACE, _BYTE_SPACE, _BYTE_LINE = "\u2581", "\u0120", "\u010a"


def text_of(answer: Any) -> str | None:
    """Return the rendered text in the JSON answer of either server, None if there is none."""
    if not isinstance(answer, dict):
        return None
    text = answer.get("prompt")
    if isinstance(text, str):
        return text
    pieces = answer.get("token_strs")
    if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces):
        return _joined(pieces)
    return None


def read(body: bytes, largest: int = _LARGEST) -> str | None:
    """Return the rendered text in an answer's ``body``, None where it is none, or too large."""
    return text_of(parsed(body)) if len(body) <= largest else None


def _joined(pieces: Sequence[str]) -> str:
    """Return the text of tokens, in whichever of the two ways they are spelled.

    What stands for a space more often tells which: DeepSeek's marks, spelled in bytes, have the
    other one's in their names.
    """
    text = "".join(pieces)
    in_bytes = text.count(_BYTE_SPACE) + text.count(_BYTE_LINE)
    if text.count(_SPACE) > in_bytes:
        return _BYTES_IN_HEX.sub(_of_hex, text.replace(_SPACE, " "))
    if not in_bytes:
        return text
    spelled = bytearray()
    for character in text:
        byte = _BYTES.get(character)
        spelled += character.encode("utf-8", "replace") if byte is None else bytes((byte,))
    return spelled.decode("utf-8", "replace")


def _of_hex(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("<0x", "").replace(">", "")).decode("utf-8", "replace")


def _spell_bytes() -> tuple[str, ...]:
    """Bytes that can be seen stand for themselves, the others for characters from U+0100 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in seen]
    moved = {byte: 0x100 + number for number, byte in enumerate(others)}
    return tuple(chr(moved.get(byte, byte)) for byte in range(0x100))


BYTE_SPELLING = _spell_bytes()
"""GPT-2's printable characters, one for each byte."""
_BYTES = {character: byte for byte, character in enumerate(BYTE_SPELLING)}
