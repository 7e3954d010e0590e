"""The request channel: however the bytes are cut, the same requests and the same answers.

What is no request is refused, as RFC 9110 and 9112 ask for: refused.txt, by the names of the list
of Http11Probe (github.com/MDA2AV/Http11Probe).
"""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.proxy.downstream.limits import Limits
from tests import transcript
from tests.core.requestbytes import anything, cut, cuts, one_by_one, pipelines
from tests.logs import looking
from tests.proxy.inmemory import ANSWER, converse

ROOMY = Limits()
TIGHT = Limits(body=24, head=90, target=24, headers=3)
"""So narrow that generated requests often touch them."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS = re.compile(rb"(?:\A|(?<=\r\n\r\n)|(?<=\r\n\r\nok)|(?<=}))HTTP/1\.[01] ([0-9]{3}) ")


def statuses(written: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(written)]


@pytest.fixture(autouse=True, scope="module")
def _no_failures():
    """Nothing was logged as a failure: what Twisted catches for us counts as well."""
    failures = []

    def note(event):
        if "log_failure" in event:
            failures.append(event["log_failure"])

    with looking(note):
        yield
    assert not failures


@given(pipelines, cuts, st.booleans())
def test_what_is_sent_is_what_arrives(requests, places, late):
    """Of requests that are right, each arrives once, in order, with its own body and no more."""
    data = b"".join(framed for *_, framed in requests)
    expected = [(method, target, body) for method, target, body, _ in requests]
    for pieces in ([data], one_by_one(data), cut(data, places)):
        found = converse(pieces, ROOMY, late=late)
        assert [(one.method, one.target, one.body) for one in found.arrived] == expected
        assert found.written.replace(CONTINUE, b"") == ANSWER * len(requests)
        assert not found.closed


@given(anything, cuts, st.sampled_from([ROOMY, TIGHT]), st.booleans())
@example(b"x" * 150 + b" /v1/messages HTTP/1.1\r\n\r\n", [], TIGHT, False)
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(data, places, limits, late):
    """Whole, byte by byte or at random, answered at once or late: the same requests and answers."""
    whole = converse([data], limits)
    for pieces in ([data], one_by_one(data), cut(data, places)):
        assert converse(pieces, limits, late=late) == whole


@given(anything, st.sampled_from([ROOMY, TIGHT]))
def test_each_request_has_one_answer_and_a_refusal_is_the_last(data, limits):
    """Answers are those to the requests; then there may be one refusal, and nothing after it."""
    found = converse([data], limits)
    final = [status for status in statuses(found.written) if status != 100]
    answered, after = final[: len(found.arrived)], final[len(found.arrived) :]
    assert answered == [200] * len(found.arrived)
    assert len(after) == found.refused
    assert all(400 <= status <= 501 for status in after)


@given(anything)
def test_nothing_over_the_limits_arrives(data):
    for one in converse([data], TIGHT).arrived:
        assert len(one.body) <= TIGHT.body
        assert len(one.target) <= TIGHT.target
        assert len(one.headers) <= TIGHT.headers
        assert sum(len(name) + len(value) for name, value in one.headers) <= TIGHT.head


SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
HOST = b"Host: localhost\r\n"
LONG = b"A" * 100_000


def get(*lines, target=b"/x", method=b"GET", version=b"HTTP/1.1", host=HOST):
    start = b"%b %b %b\r\n" % (method, target, version)
    return start + host + b"".join([line + b"\r\n" for line in lines]) + b"\r\n"


def chunked(body, *lines):
    return get(b"Transfer-Encoding: chunked", *lines, method=b"POST") + body


def refused(wrong):
    """The status of a refusal, which is the last on its connection; what follows is no request."""
    data = wrong + SMUGGLED
    size = 1 if len(data) < 10_000 else 1000
    said = []
    for pieces in ([data], [data[i : i + size] for i in range(0, len(data), size)]):
        found = converse(pieces, ROOMY)
        assert found.arrived == []
        assert b"\r\nConnection: close\r\n" in found.written
        assert found.refused
        said += statuses(found.written)
    said += statuses(converse([wrong], ROOMY).written)  # though nothing follows
    assert said == said[:1] * 3
    return said[0]


def test_what_could_be_read_in_two_ways_or_is_no_request_is_refused():
    transcript.holds("refused.txt", globals())
