"""What is made of an exchange, and what is read back: a text for each module (``*.txt``)."""

import gzip
import json
import zlib
from dataclasses import replace
from functools import cache

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.prompt.request import Request
from cacheproxy.record import genai
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.har import from_har, to_har
from tests import transcript
from tests.observe.exchanges import body, exchange

SECRET = "kanarienvogel"


@pytest.mark.parametrize("name", ["alarms", "genai", "har", "jsonl", "columns"])
def test_what_is_made_of_an_exchange(name):
    transcript.holds(f"{name}.txt", globals())


def asked(path, said=None, method="POST", headers=(), **changes):
    """An exchange whose request is this."""
    said = body("a", model="qwen") if said is None else said
    request = Request(method, path, headers, json.dumps(said).encode() if said else b"")
    return replace(exchange(body("a")), received=request, sent=request, **changes)


def described(each, *, only=""):
    """Its name and attributes in the words of the GenAI conventions."""
    name, found = genai.describe(each)
    shown = {key: value for key, value in found.items() if key.startswith(only)}
    return transcript.members({"name": name} | shown)


def broken(lost=25_000, reused=1_000, seconds=30.0, reason=Reason.EVICTED, **more):
    """A turn that lost the cache."""
    verdict = Verdict(
        Judgement.BREAK if reason else Judgement.OK,
        reason,
        lost=TokenCount(lost, "measured"),
        seconds_lost=seconds,
    )
    fields = {"turn": 3, "number": 3, "verdict": verdict, "usage": Usage(lost + reused, reused)}
    return exchange(body("a"), **fields | more)


def fine(reused=20_000):
    return broken(lost=10, reused=reused, seconds=0.1, reason=None)


def archive(*records):
    """What a reader of our HAR file gets to see."""
    return json.loads(json.dumps(to_har(records, "0.1.0")))


def entry_of(record):
    return archive(record)["log"]["entries"][0]


def packed(coding, data):
    """The content of an entry whose response came packed."""
    headers = ((b"Content-Encoding", coding),)
    record = Exchange(Request("GET", "/"), response_headers=headers, response_body=data).finish()
    content = entry_of(record)["response"]["content"]
    if "compression" in content:
        content["compression"] = content["compression"] == content["size"] - len(data)
    back = [(each.response_body, each.response_headers) for each in from_har(archive(record))]
    return content, back


def bare_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@cache
def bomb():
    """65 MB in 64 KB."""
    return gzip.compress(bytes(65 << 20), 1, mtime=0)


def foreign(**changes):
    """An archive with one entry, as the specification has it."""
    request = {
        "method": "POST",
        "url": f"https://me:{SECRET}@api.example:8443/v1/messages?beta=true&key={SECRET}",
        "cookies": [{"name": "sid", "value": SECRET}],
        "headers": [
            {"name": ":method", "value": "POST"},
            {"name": "authorization", "value": SECRET},
            {"name": "User-Agent", "value": "claude-cli/2.1"},
        ],
        "queryString": [{"name": "key", "value": SECRET}],
        "postData": {"mimeType": "application/json", "text": '{"model": "é"}'},
        "bodySize": 15,
    }
    response = {
        "status": 200,
        "headers": [
            {"name": "set-cookie", "value": SECRET},
            {"name": "content-encoding", "value": "br"},
            {"name": "content-type", "value": "application/json"},
        ],
        "content": {"size": 2, "mimeType": "application/json", "text": "{}"},
    }
    entry = {
        "startedDateTime": "2026-11-21T12:05:58.250+01:00",
        "time": 1500.5,
        "request": request | changes.pop("request", {}),
        "response": response | changes.pop("response", {}),
        "timings": {"blocked": 1, "dns": -1, "connect": 2, "send": 7, "wait": 990, "receive": 500},
    }
    return {"log": {"version": "1.2", "entries": [entry | changes]}}


def given(**changes):
    """What is read of that entry, and said of it: never a secret."""
    found = [*from_har(foreign(**changes))]
    assert SECRET not in repr(found)
    return found
