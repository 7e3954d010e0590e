"""The exact text of tool-call arguments, as the model wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from typing import Any

from cacheproxy.core.document.compare import alike


class Spellings:
    """The arguments of tool calls, by the call's id.

    Anthropic clients keep a call's ``input`` as a value and spell it anew when they send it back:
    other spaces, other escapes, ``1`` for ``1.0``. A server that reads its own text again reuses
    the prompt; one that reads another does not.

    ``known``: what is remembered, of all conversations; ``keep``: remembers one more, as that of
    one conversation. Safe to use from several threads.
    """

    def __init__(
        self,
        known: MutableMapping[str, str] | None = None,
        keep: Callable[[str, str], None] | None = None,
    ) -> None:
        self._known: MutableMapping[str, str] = {} if known is None else known
        self._keep = self._known.__setitem__ if keep is None else keep

    def keep(self, call: str, text: str) -> None:
        """Remember that the call with the id ``call`` has the arguments ``text``, a JSON object."""
        self._keep(call, text)

    def find(self, call: str, text: str, value: Any) -> str:
        """Return the arguments as the model wrote them, else ``text``.

        ``text``: how the client spells them; ``value``: what that means. Only a text that means
        the same is put in its place: a client may have changed the call.
        """
        kept = self._known.get(call)
        if kept is None or kept == text:
            return text
        try:
            same = alike(json.loads(kept), value)
        except (ValueError, RecursionError):
            return text
        return kept if same else text
