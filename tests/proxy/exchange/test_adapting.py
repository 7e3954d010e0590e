"""What a server refuses is mended, by a plugin's adaptation, too: the proxy, a scripted server."""

import gzip
import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import ModuleType

import pytest

from cacheproxy.plugin.package import PluginError, package_of
from tests.core.templates import inline
from tests.proxy.harness import LAST, Client, chunk, head, whole
from tests.proxy.placing.bodies import WITHOUT, ask
from tests.proxy.placing.templated import PATHS, ModelServer, answer_of

PLUGIN = '''
"""A server that knows no member "n", nor "odd"."""
from cacheproxy import REMOVE, AdaptationNeed, Edit

class Without:
    def __init__(self, member):
        self.name, self._member = f"no-{member}", member

    def needed(self, request, remembered):
        return AdaptationNeed(remembered) if self._member in request.json else None

    def refused(self, refusal, request, need):
        if f"'{self._member}'" not in refusal.words:
            return None
        return AdaptationNeed({(): refusal.status})

    def edits(self, request, need):
        return [Edit(f"/{self._member}", REMOVE, f"it knows no {self._member}")]


class Faulty(Without):
    def refused(self, refusal, request, need):
        request.json.clear()
        FAULT


ADAPTATIONS = [Faulty("x"), Without("n"), Without("odd")]
'''
SENT = WITHOUT | {"n": 1, "odd": {"deep": [1]}}
LESS = WITHOUT


@pytest.fixture
def server():
    """A server that refuses the first member that it does not know."""
    made = ModelServer(inline)

    def answer(server, peer, _, body):
        unknown = next((name for name in ("n", "odd") if name in body), None)
        if unknown is None:
            server.send(peer, b"200 OK", answer_of("messages", 9, None))
        else:
            said = {"message": f"unknown member '{unknown}'", "type": "invalid_request_error"}
            server.send(peer, b"400 Bad Request", {"error": said})

    made.pages[PATHS["messages"]] = answer
    return made


@pytest.fixture
def begin(start, server, tmp_path):
    """Start a proxy before it, with the plugin; the fault of its first is one of these."""

    def with_plugin(*arguments, fault="return None"):
        file = tmp_path / "mends.py"
        file.write_text(PLUGIN.replace("FAULT", fault))
        return start(server, "--plugin", str(file), *arguments)

    return with_plugin


def keys(server):
    return [sorted({*body} & {"n", "odd"}) for body in server.bodies(PATHS["messages"])]


def test_a_plugins_adaptation_mends_a_refusal_and_is_remembered(begin, server):
    """Each thing takes one more attempt; the next request needs none, and is the same."""
    proxy = begin()
    assert ask(proxy, SENT).status == 200
    assert keys(server) == [["n", "odd"], ["odd"], []]
    proxy.wait_for("1 edit by rule no-n, 1 edit by rule no-odd")
    healed = server.raw[-1].body
    assert json.loads(healed) == LESS
    server.asked.clear()
    assert ask(proxy, SENT).status == 200
    assert keys(server) == [[]]
    assert server.raw[-1].body == healed
    assert ask(proxy, WITHOUT).status == 200
    assert server.raw[-1].body == json.dumps(WITHOUT).encode()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ('raise SystemExit("a canary")', "adaptation no-x was left out of a request: SystemExit"),
        ("return 7", "adaptation no-x was left out of a request"),
        ("return AdaptationNeed()", "adaptation no-x was left out of a request: PathError"),
    ],
)
def test_a_failure_is_its_own_and_named(begin, server, fault, says):
    """The others mend all the same."""
    proxy = begin(fault=fault)
    assert ask(proxy, SENT).status == 200
    assert keys(server)[-1] == []
    assert re.match(r"warn: client/\w{4} #1: ", proxy.wait_for(says))
    assert proxy.page("health")["failures"]["no-x"]["failed"] >= 1
    assert "canary" not in proxy.output


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (("--mend", "off"), [["n", "odd"]]),
        (("--disable", "no-odd"), [["n", "odd"], ["odd"]]),
        (("--disable", "no-n"), [["n", "odd"]]),
    ],
)
def test_what_is_switched_off_mends_nothing(begin, server, arguments, left):
    """The server's last answer is the client's."""
    proxy = begin(*arguments)
    answer = ask(proxy, SENT)
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["message"] == f"unknown member '{left[-1][0]}'"
    assert keys(server) == left


class Mends:
    """Has all that an adaptation needs."""

    name = "mends"
    needed = refused = edits = staticmethod(lambda *_: None)


class Model(Mends):
    """Has a name of ours."""

    name = "model"


@pytest.mark.parametrize("found", [[7], [Mends(), Mends()], [Model()], [Mends] * 101])
def test_what_is_no_adaptation_is_refused_at_the_start(found):
    plugin = ModuleType("plugin")
    plugin.ADAPTATIONS = [Mends()]
    assert len(package_of(plugin, "mends").adaptations) == 1
    plugin = ModuleType("plugin")
    plugin.ADAPTATIONS = found
    with pytest.raises(PluginError, match="cacheproxy_adaptations returns"):
        package_of(plugin, "mends")


# Refusals of ours to mend, and probes.

OVERFLOW = "request (9 tokens) exceeds the available context size (8 tokens), try increasing it"
CALLS = count()
GRAMMAR, BAD = "failed to parse grammar", "^(?=x)"
KEY, PACKS = b"Authorization: Bearer key", b"Accept-Encoding: gzip"


def error(words):
    return json.dumps({"error": {"message": words}}).encode()


