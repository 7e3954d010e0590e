r"""What a server repairs by itself: the prompt that it would have seen without our edits.

Only reuse beyond that is due to us. Two servers remove Claude Code's billing header if a system
text begins with it:

* vLLM (read in 0.32.0) drops its line: ``vllm.renderers.chat_utils``,
  ``_strip_claude_code_billing_header``, whatever is rendered as chat, so Responses, too; on
  messages the block that is this line (``vllm.entrypoints.anthropic.serving``,
  ``_convert_system_message``). Not for role developer.
* llama.cpp writes ``fffff`` over the first ``cch``, if that has five bytes, on messages alone
  (``tools/server/server-chat.cpp``, ``normalize_anthropic_billing_header``, pull request 21793).

Older versions may not: then we claim less than is due. A template that moves late system messages
to the head would also have moved those that we placed as user messages.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.segment import Segment
from cacheproxy.core.placement.placement import Late
from cacheproxy.core.prompt.prompt import Part, Prompt, hoisted, remade
from cacheproxy.core.prompt.segments import Piece, PieceRun, piece_of
from cacheproxy.core.servers.identify import LLAMA_SERVER, VLLM
from cacheproxy.core.servers.profile import Profile

_HEADER = "x-anthropic-billing-header"


class Repair(NamedTuple):
    """What becomes of a beginning of system text that a server mends by itself."""

    text: re.Pattern[str]  #: what it begins with
    becomes: str  #: what the server makes of it


_LINE = Repair(re.compile(rf"{_HEADER}[^\n]*\n?"), "")
CCH = Repair(
    re.compile(rf"({_HEADER}:(?:(?!cch=).)*cch=)[\x00-\x7f]{{5}}(?=;)", re.DOTALL), r"\1fffff"
)


def as_unaided(prompt: Prompt, api: Dialect | None, profile: Profile) -> Prompt:
    """Return the prompt of a request that nobody edited as its server would have seen it.

    ``api``: the dialect it goes upstream in. It is ``prompt`` itself where that is the same.
    Late system messages that the server refuses or drops stay where they are: so nothing is
    claimed for having placed them.
    """
    if profile.placement is not None and profile.placement.late is Late.HOISTED:
        made = hoisted(prompt.made)
        prompt = prompt if made is prompt.made else remade(prompt, made)
    return as_repaired(prompt, api, profile)


def as_repaired(prompt: Prompt, api: Dialect | None, profile: Profile) -> Prompt:
    """Return ``prompt``, edited or not, without what its server mends in it: itself, as a rule."""
    kind = profile.server.kind if profile.server is not None else ""
    if kind == VLLM:
        repair = _LINE
    elif kind == LLAMA_SERVER and api is MESSAGES:
        repair = CCH
    else:
        return prompt
    made, changed = prompt.made, {}
    for name, piece in made.texts.items():
        if piece.part is Part.SYSTEM and any(map(_is_header, piece.segments)):
            changed[name] = _mended(piece, repair)
    if changed:
        made = made._replace(texts=made.texts | changed)
    heads = made.run.pieces[: made.heads]
    if any(_is_header(segment) for piece in heads for segment in piece.segments):
        mended = [_mended(piece, repair) for piece in heads]
        made = made._replace(run=PieceRun().then((*mended, *made.run.pieces[made.heads :])))
    return prompt if made is prompt.made else remade(prompt, made)


def _mended(piece: Piece, repair: Repair) -> Piece:
    segments = [
        segment._replace(text=repair.text.sub(repair.becomes, segment.text, count=1))
        if _is_header(segment)
        else segment
        for segment in piece.segments
    ]
    return piece_of(piece.part, segments)


def _is_header(segment: Segment) -> bool:
    return segment.text.startswith(_HEADER) and segment.role != "developer"
