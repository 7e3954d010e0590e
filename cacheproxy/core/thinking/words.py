"""What is done with earlier reasoning, in words for people."""

from __future__ import annotations

from cacheproxy.core.servers.kind import as_object
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.thinking.keeping import YES, may_keep

_WHOSE = "conversations keep it if the client sends it back"
_OFF = "the model reads its earlier reasoning (--keep-thinking no leaves it out)"


def says(setting: str, profile: Profile) -> str:
    """Return one line on what ``--keep-thinking setting`` does at this server; "" for nothing."""
    if not may_keep(setting, profile):
        return ""
    whose = "all conversations keep it" if setting == YES else _WHOSE
    word = profile.thoughts.asked_by
    if word is None:
        return f"keeps the thinking of earlier turns: {whose}; {_OFF}"
    asked = f"asked for by chat_template_kwargs {as_object(word)}"
    return f"drops the thinking of earlier turns unless asked: {whose}, {asked}; {_OFF}"
