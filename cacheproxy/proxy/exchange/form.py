"""The form in which a client wants its answer, and the transforms that produce it."""

from __future__ import annotations

from functools import partial, reduce

from cacheproxy.core.dialects.dialects import spoken
from cacheproxy.core.http1.content_coding import codings_of
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.http1.reshape import (
    AsStream,
    AsWhole,
    Chain,
    EachEvent,
    Ended,
    Gathered,
    Recognised,
    Transform,
    Unpacked,
)
from cacheproxy.core.http1.response_reader import ResponseError, ResponseHead
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.translation.translating import Translation
from cacheproxy.translate.answer import WholeAnswer
from cacheproxy.translate.reading import TranslationError


def wants_stream(request: Request) -> bool:
    """Whether the answer to ``request`` is to be a stream."""
    return (request.json or {}).get("stream") is True


def asks_otherwise(original: Request, received: Request) -> bool:
    """Whether the answer to the request ``original`` has another form than ``received`` wants."""
    if wants_stream(original) != wants_stream(received):
        return True
    options = ((one.json or {}).get("stream_options") for one in (original, received))
    return wants_stream(received) and next(options) != next(options)


def translated(translation: Translation, status: int, body: bytes) -> WholeAnswer:
    """Return the whole answer ``body`` in the client's dialect; raises ResponseError."""
    try:
        return translation.answer(status, body)
    except TranslationError as error:
        raise ResponseError(str(error)) from None


def reshaping(
    head: ResponseHead,
    received: Request,
    translation: Translation | None,
    *,
    is_other: bool,
    is_ours: bool,
) -> Transform:
    """Return the transform from an answer to the form that the client asked for, or has a head of.

    ``is_other``: the answer was requested in another form. ``is_ours``: the response head is ours,
    so that the body counts as whole only if the stream has its dialect's end.
    """
    codings = codings_of(head.headers)
    dialect, body = spoken(received.path), received.json or {}
    events: list[Transform] = []
    whole: list[Transform] = []
    if translation is not None:
        events.append(translation.stream())
        answer = partial(translated, translation, head.status)
        whole.append(Gathered(lambda body: answer(body).body))
    if wants_stream(received):
        whole.append(AsStream(dialect, body))
        if is_other and dialect.unasked is not None:
            events.append(EachEvent(partial(dialect.unasked, body)))
    else:
        events.append(AsWhole(dialect))
    steps: list[Transform] = [Unpacked(codings)] if codings else []
    steps.append(Recognised(_chained(events), _chained(whole)))
    ending = ending_of(received.path)
    if is_ours and ending is not None:
        steps.append(Ended(ending))
    return reduce(Chain, steps)


def _chained(steps: list[Transform]) -> Transform | None:
    return reduce(Chain, steps) if steps else None
