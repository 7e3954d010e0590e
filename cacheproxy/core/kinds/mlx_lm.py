"""mlx-lm's server. Read and measured: 0.32 (``mlx_lm.server --help``).

It is built on Python's own HTTP server, and its models have no owner. One thread serves all
requests, and searches the disk for the list of models. A request reuses the beginning of another
one's prompt as soon as that was evaluated, and not before.
"""

from __future__ import annotations

from cacheproxy.core.kinds.kind import FlagAdvice, Recognition, Reuse, ServerKind, Settings
from cacheproxy.core.kinds.profile import Reporting, Shares
from cacheproxy.core.kinds.status import Answers


def _is_at(answers: Answers) -> bool:
    is_python = answers.software.startswith("BaseHTTP")
    return is_python and set(answers.model) == {"id", "object", "created"}


MLX_LM = ServerKind(
    "mlx-lm",
    port=8080,
    recognition=Recognition(is_at=_is_at),
    reuse=Reuse(reporting=Reporting.ALWAYS, shares=Shares.READ),
    settings=Settings(
        room=(
            FlagAdvice(
                "--prompt-cache-size 20", "the number of prompts that are kept; 10 by default"
            ),
            FlagAdvice("--prompt-cache-bytes N", "a larger limit, if one was set"),
        ),
        kwargs="--chat-template-args '{}'",
        template="--chat-template TEXT",
    ),
)
