"""``cacheproxy inspect`` as people run it (inspect.txt)."""

import json
from pathlib import Path

import pytest

from cacheproxy.cli.inspect import place_name
from tests import golden
from tests.cli.invoking import commands, invoke, one_line, transcript
from tests.core.diagnose.test_volatile import set_system
from tests.core.planting import anthropic, chat, jsonl, numbered, plant, request

FILE = Path(__file__).with_name("inspect.txt")
RULE = """
[[rule]]
name = "run-ids"
where = "system"
pattern = '(?m)^run id: (?P<volatile>\\S+)'
replacement = "0"
default = {default}
"""


def with_ids(body, turn):
    set_system(body, lambda text: f"run id: {numbered('uuid', turn)}\n{text}")


def widened(body, turn):
    body["tools"].append({"name": "x" * 200, "description": "y" * 300 + str(turn)})
    body["messages"].append({"role": "user", "content": "a reminder " * 30})


def halved(body, turn):
    set_system(body, lambda text: f"\ud83d at {turn} \ude00\n{text}")


def late():
    bodies = chat(3)
    for turn, body in enumerate(bodies):
        body["messages"] += [{"role": "system", "content": f"{9 - turn} left"}] * (turn > 0)
    return bodies


def har(bodies, *, text=True, pause=0.0):
    entries = [
        {
            "startedDateTime": f"2026-11-21T10:{at * pause // 60:02.0f}:{at * pause % 60:06.3f}Z",
            "request": {
                "method": "POST",
                "url": "http://127.0.0.1:8080/v1/messages",
                "headers": [{"name": "x-session-id", "value": "s"}],
                **({"postData": {"mimeType": "application/json", "text": body}} if text else {}),
            },
            "response": {"status": 200, "headers": [], "content": {}},
        }
        for at, body in enumerate(request(one).body.decode() for one in bodies)
    ]
    return json.dumps({"log": {"version": "1.2", "entries": entries}})


FILES = {
    "clean.jsonl": lambda: jsonl(chat(4)),
    "volatile.jsonl": lambda: jsonl(plant(anthropic(4), with_ids)),
    "cut.jsonl": lambda: jsonl(plant(anthropic(4), with_ids))[:-200],
    "late.jsonl": lambda: jsonl(late()),
    "wide.jsonl": lambda: jsonl(plant(anthropic(4), widened)),
    "halves.jsonl": lambda: jsonl(plant(chat(3), halved)),
    "models.jsonl": lambda: json.dumps({"method": "GET", "path": "/v1/models", "body": ""}) + "\n",
    "x.har": lambda: har(plant(anthropic(3), with_ids)),
    "bodies.har": lambda: har(anthropic(2), text=False),
    "on.toml": lambda: RULE.format(default="true"),
    "off.toml": lambda: RULE.format(default="false"),
}


@pytest.mark.parametrize("name", golden.sections(FILE))
def test_what_it_says(tmp_path, name):
    """Verdict, parts, fields with their rules; bad input is one clear line, the good is used."""
    (command,) = commands(FILE, name)
    for file, text in FILES.items():
        if file in command:
            (tmp_path / file).write_text(text())
    said = transcript(command, folder=tmp_path)
    golden.agrees(FILE, name, said)
    rows = [line for line in said.splitlines()[1:] if "Next:" not in line and line[0:1] != "!"]
    assert all(len(line) <= 96 for line in rows)


@pytest.mark.parametrize("file", ["volatile.jsonl", "halves.jsonl"])
def test_json(tmp_path, file):
    (tmp_path / file).write_text(FILES[file]())
    found = json.loads(invoke("inspect", "--json", tmp_path / file).stdout)
    names = {"sessions", "sides", "parts", "reuse", "between", "chars_per_token", "steps"}
    assert names <= set(found)
    if file == "volatile.jsonl":
        (field,) = found["fields"]
        assert field["path"] == "/system/1/text"
        assert (field["class"], field["count"], field["rule"]) == ("uuid", 3, None)


@pytest.mark.parametrize(
    ("pause", "said"),
    [(59.4, "59 s"), (59.7, "1 min 0 s"), (3599.4, "59 min 59 s"), (3599.7, "1 h 0 min")],
)
def test_how_long_a_capture_took(tmp_path, pause, said):
    (tmp_path / "x.har").write_text(har(anthropic(2), pause=pause))
    first, *_ = invoke("inspect", tmp_path / "x.har").stdout.splitlines()
    assert first.startswith(f"2 requests, 1 session, {said} ")


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00", b"hello\n", b"", b"[]", b"{}"])
def test_a_file_of_another_kind(tmp_path, content):
    file = tmp_path / "x.bin"
    file.write_bytes(content)
    result = invoke("inspect", file)
    assert str(file) in one_line(result)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/messages/0/content", "messages[0]"),
        ("/messages/*/content/*/text", "messages[*][*]"),
        ("/system/2/text", "system[2]"),
        ("/system", "system"),
        ("/tools/3/input_schema/properties", "tools[3].input_schema.properties"),
        ("/contents/0/parts/1/text", "contents[0][1]"),
        ("", "the request"),
    ],
)
def test_places_as_people_read_them(path, name):
    assert place_name(path) == name
