"""What the answer to a chat request needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cacheproxy.translate.common import asked


@dataclass(frozen=True, kw_only=True)
class Asked(asked.Asked):
    """What a chat client asked for.

    ``created``: seconds since 1970 for its answer; ``usage``: whether a stream is to end with the
    usage; ``functions``: whether it knows ``function_call`` alone, the older form of tool calls.
    """

    ANSWER: ClassVar[str] = "chatcmpl-"
    CALL: ClassVar[str] = "call_"
    THEIRS: ClassVar[str] = "msg_"

    created: int = 0
    usage: bool = False
    functions: bool = False
