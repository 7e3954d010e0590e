"""What the answer to a Messages request needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cacheproxy.translate.common import asked


@dataclass(frozen=True, kw_only=True)
class Asked(asked.Asked):
    """``stops``: the client's stop sequences."""

    ANSWER: ClassVar[str] = "msg_"
    CALL: ClassVar[str] = "toolu_"
    THEIRS: ClassVar[str] = "chatcmpl-"

    stops: tuple[str, ...] = ()
