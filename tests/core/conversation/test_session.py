"""Which conversation a request belongs to."""

import pytest

from cacheproxy.core.conversation.session import Session, parent_of, request_label, session_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import request
from tests.core.conversation.proxied import by_turns

CLAUDE = {"User-Agent": "claude-cli/2.1.329 (external, sdk-cli)"}


def said(system: object, *messages: object, headers: dict | None = None, **more: object) -> Request:
    body = {"system": system, "messages": by_turns(messages)} | more
    return request(body, headers=headers)


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": one} for one in texts]


@pytest.mark.parametrize(
    ("answer", "session"),
    [
        ("mine/42", Session("mine", "42")),
        ("mine/4/2", Session("mine", "4/2")),
        ("42", Session("claude-cli", "42")),
        ("mine/", Session("claude-cli", "mine/")),
        ("/42", Session("claude-cli", "/42")),
    ],
)
def test_a_plugins_answer_wins(answer, session):
    """client/id, or an id alone; headers and body are not asked."""
    asked = request("no json", headers=CLAUDE | {"X-Session-Id": "other"})
    assert session_of(asked, answer) == session


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
    ("headers", "parent"),
    [
        ({"session-id": "s"}, None),
        ({"session-id": "s", "x-any-agent-id": "t"}, Session("client", "s")),
        ({"session-id": "s", "x-any-agent-id": ""}, None),
        ({"x-session-id": "s", "x-parent-session-id": "p"}, Session("client", "p")),
        ({"x-parent-session-id": "p"}, Session("client", "p")),
    ],
)
def test_a_subagent_knows_for_whom_it_works(headers, parent):
    """Its parent's id is never its own."""
    asked = request({"messages": []}, headers=headers)
    session = session_of(asked)
    assert parent_of(asked, session) == parent
    assert session.id != "p"


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


@pytest.mark.parametrize(
    ("now", "later"),
    [
        ("Sat Nov 21 2026", "Sun Dec 6 2026"),
        ("Saturday, November 21, 2026", "Tuesday, December 1, 2026"),
        ("2026-11-21", "2027-01-02"),
        ("11/21/2026", "1/2/2027"),
        ("[Wed 2026-02-18 20:48 UTC]", "[Thu 2026-02-19 07:01 UTC]"),
        ("11:59 am", "1:02 PM"),
        ("2026-11-21T11:59:59.123Z", "2026-11-22T00:00:00Z"),
        ("1732147200000", "1732147201234"),
        ("cch=9f3bc;", "cch=2ca14;"),
        ("cc_version=2.1.329.9a3;", "cc_version=2.1.329.fab;"),
        ("fefec927-67ec-4241-a79e-0123456789ab", "0b6d3c1e-aaaa-4bbb-8ccc-dddddddddddd"),
        ("3 files, 17 lines", "4 files, 5 lines"),
    ],
)
def test_hash_does_not_follow_clocks_and_nonces(now, later):
    """Dates, times, counters and nonces in system or user text keep the session."""
    one, other = (f"In /home/a/project. ({when}) Go." for when in (now, later))
    assert session_of(said(one, "hello")) == session_of(said(other, "hello"))
    assert session_of(said("s", one)) == session_of(said("s", other))
    assert session_of(said(text(one), text(one))) == session_of(said(text(other), text(other)))


FIRST, IN_BLOCKS = said("You help.", "fix the tests"), said("You help.", text("fix the tests"))
WRAPPED = "<system-reminder>\nThe folder has files.\n</system-reminder>"
HEAD = "You are an agent. " * 300
PASTE = "a long line of a log file\n" * 10_000
LATE = {"messages": [*said("", "fix the tests", "hi").json["messages"], {"role": "system"}]}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (FIRST, said("You help.", "fix the docs"), False),
        (FIRST, said("You translate.", "fix the tests"), False),
        (FIRST, said("You help.", "fix the tests", headers=CLAUDE), False),
        (said("ab", "c"), said("a", "bc"), False),
        # later messages
        (FIRST, said("You help.", "fix the tests", "hi", "and now?"), True),
        (FIRST, said("You help.", "fix the tests", text("hi"), text("and now?")), True),
        (FIRST, said("You help.", **LATE), True),
        (IN_BLOCKS, said("You help.", text("fix the tests"), "hi", "a string"), True),
        (IN_BLOCKS, said("You help.", text("fix the tests"), "hi", text("more")), True),
        # the block that clients wrap around every first message; what was typed comes after it
        (said("s", text(WRAPPED, "fix")), said("s", text(WRAPPED + " And more.", "fix")), True),
        (said("s", text(WRAPPED, "fix")), said("s", text("fix")), True),
        (said("s", text(WRAPPED, "fix it")), said("s", text(WRAPPED, "fix that")), False),
        (said("s", text(WRAPPED)), said("s", text("<other>")), False),
        # what stands far down in the system text: git status, lists of files
        (said(HEAD + "git: (clean)", "hi"), said(HEAD + "git: M a.py", "hi"), True),
        # of a paste both ends count
        (said("s", f"fix {PASTE} now"), said("s", f"fix {PASTE} now", "done"), True),
        (said("s", f"fix {PASTE} now"), said("s", f"read {PASTE} now"), False),
        (said("s", f"fix {PASTE} now"), said("s", f"fix {PASTE} later"), False),
    ],
)
def test_hash_follows_client_system_text_and_first_user_message(one, other, is_same):
    assert (session_of(one) == session_of(other)) is is_same


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("fefec927-67ec-4f0f-8000-123456789abc", "x/fefe"),
        ("0123456789abcdef", "x/0123"),
        ("0123456789abcdef-2", "x/0123-2"),
        ("ses_1f0c2ab4cffeoQpyR360JUG8", "x/JUG8"),
        ("019ac3f1-67ec-7f0f-8000-123456789abc", "x/9abc"),
        ("2026_goose_1", "x/2026_goose_1"),
        ("a-b/c\nd e", "x/a-bcde"),
        ("--", "x/--"),
        ("fefec927-67ec-4f0f-8000-123456789abc:0a1b2c3d4e5f6789", "x/fefe:0a1b"),
    ],
)
def test_label_is_short_and_shows_no_prompt(name, label):
    """Client and what tells the id apart, for the log; a subagent behind whom it works for."""
    assert Session("x", name).label == label


@pytest.mark.parametrize(
    ("session", "turn", "label"),
    [
        (Session("claude", "0123456789abcdef"), 14, "claude/0123 #14"),
        (Session("claude", "0123456789abcdef"), 0, "claude/0123"),
        (None, 0, "codex"),
        (
            Session("sk-ant-api03-0123456789abcdefghij", "one"),
            1,
            "sk-redacted-redacted-redacted-red/one #1",
        ),
    ],
)
def test_a_request_has_a_name_for_log_lines_without_a_key(session, turn, label):
    """As far as it is known: the turn's number comes last."""
    sent = Request("POST", "/v1/messages", ((b"User-Agent", b"codex/1.0"),))
    assert request_label(sent, session, turn) == label


def test_labels_of_ids_that_begin_or_end_alike_are_told_apart():
    ids = [f"{one} of 2026-11-28 {other}" for one in ("build", "test") for other in range(50)]
    assert len({Session("x", one).label for one in ids}) > 97


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
