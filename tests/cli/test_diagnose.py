"""``cacheproxy diagnose`` as people run it."""

import json
import os
import socket
import threading
import tomllib
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cacheproxy.sources import default_file
from tests.cli.invoking import invoke, one_line
from tests.core.diagnose.test_volatile import set_system
from tests.core.planting import anthropic, chat, insert, jsonl, numbered, plant

run = partial(invoke, "diagnose")


def planted(tmp_path, kind="nonce", bodies=anthropic, at=500, agent=None):
    def change(body, turn):
        set_system(body, lambda text: insert(text, at, f"run id: {numbered(kind, turn)}."))

    file = tmp_path / f"{(agent or 'x')[0]}.jsonl"
    text = jsonl(plant(bodies(4), change))
    if agent is not None:
        records = [json.loads(line) for line in text.splitlines()]
        for record in records:
            record["headers"] |= {"user-agent": agent, "x-session-id": f"planted by {agent}"}
        text = "\n".join(map(json.dumps, records))
    file.write_text(text)
    return file


class TestCaptured:
    def test_what_failed_is_no_turn_before(self, tmp_path):
        """It was not evaluated: the turn is compared with the last that was."""
        lines = [json.loads(line) for line in jsonl(anthropic(4)).splitlines()]
        lines[1] |= {"status": 200}
        lines[2] |= {"status": 400, "error": "no such slot", "body": lines[0]["body"]}
        file = tmp_path / "x.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        assert run("--from", file).stdout.startswith("Request 4   client, session planted, turn 3")
        line = one_line(run("3", "--from", file))
        assert (
            "request 3 failed with status 400 (no such slot): the server evaluated nothing"
        ) in line

    def test_the_last_turn(self, tmp_path):
        text = run("--from", planted(tmp_path)).stdout
        assert text.startswith("Request 4   client, session planted, turn 4   compared with turn 3")
        assert "then differ in system[1]." in text
        assert "where   /system/1/text, byte " in text
        assert "reason  system_changed" in text
        assert "class   hex nonce, different each time" in text
        assert "seen in 3 of 3 turns" in text
        lines = text.splitlines()
        now = next(i for i, line in enumerate(lines) if line.startswith("  now"))
        start = lines[now + 1].index("^")
        assert lines[now][start:].startswith(numbered("nonce", 3))
        assert len(lines[now + 1].strip()) == 8
        assert max(map(len, lines)) <= 96

    def test_one_of_them(self, tmp_path):
        assert run("1", "--from", planted(tmp_path)).stdout.splitlines()[2] == (
            "  The first turn of its conversation: there was no turn before it to reuse."
        )
        assert "turn 2   compared with turn 1" in run("2", "--from", planted(tmp_path)).stdout

    def test_json(self, tmp_path):
        found = json.loads(run("last", "--json", "--from", planted(tmp_path)).stdout)
        assert found["path"] == "/system/1/text"
        assert found["kind"] == "hex nonce"

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("99", "there is no request 99"),
            ("0", "there is no request 0"),
            ("x", "is not a request: give its number"),
        ],
    )
    def test_none_of_them(self, tmp_path, name, said):
        assert said in one_line(run(name, "--from", planted(tmp_path)))

    def test_a_number_is_that_of_the_log_and_no_place(self, tmp_path):
        """Also while the request is not yet on disk; a proxy that is restarted begins anew."""
        file = planted(tmp_path)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line, number in zip(lines, (7, 8, 1, 7), strict=True):
            line["number"] = number
        file.write_text("\n".join(map(json.dumps, lines)))
        assert run("7", "--from", file).stdout.startswith("Request 7   client, session planted, tu")
        assert "turn 4   compared" in run("7", "--from", file).stdout
        said = one_line(run("2", "--from", file))
        assert "there is no request 2: the captures hold 1 to 8" in said

    def test_control_characters_do_not_reach_the_terminal(self, tmp_path):
        def change(body, turn):
            set_system(body, lambda text: f"\x1b[31m\x07 n={turn} \x9b\n{text}")

        file = tmp_path / "x.jsonl"
        file.write_text(jsonl(plant(chat(3), change)))
        for text in (run("--from", file).stdout, invoke("inspect", file).stdout):
            assert not {"\x1b", "\x07", "\x9b"} & set(text)

    def test_a_truncated_line_and_the_good_ones(self, tmp_path):
        file = planted(tmp_path)
        file.write_text(file.read_text()[:-100])
        result = run("--from", file)
        assert f"{file}:4:" in one_line(result)
        assert result.stdout.startswith("Request 3")


@pytest.fixture
def served():
    """A server that answers what it is told, on a free port."""
    answers = {}

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answers.get(self.path, (404, b'{"error": "there is no exchange 9"}'))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    thread.join()
    server.server_close()


