"""Which conversation a request belongs to."""

import pytest

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import request
from tests import transcript


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": one} for one in texts]


BODY = {"prompt_cache_key": "key", "metadata": {"user_id": "u_session_s"}}


@pytest.mark.parametrize(
    ("headers", "body", "identity"),
    [
        # what a client says of itself in a header is taken, whatever the body says
        *(
            ({name: "abc"}, BODY, "abc")
            for name in ("X-Claude-Code-Session-Id", "session-id", "Session_Id", "x-session-id")
        ),
        *(({name: "abc"}, BODY, "abc") for name in ("X-Session-Affinity", "x-any-session-id")),
        ({"x-session-id": ""}, BODY, "key"),
        # where several are sent, the client's own counts: a router between may have added others
        ({"x-session-id": "x", "x-a-session-id": "a", "session-id": "s"}, {}, "a"),
        ({"x-session-id": "x", "session-id": "s"}, {}, "s"),
        # a subagent shares its parent's session header, and says so in another
        ({"session-id": "abc", "x-claude-code-agent-id": "helper"}, {}, "abc:helper"),
        ({"session-id": "abc", "X-Any-Agent-Id": "helper"}, {}, "abc:helper"),
        # then prompt_cache_key, then the session part of metadata.user_id in both its forms
        ({}, BODY, "key"),
        ({}, BODY | {"prompt_cache_key": ""}, "s"),
        ({}, {"metadata": {"user_id": "user_ab_account__session_1-2-3"}}, "1-2-3"),
        ({}, {"metadata": {"user_id": '{"device_id": "d", "session_id": "1-2"}'}}, "1-2"),
    ],
)
def test_a_session_is_named_by_headers_or_body(headers, body, identity):
    assert session_of(request(body, headers=headers)).id == identity


@pytest.mark.parametrize(
    "body",
    [
        *({"prompt_cache_key": 5}, {"prompt_cache_key": None, "metadata": None}, {}),
        {"metadata": "x_session_y"},
        *({"metadata": {"user_id": user}} for user in (5, "me", "x_session_", "5", "[]", "{}")),
        {"metadata": {"user_id": '{"session_id": 5}'}},
        {"metadata": {"user_id": '{"session_id": ""}'}},
        *({"metadata": {"user_id": user}} for user in ("[" * 100_000, "\ud83d")),
        {"system": 5, "messages": "text", "input": {"a": "b"}},
        {"messages": [None, {"role": "user"}, {"role": "user", "content": 5}]},
        *(b"", b"no json", b"[]", b"\xff"),  # one for all such requests of a client
    ],
)
def test_otherwise_it_is_a_hash(body):
    """Other shapes are no session, and no error."""
    assert session_of(request(body, headers={"session-id": "s"})).id == "s"
    identity = session_of(request(body)).id
    assert len(identity) == 16
    assert int(identity, 16) >= 0


def test_captures_are_one_session_by_their_prompts_too(captured):
    """Without session headers, as behind a gateway that strips them, the hash does as well."""
    names = {
        "claude-resume", "claude-datechange", "claude-toolsearch", "claude_2.1.114-localmodel",
        "claude_2.1.174-gitchange", "cline-datechange", "openclaw-datechange",
        "openclaw-completions", "openclaw-anthropic", "openclaw-responses", "pi-datechange",
    }  # fmt: skip
    for name in names:
        bare = [
            request(
                {key: value for key, value in one.json.items() if key != "metadata"},
                headers={"user-agent": one.header("user-agent") or ""},
            )
            for one in captured[name]
        ]
        assert len({session_of(one).id for one in bare}) == 1, name


def test_all_that_is_said():
    transcript.holds("session.txt", globals())
