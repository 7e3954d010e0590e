"""Whose a request is: told by what may name a person, in any spelling, and by nothing else."""

import json
import re
from pathlib import Path

import pytest

from cacheproxy.core.conversation.owner import Owners, peer_address
from cacheproxy.core.prompt.request import Request
from tests import transcript

GATEWAY = (b"Authorization", b"Bearer of-all")
NAMES = Path(__file__).with_name("names.txt").read_text(encoding="utf-8")
HEADERS, TRAVELS, QUERY = (part.split() for part in re.split(r"# [a-z ]+\n", NAMES)[1:])
ALL = Owners()


def sent(*headers, query="", peer="", **body):
    """A request of Chat Completions."""
    data = json.dumps({"messages": [{"role": "user", "content": "hi"}], **body}).encode()
    pairs = tuple((name.encode(), value.encode()) for name, value in headers)
    return Request("POST", "/v1/chat/completions" + query, (GATEWAY, *pairs), data, peer=peer)


def differ(one, other, owners=ALL, **how):
    return owners.of(one, **how) != owners.of(other, **how)


@pytest.mark.parametrize("name", HEADERS)
def test_a_name_that_may_be_a_persons_tells_two_apart(name):
    """In any case, with underscores, given twice, or by one alone."""
    for spelled in (name, name.lower(), name.upper(), name.replace("-", "_")):
        assert differ(sent((spelled, "alice")), sent((spelled, "bob")))
        assert differ(sent((spelled, "alice")), sent())
        assert differ(
            sent((spelled, "x"), (spelled, "alice")), sent((spelled, "x"), (spelled, "bob"))
        )
        assert not differ(
            sent((spelled, "alice"), ("A", "1")), sent(("A", "2"), (spelled, "alice"))
        )


@pytest.mark.parametrize("name", QUERY)
def test_so_does_one_in_the_query(name):
    assert differ(sent(query=f"?{name}=alice"), sent(query=f"?{name}=bob"))
    assert differ(sent(query=f"?a=1&{name}=alice"), sent(query="?a=1"))


@pytest.mark.parametrize(
    "of",
    [
        *(lambda who, name=name: {name: who} for name in ("user", "safety_identifier", "user_id")),
        *(
            lambda who, name=name: {"metadata": {name: who}}
            for name in ("user_id", "email", "team")
        ),
        lambda who: {"metadata": {"user_id": f"user_{who}_account__session_1-2"}},
        lambda who: {"metadata": {"user_id": json.dumps({"device_id": who, "session_id": "1"})}},
    ],
)
def test_so_does_one_in_the_body(of):
    assert differ(sent(**of("alice")), sent(**of("bob")))
    assert not differ(sent(**of("alice")), sent(**of("alice")))


@pytest.mark.parametrize("name", TRAVELS)
def test_a_program_a_session_and_a_request_are_no_person(name):
    assert not differ(sent((name, "one")), sent((name, "other")))


def test_the_session_in_a_user_id_is_no_person():
    """In both spellings of Claude Code's; and the order of a body's members is none."""
    for user in ("user_a_account__session_{}", '{{"device_id":"a","session_id":"{}"}}'):
        one, other = (sent(metadata={"user_id": user.format(number)}) for number in "12")
        assert not differ(one, other)
    assert not differ(sent(user="a", team="b"), sent(team="b", user="a"))


def test_addresses_count_where_nothing_else_tells_two_apart():
    """Without ports; that of the connection counts where no gateway reports one."""
    one, other = (sent(("X-Forwarded-For", f"10.0.0.{host}:5{host}")) for host in "12")
    assert not differ(one, other)
    assert differ(one, other, by_address=True)
    again = sent(("X-Forwarded-For", "10.0.0.1:99"), peer="10.0.0.9")
    assert not differ(one, again, by_address=True)
    assert differ(sent(peer="10.0.0.1"), sent(peer="10.0.0.2"), by_address=True)
    assert [peer_address(host) for host in ("127.0.0.1", "::1", "10.0.0.1")] == ["", "", "10.0.0.1"]
    for name, value in (
        ("Forwarded", "for={};proto=http"),
        ("X-Real-IP", "{}"),
        ("CF-Connecting-IP", "{}"),
    ):
        one, other = (sent((name, value.format(host))) for host in ("10.0.0.1", "[2001:db8::1]:80"))
        assert differ(one, other, by_address=True)


def test_a_group_of_an_address_is_no_port():
    """Nor is the session in another member than the user's id."""
    for one, other in (
        ("2001:10:20:30::1", "2001:11:20:30::1"),
        ("fe80:1:2:3::4", "fe80:1:2:3::5"),
    ):
        asked = [sent(("X-Forwarded-For", address)) for address in (one, other)]
        assert differ(*asked, by_address=True)
    ports = [sent(("X-Forwarded-For", f"[2001:db8::1]:{port}, 10.0.0.1:{port}")) for port in (1, 2)]
    assert not differ(*ports, by_address=True)
    assert differ(sent(metadata={"team": "a_session_1"}), sent(metadata={"team": "a_session_2"}))


def test_what_is_ignored_tells_nobody_apart():
    """A token that is renewed, a cookie of a balancer, a JWT that is signed anew."""
    owners = Owners(["X_Id_Token", "token", "user", "peer"])
    for one, other in (
        (sent(("X-Id-Token", "1")), sent(("x-id-token", "2"))),
        (sent(query="?token=1"), sent(query="?token=2")),
        (sent(user="1"), sent(user="2")),
        (sent(peer="10.0.0.1"), sent(peer="10.0.0.2")),
    ):
        assert differ(one, other, by_address=True)
        assert not differ(one, other, owners, by_address=True)


def test_all_that_is_said():
    transcript.holds("owner.txt", globals())
