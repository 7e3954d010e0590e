"""Progress of a prompt's evaluation, requested in the body that goes to the server.

llama.cpp reports it in the stream if ``return_progress`` is set. That does not change the prompt,
so the member is added after the translation, to a body whose JSON is not read any more; the reports
are removed from the answer again (``PrefillReader``).
"""

from __future__ import annotations

from cacheproxy.core.adapt.adaptation import Adaptation, Edited, Need, Remembered
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request

NAME = "prefill-progress"
"""Name under which the added member is reported."""
_MEMBER = "return_progress"
_EDIT = Edit(f"/{_MEMBER}", True, "the server is to say how far it is with the prompt", adds=True)
_NEED = Need()


class PrefillProgress(Adaptation):
    """The adaptation that requests progress; its fact under ``()``: the APIs that report it."""

    name = NAME

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need of a streaming request of such an API without the member, else None."""
        body = request.json or {}
        if request.dialect not in remembered[()]:
            return None
        return _NEED if body.get("stream") is True and _MEMBER not in body else None

    def edits(self, request: Request, need: Need) -> Edited:  # noqa: ARG002
        """Return ``request`` with ``return_progress`` at its end."""
        before, end, after = request.body.rpartition(b"}")
        asks = request.with_body(b'%b,"%b":true%b%b' % (before, _MEMBER.encode(), end, after))
        return Edited(asks, (_EDIT,))