def packed(peer, body, *fields):
    peer.send(whole(gzip.compress(body), b"Content-Encoding: gzip", *fields, status=b"400 Bad"))


def in_pieces(peer, body, *fields):
    peer.send(head(*fields, b"Transfer-Encoding: chunked", status=b"400 Bad"))
    peer.send(chunk(body[:9]) + chunk(body[9:]) + LAST)


def refusing(start, refuses):
    """A proxy before a server that sends an error where ``refuses`` returns a message."""
    server = ModelServer(inline)

    def answer(server, peer, received, body):
        said = refuses(received.body.decode())
        if type(said) is int:
            server.send(peer, b"%d No" % said, {"error": {"message": "busy"}})
        elif said:
            server.send(peer, b"400 Bad Request", {"error": {"message": said}})
        else:
            server.send(peer, b"200 OK", answer_of("messages", 9, None))

    server.pages[PATHS["messages"]] = answer
    return start(server), server


def tooled(*patterns, model="m"):
    """A request with a tool for each of ``patterns``."""
    schemas = (
        {"type": "object", "properties": {f"p{number}": {"type": "string", "pattern": pattern}}}
        for number, pattern in enumerate(patterns)
    )
    tools = [
        {"name": f"t{number}", "description": "canary", "input_schema": schema}
        for number, schema in enumerate(schemas)
    ]
    said = [{"role": "user", "content": "canary"}]
    return {"model": model, "max_tokens": 9, "messages": said, "tools": tools}


def probes_of(server):
    """Those of schemas: what they are asked by has nothing that was said."""
    return [one for one in server.raw if b'"hi"' in one.body]


@pytest.mark.parametrize("sends", [packed, in_pieces])
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [("Unknown parameter: 'n'", 200, b'"hi"'), (OVERFLOW, 400, b"prompt is too long: 9 tokens")],
)
def test_an_error_is_read_however_it_comes(start, sends, words, status, says):
    server = ModelServer(inline)

    def answer(server, peer, _, body):
        if "n" in body:
            sends(peer, error(words), b"Content-Type: application/json")
        else:
            server.send(peer, b"200 OK", answer_of("messages", 9, None))

    server.pages[PATHS["messages"]] = answer
    got = ask(start(server), SENT)
    assert got.status == status
    assert says in got.body


def test_an_error_that_never_ends_goes_down_as_it_comes(start):
    """The client has what there is after a few seconds."""
    server = ModelServer(inline)

    def answer(_, peer, *__):
        peer.send(head(b"Transfer-Encoding: chunked", status=b"400 Bad"))
        peer.send(chunk(b"what there is"))
        assert peer.sock.recv(1) == b""  # the client has gone

    server.pages[PATHS["messages"]] = answer
    with Client(start(server).address) as client:
        client.ask(PATHS["messages"], json.dumps(SENT).encode()).read_until(b"what there is")


@pytest.mark.parametrize(
    ("refuses", "most"),
    [
        (lambda _: GRAMMAR, 1),
        (lambda body: '"tools"' in body and GRAMMAR, 9),
        (lambda body: '"tools"' in body and f"{GRAMMAR} {next(CALLS)}", 9),
    ],
)
def test_what_heals_nothing_is_probed_once(start, refuses, most):
    """The next turns cost no probe, and no schema is altered."""
    proxy, server = refusing(start, refuses)
    for turn in range(3):
        sent = tooled(*"abcdefghij")
        assert ask(proxy, sent).status == 400
        assert len(probes_of(server)) <= (most if turn == 0 else 0)
        assert [json.loads(one.body) for one in server.raw if b"canary" in one.body] == [sent]
        server.raw.clear()


def test_a_probe_is_ours_and_asked_once_for_all_that_wait(start):
    """It has nothing that was said, the client's credentials, and no answer that is packed."""
    proxy, server = refusing(start, lambda body: BAD in body and GRAMMAR)
    sent = tooled(*"abcdef", BAD)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask(proxy, sent, "messages", KEY, PACKS), range(4)))
    assert {answer.status for answer in answers} == {200}
    probes = probes_of(server)
    assert 2 < len(probes) == len({one.body for one in probes}) < 12
    for one in probes:
        names = {name.lower() for name, _ in one.headers}
        assert (b"authorization" in names, b"accept-encoding" in names) == (True, False)
    healed = json.loads(server.raw[-1].body)["tools"]
    assert [tool == came for tool, came in zip(healed, sent["tools"], strict=True)].count(
        False
    ) == 1


def test_a_refusal_that_nothing_mends_names_its_first_request_and_the_cure(start):
    """Once: the next one that is refused in these words has no line of it."""
    proxy, _ = refusing(start, lambda _: "this server requires --jinja")
    for _ in range(2):
        assert ask(proxy, tooled("a")).status == 400
    line = proxy.wait_for("refuses what nothing here can mend")
    assert re.match(r"warn: client/\w{4} #1: the upstream refuses what nothing here can ", line)
    assert "start the server with --jinja" in line
    assert proxy.output.count("nothing here can mend") == 1


def test_a_server_that_is_busy_says_nothing_of_schemas(start):
    """What was found out by then is known: the next turn goes on from there."""
    calls = count()
    proxy, _ = refusing(
        start, lambda body: 503 if '"hi"' in body and next(calls) == 2 else BAD in body and GRAMMAR
    )
    sent = tooled(*"abcdef", BAD)
    assert ask(proxy, sent).status == 400
    proxy.wait_for("adaptation tool-schemas was left out of a request")
    assert ask(proxy, sent).status == 200
