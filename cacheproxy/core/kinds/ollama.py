"""Ollama, by its ``docs/api.md`` and ``docs/faq.mdx``.

Its answers have ``prompt_eval_cached_count`` since 0.33.3. ``/api/ps`` lists the loaded models,
each with the context that it was loaded with: not the longest one that the model allows.
"""

from __future__ import annotations

from dataclasses import replace

from cacheproxy.core.kinds.kind import (
    FlagAdvice,
    Recognition,
    Reuse,
    ServerKind,
    Serving,
    Settings,
    StatusReading,
)
from cacheproxy.core.kinds.status import Answers, Look, number, only

_VERSION, RUNNING = "/api/version", "/api/ps"


def _look(look: Look, answers: Answers) -> Look:
    """Return ``look`` with the context of the loaded model; None if several are loaded."""
    loaded = only(answers.pages.get(RUNNING), "models")
    return replace(look, context=number(loaded.get("context_length")))


OLLAMA = ServerKind(
    "Ollama",
    port=11434,
    recognition=Recognition(
        mark=(_VERSION, "version"),
        pages=(_VERSION,),
        more=(RUNNING,),
        version_page=_VERSION,
        lasting=(_VERSION,),
    ),
    reading=StatusReading(
        look=_look,
        memory=lambda look, before: replace(before, context=look.context or before.context),
    ),
    reuse=Reuse(since=(0, 33, 3)),
    serving=Serving(loads_models=True),
    settings=Settings(
        room=(
            FlagAdvice(
                "OLLAMA_KEEP_ALIVE=-1",
                "without it Ollama unloads a model after 5 idle minutes, and its cache with it",
            ),
            FlagAdvice(
                "OLLAMA_NUM_PARALLEL=2",
                "room for one more conversation; each takes the memory of a whole context",
            ),
        ),
        context="OLLAMA_CONTEXT_LENGTH=N, or num_ctx in the Modelfile,",
        models="OLLAMA_MAX_LOADED_MODELS=2",
    ),
)
