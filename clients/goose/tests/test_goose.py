"""goose's sessions, and its turn context; its date: tests/test_client_pins.py."""

import json

import pytest
from cacheproxy_goose import RULES, cacheproxy_session

from cacheproxy.testing import assert_idempotent, conversation, normalized, parted, request

CHAT = "/v1/chat/completions"
SYSTEM = "You are a general-purpose AI agent called goose, created by AAIF."


def test_the_session_is_that_of_the_header():
    """None without it: then the prompt tells, as for any client."""
    for headers, session in (({"agent-session-id": "20261122_7"}, "20261122_7"), ({}, None)):
        turn = conversation(CHAT, "You are.", "hello", headers=headers)
        assert cacheproxy_session(turn) == session


def context(count, parts="", compaction="<compaction>{}</compaction>"):
    lines = [
        f"<current-time>2026-11-23 14:{count:02d}:00</current-time>",
        "<working-directory>/home/me/x</working-directory>",
        compaction.format(f"~{100 - 3 * count}k tokens remaining"),
        f"<turn-budget>{20 + count}/40 used</turn-budget>",
        *([f"\n{parts}"] if parts else []),
    ]
    return "\n".join(["<turn-context>", *lines, "</turn-context>\n"])


def nine(moves, blocks, **changes):
    """Nine requests in three turns; the block ``moves`` with the user, or stays where it was."""
    said = [{"role": "user", "content": "fix it"}]
    for count in range(9):
        sent = [{"role": "system", "content": SYSTEM}, *map(dict, said)]
        users = [one for one in sent if one["role"] == "user"]
        where, block = users[-1 if moves else 0], context(count, **changes)
        for one in users if blocks else ():
            one["content"] = [{"type": "text", "text": one["content"]}]
        text = where["content"]
        where["content"] = [{"type": "text", "text": block}, *text] if blocks else block + text
        yield request({"model": "m", "messages": sent}, CHAT)
        if count in (3, 6):
            said += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "next"}]
        else:
            call = {"name": "shell", "arguments": "{}"}
            calls = [{"id": f"c{count}", "type": "function", "function": call}]
            said += [
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": f"c{count}", "content": "ok"},
            ]


def users_of(turn):
    return [json.dumps(one["content"]) for one in turn.json["messages"] if one["role"] == "user"]


@pytest.mark.parametrize("compaction", ["<compaction>{}</compaction>", "{}"])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_nine_requests_extend_each_other_and_the_newest_message_has_what_is_true(
    moves, blocks, compaction
):
    """Whether the block moves with the user, or stays; what is current when the user speaks."""
    turns = list(nine(moves, blocks, compaction=compaction))
    assert len(parted(turns)) >= 6
    assert parted(turns, RULES) == {}
    previous = None
    for count, turn in enumerate(turns):
        assert_idempotent(RULES, turn, previous)
        previous = normalized(RULES, turn, previous)
        began = 7 if count >= 7 else 4 if count >= 4 else 0
        newest = users_of(previous)[-1]
        for value in (f"14:{began:02d}:00", f"~{100 - 3 * began}k tok", f"{20 + began}/40 used"):
            assert newest.count(value) == 1
        assert newest.count(" used") == 1


def test_what_extensions_add_is_never_kept():
    """A to-do list that changed is what the model has to see."""
    first, second = (next(nine(True, False, parts=f"- [{one}] test")) for one in " x")
    sent = normalized(RULES, second, normalized(RULES, first))
    assert "- [x] test" in users_of(sent)[0]
    turns = [*nine(True, False, parts="- [ ] test")]
    later = [*nine(True, False, parts="- [x] test")]
    sent = normalized(RULES, later[5], normalized(RULES, turns[4]))
    assert "- [x] test" in users_of(sent)[-1]


def test_what_a_user_typed_stays():
    """A block that is not at the beginning, and a message that differs in more than its block."""
    turns = [
        request(
            {
                "model": "m",
                "messages": [
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": text},
                    *([{"role": "assistant", "content": "ok"}] if text[0] != "a" else []),
                ],
            },
            CHAT,
        )
        for text in (f"a {context(1)}", f"b {context(2)}", f"{context(3)}c", f"{context(4)}d")
    ]
    previous = None
    for turn in turns[:2]:
        assert normalized(RULES, turn, previous).body == turn.body
        previous = turn
