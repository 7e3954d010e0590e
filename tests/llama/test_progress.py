"""The real server says how far it is with a prompt, and no client sees that it was asked."""

import json
import re

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.http_client import Site
from cacheproxy.record.jsonl import from_line
from tests.proxy.harness import eventually

from .replay import erase

pytestmark = pytest.mark.llama

WORDS = "The quick brown fox jumps over the lazy dog. " * 300
ASKED = {
    "/v1/chat/completions": {"max_tokens": 4, "messages": [{"role": "user", "content": WORDS}]},
    "/v1/responses": {"max_output_tokens": 4, "input": WORDS},
}
OWN = re.compile(
    rb'(?:chatcmpl-|resp_|msg_)\w+|"created(?:_at)?":\d+|"\w+_(?:ms|per_second)":[\d.e-]+'
)
"""What is another in each answer of this server."""


@pytest.fixture(scope="module")
def watched(llama, tmp_path_factory):
    """A proxy that knows what its server is, and captures."""
    folder = tmp_path_factory.mktemp("capture")
    with Proxy(llama.url, "--capture", str(folder), "--verbose") as proxy:
        eventually(lambda: "ONLINE: " in proxy.log())
        yield proxy, folder


def ask(url, path, **more):
    """The status, and the body without what is another each time."""
    erase_at, _, url = url.rpartition(" ")
    erase(erase_at or url)
    body = {"model": "random", "stream": True, "temperature": 0, "seed": 1, **ASKED[path], **more}
    answer = Site(url).post(path, json.dumps(body).encode())
    return answer.status, OWN.sub(b"x", answer.body)


def last(folder):
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return from_line(lines[-1])


@pytest.mark.parametrize("path", ASKED)
def test_each_byte_of_the_answer_is_as_without(llama, watched, path):
    """The record has how far it was, and what was added."""
    proxy, folder = watched
    found = ask(f"{llama.url} {proxy.url}", path)
    assert found == ask(llama.url, path)
    assert found[0] == 200
    eventually(lambda: "prefill-progress: /return_progress" in proxy.log())
    record = last(folder)
    assert 2000 < record.progress.done <= record.progress.total == record.usage.evaluated
    assert [one.rule for one in record.reports] == ["prefill-progress"]


@pytest.mark.parametrize("path", ASKED)
def test_who_asks_for_it_gets_it(llama, watched, path):
    proxy, _ = watched
    found = ask(f"{llama.url} {proxy.url}", path, return_progress=True)
    assert found == ask(llama.url, path, return_progress=True)
    assert found[1].count(b"prompt_progress") > 1
