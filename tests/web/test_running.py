"""Pages of a running proxy: breaks and what is done about them, conversations, tables, reloads."""

import csv
import json
from io import StringIO

import pytest

from tests import transcript
from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, eventually
from tests.web.asking import get, turn
from tests.web.breaking import Breaking

pytestmark = pytest.mark.slow

JSON = b"Content-Type: application/json"
SECRET = "kanarienvogel"
KEY = "sk-ant-api03-AbCdEfGh1234567890ijklmnop"
TOKEN = {"CACHEPROXY_TOKEN": "abc", "CACHEPROXY_SHOW_PROMPTS": "true"}


@pytest.fixture
def breaking(tmp_path):
    found = Breaking(tmp_path)
    yield found
    found.close()
    assert SECRET not in found.proxy.output


@pytest.fixture
def guarded(breaking, tmp_path_factory):
    """A proxy with a token, that shows prompts by its settings."""
    folder = tmp_path_factory.mktemp("guarded")
    with Proxy(folder, "--upstream", breaking.upstream.url, **TOKEN) as proxy:
        yield proxy


def test_what_it_shows_and_does(breaking, guarded):
    proxy = breaking.proxy

    def named(value):
        """The same, with names for what differs from run to run."""
        text = json.dumps(value).replace(str(breaking.file), "FILE").replace(proxy.url, "PROXY")
        return json.loads(text.replace(breaking.upstream.url, "UPSTREAM"))

    def page(target, *fields, at=proxy):
        answer = get(at, f"/_cacheproxy/{target}", *fields)
        return named(json.loads(answer.body)) if answer.status == 200 else answer.status

    def opened(number, *fields, at=proxy):
        return page(f"break/{number}", *fields, at=at)

    def post(target, *fields, at=proxy, **said):
        answer = get(
            at, f"/_cacheproxy/{target}", *(fields or (JSON,)), method=b"POST",
            payload=json.dumps(said).encode(),
        )  # fmt: skip
        return answer.status, named(json.loads(answer.body))

    def wrote(text):
        """Write the config file, and have it read."""
        breaking.file.write_bytes(text.encode())
        breaking.read_again()

    def words(lines, *, changed=None):
        return "\n".join(
            "".join(text for text, is_new in line["parts"] if changed in (None, is_new))
            for line in lines
        )

    def table(name, window="15m"):
        answer = get(proxy, f"/_cacheproxy/{name}.csv?window={window}")
        return list(csv.DictReader(StringIO(answer.body.decode(), newline="")))

    def kept(**more):
        """The last of its conversations in time, as the page lists them, once they have turns."""
        found = []

        def all_there():
            found[:] = page("conversations")["conversations"]
            return {one["session"]: one["turns"] for one in found}.items() >= more.items()

        eventually(all_there)
        return [one for one in found if one["session"] in more]

    def asked(session, *texts, prompt, reused, root=None, **more):
        """One turn of a session, perhaps of one that works for another."""
        fields = [b"X-Session-Id: " + session.encode(), b"User-Agent: somebody/1.0"]
        fields += [b"X-Parent-Session-Id: " + root.encode()] if root else []
        turn(proxy, breaking.upstream, body(*texts, **more), prompt, reused, *fields)

    def asked_with_token(*turns):
        for text, reused in turns:
            said = body("hello", "hi", "and?", system=text)
            turn(guarded, breaking.upstream, said, 2003, reused, b"X-Cacheproxy-Token: abc")
        known = (JSON, b"X-Cacheproxy-Token: abc", b"X-Forwarded-For: 10.0.0.1")
        eventually(lambda: isinstance(opened("last", *known[1:], at=guarded), dict))
        return known

    names = globals() | {name: each for name, each in locals().items() if name != "names"}
    transcript.holds("running.txt", names)
