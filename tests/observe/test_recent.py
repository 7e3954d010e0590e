"""The last exchanges are remembered, without their bodies."""

from dataclasses import replace

from msgspec import structs

from cacheproxy.core.conversation.verdict import Break, Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.observe.recent import Recent
from tests.observe.exchanges import body, exchange


def kept(*exchanges, most=200):
    recent = Recent(most)
    for one in exchanges:
        recent.cacheproxy_exchange_finished([one])
    return recent


def test_bodies_and_headers_are_not_kept():
    given = replace(
        exchange(body("secret")), response_body=b"secret", response_headers=((b"a", b"secret"),)
    )
    (found,) = kept(given)
    assert "secret" not in repr(found)
    assert found.received.path == "/v1/messages"


def test_credentials_are_not_kept():
    """Neither in the target nor in what a verdict quotes."""
    key, cookie = "sk-ant-api03-7f3a9bcc41d0", "sid7f3a9bcc41d00"
    given = exchange(body("a"), verdict=broken(f"was {key} in\ud83d", f"now {cookie} in"))
    received = replace(
        given.received,
        target=f"//me:{key}@host/{key};{key}/v1/messages?key={key}",
        headers=((b"Cookie", b"sid=" + cookie.encode()),),
    )
    (found,) = kept(replace(given, received=received))
    assert key not in repr(found)
    assert cookie not in repr(found)
    assert found.received.path.endswith("/v1/messages")
    assert found.verdict.where.was == "was redacted-redacted-redacte in\ud83d"
    assert len(found.verdict.where.now) == len(f"now {cookie} in")


def broken(was, now):
    where = Break("/system", 0, TokenCount(1, "estimated"), ChangeKind.NONCE, was, now)
    return structs.replace(Verdict(Judgement.BREAK, Reason.SYSTEM_CHANGED), where=where)


def test_only_the_last_ones_are_kept():
    recent = kept(*(replace(exchange(body("a")), number=n) for n in range(10)), most=3)
    assert [found.number for found in recent] == [7, 8, 9]


def test_last_is_the_latest_turn():
    turn, other = exchange(body("a"), number=1), exchange(body("a"), number=2, turn=0)
    recent = kept(turn, other)
    assert recent.find("last").number == 1
    assert recent.find("2").number == 2
    assert recent.find("3") is None
    assert recent.find("nonsense") is None
    assert kept(other).find("last") is None
    failed = replace(other, number=3, status=400)
    assert kept(failed, other).find("last").number == 3  # until there is a turn
    assert kept(turn, failed).find("last").number == 1


def test_polls_push_out_no_turn():
    """A monitor asks for /health all day; neither that nor failures hide what happened."""
    turn, poll = exchange(body("a"), number=1), exchange(body("a"), number=2, turn=0)
    failed = replace(poll, number=3, status=400)
    polls = (replace(poll, number=4 + n, session=None) for n in range(300))
    found = kept(turn, failed, *polls)
    assert [each.number for each in found] == [1, 3, *range(104, 304)]
    assert found.find("last").number == 1
    assert found.find("1").number == 1
