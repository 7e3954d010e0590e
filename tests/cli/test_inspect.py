"""``cacheproxy inspect`` as people run it."""

import json
from functools import partial

import pytest

from cacheproxy.cli.inspect import place_name
from tests.cli.invoking import invoke, one_line
from tests.core.diagnose.test_volatile import set_system
from tests.core.planting import anthropic, chat, jsonl, numbered, plant, request

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


run = partial(invoke, "inspect")


@pytest.fixture
def clean(tmp_path):
    file = tmp_path / "clean.jsonl"
    file.write_text(jsonl(chat(4)))
    return file


@pytest.fixture
def volatile(tmp_path):
    file = tmp_path / "volatile.jsonl"
    file.write_text(jsonl(plant(anthropic(4), with_ids)))
    return file


def har(bodies, tmp_path, *, text=True):
    entries = [
        {
            "startedDateTime": "2026-11-21T10:00:00.000Z",
            "request": {
                "method": "POST",
                "url": "http://127.0.0.1:8080/v1/messages",
                "headers": [{"name": "x-session-id", "value": "s"}],
                **({"postData": {"mimeType": "application/json", "text": body}} if text else {}),
            },
            "response": {"status": 200, "headers": [], "content": {}},
        }
        for body in (request(one).body.decode() for one in bodies)
    ]
    file = tmp_path / "x.har"
    file.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return file


def test_a_clean_conversation(clean):
    result = run(clean)
    assert result.exit_code == 0
    assert result.stdout.startswith("4 requests, 1 session, 3 s")
    assert "No volatile field: every turn extends the one before." in result.stdout
    assert "append only" in result.stdout


def test_a_field_without_a_rule(volatile):
    lines = run(volatile).stdout.splitlines()
    (row,) = [line for line in lines if '"id:"' in line]
    assert row.split() == ["system[1]", '"id:"', "uuid", "3", "of", "3", "none"]
    example = lines[lines.index(row) + 1]
    assert numbered("uuid", 0) in example
    assert f"Next: cacheproxy diagnose --propose --from {volatile}" in lines[-1]
    assert any("breaks the cache at token ≈" in line for line in lines)


@pytest.mark.parametrize(("default", "shown"), [("true", "run-ids"), ("false", "run-ids (off)")])
def test_a_field_with_one(volatile, tmp_path, default, shown):
    config = tmp_path / "config.toml"
    config.write_text(RULE.format(default=default))
    text = run("-c", config, volatile).stdout
    assert f"3 of 3     {shown}\n" in text
    assert ("--enable run-ids" in text) == (default == "false")


def test_the_order_is_chosen(volatile):
    assert "system first" in run(volatile).stdout
    text = run("--order", "tools", volatile).stdout
    assert "tools first" in text
    assert "system first" not in text


def test_system_messages_that_come_late_are_told_of(tmp_path, volatile):
    """With what a template reuses that moves them to the head."""
    bodies = chat(3)
    for turn, body in enumerate(bodies):
        body["messages"] += [{"role": "system", "content": f"{9 - turn} left"}] * (turn > 0)
    file = tmp_path / "late.jsonl"
    file.write_text(jsonl(bodies))
    text = run(file).stdout
    assert "  2 requests with system messages late in the list, up to 1 system message.\n" in text
    assert "\n  hoisted  " in text
    assert "tools first" not in run("--order", "hoisted", file).stdout
    assert "hoisted" not in run(volatile).stdout


def test_json(volatile):
    found = json.loads(run("--json", volatile).stdout)
    (field,) = found["fields"]
    assert field["path"] == "/system/1/text"
    assert (field["class"], field["count"], field["rule"]) == ("uuid", 3, None)
    assert found["steps"] == 3
    assert {"sessions", "sides", "parts", "reuse", "between", "chars_per_token"} <= set(found)


def test_no_line_is_wider_than_96(volatile, clean):
    def change(body, turn):
        body["tools"].append({"name": "x" * 200, "description": "y" * 300 + str(turn)})
        body["messages"].append({"role": "user", "content": "a reminder " * 30})

    wide = volatile.with_name("wide.jsonl")
    wide.write_text(jsonl(plant(anthropic(4), change)))
    for file in (volatile, clean, wide):
        rows = [line for line in run(file).stdout.splitlines() if "Next:" not in line]
        assert max(map(len, rows)) <= 96


def test_a_har_of_another_program(tmp_path):
    result = run(har(plant(anthropic(3), with_ids), tmp_path))
    assert result.exit_code == 0
    assert '"id:"' in result.stdout


def test_several_files_are_one(clean, volatile):
    assert run(clean, volatile).stdout.startswith("8 requests")


class TestBadInput:
    """One clear line each, exit 2, the good lines still used."""

    def test_a_truncated_line(self, volatile):
        volatile.write_text(volatile.read_text()[:-200])
        result = run(volatile)
        assert f"{volatile}:4:" in one_line(result)
        assert result.stdout.startswith("3 requests")

    def test_a_har_with_no_bodies(self, tmp_path):
        file = har(anthropic(2), tmp_path, text=False)
        assert str(file) in one_line(run(file))

    @pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00", b"hello\n", b"", b"[]", b"{}"])
    def test_a_file_of_another_kind(self, tmp_path, content):
        file = tmp_path / "x.bin"
        file.write_bytes(content)
        result = run(file)
        assert str(file) in one_line(result)
        assert result.stdout == ""

    def test_a_file_that_is_not_there(self, tmp_path, clean):
        result = run(tmp_path / "none.jsonl", clean)
        assert "none.jsonl" in one_line(result)
        assert result.stdout.startswith("4 requests")

    def test_requests_without_a_prompt(self, tmp_path):
        file = tmp_path / "x.jsonl"
        file.write_text(json.dumps({"method": "GET", "path": "/v1/models", "body": ""}) + "\n")
        result = run(file)
        assert "no request with a prompt" in one_line(result)

    def test_a_config_that_cannot_be_read(self, clean, tmp_path):
        assert "config" in one_line(run("-c", tmp_path / "none.toml", clean))


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


def test_halves_of_characters_are_printed_somehow(tmp_path):
    file = tmp_path / "x.jsonl"
    halves = plant(
        chat(3),
        lambda body, turn: set_system(body, lambda text: f"\ud83d at {turn} \ude00\n{text}"),
    )
    file.write_text(jsonl(halves))
    for arguments in ([file], ["--json", file]):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "system" in result.stdout
