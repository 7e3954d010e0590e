"""LM Studio, by its documentation ("Idle TTL and Auto-Evict")."""

from __future__ import annotations

from cacheproxy.core.kinds.kind import FlagAdvice, Recognition, Reuse, ServerKind, Settings
from cacheproxy.core.kinds.profile import Reporting

LM_STUDIO = ServerKind(
    "LM Studio",
    port=1234,
    recognition=Recognition(owner="organization_owner"),
    reuse=Reuse(reporting=Reporting.NEVER),
    settings=Settings(
        room=(
            FlagAdvice(
                "a longer Idle TTL",
                "a model loaded on request is unloaded after 60 idle minutes, and when another one "
                "is asked for (Auto-Evict, in Server Settings)",
            ),
        ),
        context="the model's context length, where it is loaded,",
        models="Auto-Evict off, in Server Settings",
    ),
)
