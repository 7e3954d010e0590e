"""Plain text completion: OpenAI's legacy ``/v1/completions``, llama-server's ``/completion``.

Sources: OpenAI's API reference, llama.cpp's ``tools/server/README.md``.
"""

from __future__ import annotations

from cacheproxy.core.dialects.chat import has_finished
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling

COMPLETION = Dialect(
    name="completion",
    path="/v1/completions",
    endpoints=(
        Endpoint("/completions", Purpose.TEXT),
        Endpoint("/completion", Purpose.TEXT, "llama.cpp"),
        Endpoint("/embedding", Purpose.EMBEDDINGS, "llama.cpp"),
    ),
    items="",
    # One text by all authors: no part of it is known to be the client's own.
    texts=("prompt",),
    limits=("n_predict", "max_tokens"),
    as_chat=lambda _: None,
    # ``tokens_cached`` counts the slot's tokens afterwards, prompt and answer (server-context.cpp:
    # ``n_tokens_cached = slot.prompt.n_tokens()``): reused tokens are in ``timings`` alone.
    usage=(
        UsageSpelling(
            signs=("tokens_evaluated",),
            prompt=("tokens_evaluated",),
            output=("tokens_predicted",),
            hint=b'"tokens_evaluated"',
        ),
    ),
    end=EndMarks(
        lambda message: message.get("stop") is True or has_finished(message),
        done=b"[DONE]",
        keys=((b'"finish_reason"', b"null"), (b'"stop"', b"false")),
    ),
)
"""``/v1/completions``, ``/completion``."""
