"""``transformers serve``. Measured: transformers 5.19. It has no prompt cache."""

from __future__ import annotations

from cacheproxy.core.kinds.kind import Recognition, Reuse, ServerKind
from cacheproxy.core.kinds.profile import Reporting
from cacheproxy.core.kinds.status import Answers

LOADING = "/load_model"
"""The page that loads a model: it answers 405 to GET."""
_UVICORN = "uvicorn"
"""Beginning of the header Server of FastAPI's usual HTTP server."""


def _may_be(answers: Answers) -> bool:
    return answers.software.startswith(_UVICORN)


TRANSFORMERS = ServerKind(
    "transformers serve",
    port=8000,
    recognition=Recognition(
        is_at=lambda answers: answers.statuses.get(LOADING) == 405,
        probes=(LOADING,),
        may_be=_may_be,
    ),
    reuse=Reuse(reporting=Reporting.NEVER, is_never=True),
)
