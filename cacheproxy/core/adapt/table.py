"""The table of all adaptations, in the order in which they edit a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from cacheproxy.core.adapt import late, model, progress, thinking
from cacheproxy.core.adapt.adaptation import Adaptation
from cacheproxy.core.adapt.calls import Calls
from cacheproxy.core.adapt.fields import RefusedFields
from cacheproxy.core.adapt.limits import AnswerLimit
from cacheproxy.core.adapt.parts import UnreadableParts
from cacheproxy.core.adapt.served import ServedModel
from cacheproxy.core.adapt.server import KnownServer
from cacheproxy.core.adapt.tools import Tools
from cacheproxy.core.conversation.store import Store

MENDING: tuple[Adaptation, ...] = (
    *(AnswerLimit(), Tools(), Calls(), UnreadableParts(), RefusedFields()),
)
"""Adaptations whose only knowledge of a server comes from its refusals (``--mend``)."""
NAMES = (
    *(model.NAME, thinking.NAME, *(one.name for one in MENDING), ServedModel.name),
    *(late.NAME, progress.NAME),
)
"""Names of the adaptations, for ``--disable``."""


def adaptations(
    server: KnownServer,
    store: Store,
    in_thread: Callable[..., Awaitable[None]],
    *,
    placement: str,
    keep_thinking: str,
    mending: Sequence[Adaptation],
) -> list[Adaptation]:
    """Return the adaptations for a server of the user's own; the model's name comes before them.

    ``placement``, ``keep_thinking``: the settings. ``mending``: MENDING, or a part of it.
    """
    return [
        thinking.KeptThinking(keep_thinking, server, store, in_thread),
        *mending,
        *((ServedModel(store),) if mending else ()),
        late.LateMessages(placement, server),
    ]