class TestRunning:
    def test_the_same_text_as_from_a_capture(self, served, tmp_path):
        url, answers = served
        captured = run("last", "--from", planted(tmp_path))
        body = run("last", "--json", "--from", planted(tmp_path)).stdout.encode()
        answers["/_cacheproxy/diagnose/last"] = (200, body)
        assert run("--proxy", url).stdout == captured.stdout
        assert run("--proxy", url.removeprefix("http://")).stdout == captured.stdout

    def test_its_commands_name_that_proxy(self, served, tmp_path):
        """Where they would not find it by themselves: they are there to be copied."""
        url, answers = served
        told = json.loads(run("last", "--json", "--from", planted(tmp_path)).stdout)
        told["advice"] = [{"do": "a rule", "why": "cacheproxy diagnose 3 --propose"}]
        answers["/_cacheproxy/diagnose/last"] = (200, json.dumps(told).encode())
        assert f"cacheproxy diagnose 3 --propose --proxy {url}\n" in run("--proxy", url).stdout

    def test_an_exchange_it_does_not_know(self, served):
        url, _ = served
        assert one_line(run("9", "--proxy", url)) == "cacheproxy: there is no exchange 9"

    @pytest.mark.parametrize(
        "answer", [(200, b"<html>"), (500, b"{}"), (200, b"{}"), (200, b"[1]")]
    )
    def test_something_else_answers(self, served, answer):
        url, answers = served
        answers["/_cacheproxy/diagnose/last"] = answer
        assert url in one_line(run("--proxy", url))

    def test_nobody_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        line = one_line(run("--proxy", url))
        assert line.endswith("start it (cacheproxy serve), or look in a capture with --from FILE")


class TestPropose:
    @pytest.mark.parametrize("kind", ["uuid", "clock", "nonce", "counter"])
    @pytest.mark.parametrize("bodies", [anthropic, chat])
    def test_applied_it_covers_the_field(self, tmp_path, kind, bodies):
        file = planted(tmp_path, kind, bodies)
        result = run("--propose", "--apply", "--from", file)
        assert result.exit_code == 0
        config = default_file()
        assert f"Appended to {config}" in result.stdout
        (table,) = tomllib.loads(config.read_text())["rule"]
        assert config.read_text() in result.stdout
        assert config.stat().st_mode & 0o777 == 0o600
        after = invoke("inspect", file).stdout
        assert f"3 of 3     {table['name']}\n" in after
        assert "Nothing to propose" in run("--propose", "--from", file).stdout

    @pytest.mark.parametrize(
        ("agents", "client"),
        [
            (("codex_exec/0.169",), "codex"),
            (("OpenAI/JS 7.15.0",), "openai-sdk"),
            (("codex_exec/0.169", "QwenCode/0.24"), None),
            ((None,), None),
        ],
    )
    def test_seen_in_one_client_it_is_for_that_client(self, tmp_path, agents, client):
        files = [planted(tmp_path, agent=agent) for agent in agents]
        result = run("--propose", "--apply", *(part for file in files for part in ("--from", file)))
        assert result.exit_code == 0
        (table,) = tomllib.loads(default_file().read_text())["rule"]
        assert table.get("client") == client
        after = invoke("inspect", *files).stdout
        assert f"     {table['name']}\n" in after

    def test_shown_it_changes_nothing(self, tmp_path):
        file = planted(tmp_path)
        text = run("--propose", "--from", file).stdout
        assert len(tomllib.loads(text)["rule"]) == 1
        assert not default_file().exists()
        assert f"cacheproxy diagnose --propose --apply --from {file}\n" in text

    def test_what_a_user_wrote_gets_none_and_the_reason(self, tmp_path):
        def change(body, turn):
            body["messages"][1]["content"] = f"at {numbered('clock', turn)} hello there my friend"

        file = tmp_path / "x.jsonl"
        file.write_text(jsonl(plant(chat(4), change)))
        text = run("--propose", "--apply", "--from", file).stdout
        assert "the user wrote this text" in text
        assert tomllib.loads(text) == {}
        assert not default_file().exists()

    def test_json(self, tmp_path):
        found = json.loads(run("--propose", "--json", "--from", planted(tmp_path)).stdout)
        assert [one["path"] for one in found["found"]] == ["/system/1/text"]
        assert [one["why"] for one in found["found"]] == [""]
        assert tomllib.loads(found["found"][0]["toml"])["rule"]
        assert found["found"][0]["seen"] == [3, 3]

    def test_appended_to_what_is_there(self, tmp_path):
        config = tmp_path / "mine.toml"
        before = '# mine\nport = 8099\n\n[[rule]]\nname = "x"\nwhere = "system"\npattern = "x"\n'
        before += "pin = true"
        config.write_text(before)
        config.chmod(0o640)
        result = run("--propose", "--apply", "-c", config, "--from", planted(tmp_path))
        assert result.exit_code == 0
        assert config.read_text().startswith(before)
        assert len(tomllib.loads(config.read_text())["rule"]) == 2
        assert config.stat().st_mode & 0o777 == 0o640
        assert [file.name for file in tmp_path.iterdir() if "mine" in file.name] == ["mine.toml"]

    def test_a_named_file_is_made(self, tmp_path):
        config = tmp_path / "new" / "mine.toml"
        assert run("--propose", "--apply", "-c", config, "--from", planted(tmp_path)).exit_code == 0
        assert config.stat().st_mode & 0o777 == 0o600

    def test_a_link_stays_a_link(self, tmp_path):
        real, link = tmp_path / "real.toml", tmp_path / "link.toml"
        real.write_text("")
        link.symlink_to(real)
        run("--propose", "--apply", "-c", link, "--from", planted(tmp_path))
        assert link.is_symlink()
        assert "rule" in real.read_text()

    @pytest.mark.parametrize("before", ["port = ", "rule = []\n", "prot = 1\n"])
    def test_a_file_that_is_wrong_before_or_after_is_left(self, tmp_path, before):
        config = tmp_path / "mine.toml"
        config.write_text(before)
        result = run("--propose", "--apply", "-c", config, "--from", planted(tmp_path))
        assert str(config) in one_line(result)
        assert config.read_text() == before

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_cannot_be_written(self, tmp_path):
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o500)
        result = run("--propose", "--apply", "-c", folder / "x.toml", "--from", planted(tmp_path))
        assert "cannot write" in one_line(result)
