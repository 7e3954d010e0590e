"""What a server repairs by itself: the prompt that it would have seen without our edits.

Only reuse beyond that is due to us. Some servers remove what a system text begins with, if they
know it (see ``ServerKind.repairs``).

Older versions may not: then we claim less than is due. A template that moves late system messages
to the head would also have moved those that we placed as user messages.
"""

from __future__ import annotations

from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.placement.placement import Late
from cacheproxy.core.prompt.prompt import Prompt, hoisted, remade
from cacheproxy.core.prompt.segments import Piece, PieceRun, piece_of
from cacheproxy.core.servers.kind import Repair
from cacheproxy.core.servers.kinds import kind_of
from cacheproxy.core.servers.profile import Profile


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
    repair = kind_of(profile).repair_of(api)
    if repair is None:
        return prompt
    made, changed = prompt.made, {}
    for name, piece in made.texts.items():
        if piece.part is Part.SYSTEM and any(
            _begins(segment, repair) for segment in piece.segments
        ):
            changed[name] = _mended(piece, repair)
    if changed:
        made = made._replace(texts=made.texts | changed)
    heads = made.run.pieces[: made.heads]
    if any(_begins(segment, repair) for piece in heads for segment in piece.segments):
        mended = [_mended(piece, repair) for piece in heads]
        made = made._replace(run=PieceRun().then((*mended, *made.run.pieces[made.heads :])))
    return prompt if made is prompt.made else remade(prompt, made)


def _mended(piece: Piece, repair: Repair) -> Piece:
    segments = [
        segment._replace(text=repair.text.sub(repair.becomes, segment.text, count=1))
        if _begins(segment, repair)
        else segment
        for segment in piece.segments
    ]
    return piece_of(piece.part, segments)


def _begins(segment: Segment, repair: Repair) -> bool:
    return segment.role != "developer" and repair.text.match(segment.text) is not None
