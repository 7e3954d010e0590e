"""How far a server is with a prompt, asked for in what is sent alone.

llama.cpp tells it in the stream if it is asked with ``return_progress``. The prompt is the same, so
this is done behind the translation, of a body whose JSON nobody reads any more; what the server
tells is taken out of the answer again (``PrefillReader``).
"""

from __future__ import annotations

from cacheproxy.core.adapt.adaptation import Adaptation, Edited, Need, Remembered
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request

NAME = "prefill-progress"
"""Under which it is reported that we asked."""
_MEMBER = "return_progress"
_EDIT = Edit(f"/{_MEMBER}", True, "the server is to say how far it is with the prompt", adds=True)
_NEED = Need()


class PrefillProgress(Adaptation):
    """Asks for it, where the server can tell; what is ``remembered`` under ``()`` are its APIs."""

    name = NAME

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need of a stream whose client does not say itself whether it asks."""
        body = request.json or {}
        if request.dialect not in remembered[()]:
            return None
        return _NEED if body.get("stream") is True and _MEMBER not in body else None

    def edits(self, request: Request, need: Need) -> Edited:  # noqa: ARG002
        """Return the request with the member at its end."""
        before, end, after = request.body.rpartition(b"}")
        asks = request.with_body(b'%b,"%b":true%b%b' % (before, _MEMBER.encode(), end, after))
        return Edited(asks, (_EDIT,))
