"""The settings that are advised are those that the manual lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cacheproxy.core.servers.kind import as_object
from cacheproxy.core.servers.kinds import BUILT_IN
from cacheproxy.core.servers.llama_cpp import LLAMA_CPP, MORE_SLOTS, RAM_CACHE, SIMILARITY

PAGE = (Path(__file__).parents[3] / "docs" / "servers.md").read_text(encoding="utf-8")
_FLAG = re.compile(r"--[a-z-]+|\b[A-Z]+_[A-Z_]+\b")


def told(server):
    settings = [*server.room, *server.points, *filter(None, [server.caching])]
    if server is LLAMA_CPP:
        settings += [RAM_CACHE, SIMILARITY, MORE_SLOTS]
    return " ".join(
        [setting.flag for setting in settings]
        + [server.context, server.flag, server.kwargs, server.models]
    )


@pytest.mark.parametrize("server", BUILT_IN, ids=lambda server: server.name)
def test_each_setting_stands_in_the_manual(server):
    """Beside the server's name."""
    assert server.name in PAGE
    for flag in _FLAG.findall(told(server)):
        assert flag in PAGE, flag


def test_a_member_of_chat_template_kwargs_is_json():
    member = ("clear_thinking", False)
    assert as_object(member) == '{"clear_thinking": false}'
    assert LLAMA_CPP.with_kwargs(member) == "--chat-template-kwargs '{\"clear_thinking\": false}'"
