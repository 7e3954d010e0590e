"""A request asks an upstream for a model by the name that it has there."""

from __future__ import annotations

from cacheproxy.core.document.edits import Edit, EditError, splice, splices_of
from cacheproxy.core.document.pointer import PathError
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport

NAME = "model"
"""What it goes by in logs and pages, as a rule does."""
_WHY = "the name that this upstream has for its model"


def asking_for(request: Request, model: str) -> tuple[Request, RuleReport | None]:
    """Return ``request`` asking for ``model``, and what was edited; as it came if it names none."""
    document = request.document
    named = (request.json or {}).get("model")
    if document is None or not isinstance(named, str) or named == model:
        return request, None
    edit = Edit("/model", model, _WHY)
    try:
        splices = splices_of(document, [edit])
    except (EditError, PathError) as error:  # law 4: a member that is there twice
        return request, RuleReport(NAME, error=str(error))
    return request.with_body(splice(document.body, splices), splices), RuleReport(NAME, (edit,))
