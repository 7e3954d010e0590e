"""Claude Code's settings: five variables, and nothing else."""

import json
from dataclasses import replace

import pytest
from cacheproxy_claude_code.checks import cacheproxy_checkup
from cacheproxy_claude_code.env import cacheproxy_setup

from cacheproxy import Case, FindingState, Need

PROXY, SERVER = "http://127.0.0.1:8081", "http://localhost:8080"
FIX = "cacheproxy run claude"


@pytest.fixture
def settings(tmp_path):
    """Write a settings file and return the case, with the variables of the environment."""

    def case(env=None, text=None, **environ):
        if env is not None or text is not None:
            folder = tmp_path / ".claude"
            folder.mkdir(exist_ok=True)
            content = {"env": env, "apiKeyHelper": "SECRET"}
            (folder / "settings.json").write_text(json.dumps(content) if text is None else text)
        return Case(environ, tmp_path, PROXY, SERVER, 131_072)

    return case


def check(case, context=131_072, *, seen=False):
    found = cacheproxy_checkup(replace(case, context=context, seen=seen)).findings
    return {finding.name: finding for finding in found}


def test_without_claude_code_nothing_is_said(settings):
    """No folder, no variable, no request of it."""
    assert check(settings()) == {}


def test_the_settings_file_wins_over_the_shell(settings):
    found = check(settings({"ANTHROPIC_BASE_URL": SERVER}, ANTHROPIC_BASE_URL=PROXY))["claude"]
    assert found.state is FindingState.FAIL
    assert "in Claude Code's settings.json: this is the model server, past the proxy" in found.text
    assert found.fix == "set ANTHROPIC_BASE_URL there to http://127.0.0.1:8081"


@pytest.mark.parametrize(
    ("url", "state"),
    [
        ("http://localhost:8081/", FindingState.OK),
        ("http://127.0.0.1:8081", FindingState.OK),
        ("http://127.0.0.1:8080", FindingState.FAIL),
        ("https://api.anthropic.com", FindingState.WARN),
        ("http://SECRET:SECRET@x:1/", FindingState.WARN),
        ("nonsense", FindingState.WARN),
        ("http://[", FindingState.WARN),
    ],
)
def test_where_it_sends_its_requests(settings, url, state):
    """Loopback names are alike; neither a password nor another setting is printed."""
    found = check(settings({"ANTHROPIC_AUTH_TOKEN": "SECRET"}, ANTHROPIC_BASE_URL=url))
    assert found["claude"].state is state
    assert "SECRET" not in repr(found)


@pytest.mark.parametrize(
    ("url", "limits", "unset"),
    [
        (PROXY, {}, "CLAUDE_STREAM_IDLE_TIMEOUT_MS and API_TIMEOUT_MS not set"),
        (PROXY, {"CLAUDE_STREAM_IDLE_TIMEOUT_MS": "1"}, "read: API_TIMEOUT_MS not set"),
        (PROXY, {"CLAUDE_STREAM_IDLE_TIMEOUT_MS": "1", "API_TIMEOUT_MS": "1"}, None),
        ("https://api.anthropic.com", {}, None),
        (None, {}, None),
    ],
)
def test_a_limit_that_is_not_set_where_it_uses_the_proxy(settings, url, limits, unset):
    """Whether the variables stand in the shell or in the file."""
    environ = {"ANTHROPIC_BASE_URL": url} if url else {}
    for in_file, in_shell in ((limits, {}), ({}, limits)):
        found = check(settings(in_file, **in_shell, **environ)).get("patience")
        assert (found and (found.state, found.fix)) == (unset and (FindingState.NOTE, FIX))
        assert found is None or found.text.endswith(unset)


@pytest.mark.parametrize(
    ("environ", "context", "state"),
    [
        ({"ANTHROPIC_BASE_URL": PROXY}, 131_072, FindingState.WARN),
        ({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "200000"}, 131_072, FindingState.WARN),
        ({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072"}, 131_072, FindingState.OK),
        ({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "many"}, 131_072, FindingState.WARN),
        ({"ANTHROPIC_BASE_URL": PROXY}, 262_144, None),
        ({}, None, None),
    ],
)
def test_a_context_larger_than_the_servers_fails_long_conversations(
    settings, environ, context, state
):
    found = check(settings({}, **environ), context).get("window")
    assert (found and found.state) is state
    assert found is None or found.fix == (None if state is FindingState.OK else FIX)


@pytest.mark.parametrize("seen", [False, True])
def test_the_window_of_another_shell_is_not_known_here(settings, seen):
    """``cacheproxy env claude`` was followed there, perhaps: no warning."""
    found = check(settings({}), seen=seen)["window"]
    assert (found.state, found.fix) == (FindingState.OK, FIX)
    assert "131,072 tokens" in found.text


@pytest.mark.parametrize(
    ("env", "environ", "off"),
    [(None, "1", None), (None, "0", "this shell"), (0, "1", "Claude Code's settings.json")],
)
def test_the_header_that_is_off(settings, env, environ, off):
    """Either way to write it; a JSON number, too."""
    name = "CLAUDE_CODE_ATTRIBUTION_HEADER"
    case = settings(None if env is None else {name: env}, **{name: environ})
    found = check(case).get("header")
    assert (found is not None and f"=0 in {off}: " in found.text) is (off is not None)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"env": 5}', '{"env": {"ANTHROPIC_BASE_URL": 5}}', ""]
)
def test_a_settings_file_of_another_kind(settings, text):
    found = settings(text=text)
    texts = [finding.text for finding in cacheproxy_checkup(found).findings]
    assert ("Claude Code's settings.json is not JSON" in texts) is (text in ("{", ""))


def test_a_vendor_and_the_projects_files_lead_past_the_proxy(settings, tmp_path, monkeypatch):
    """The nearest file wins; what ``run`` tells goes before all but an administrator's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    case = settings({"ANTHROPIC_BASE_URL": SERVER, "HTTP_PROXY": "http://p:1", "NO_PROXY": "x.y"})
    local = tmp_path / ".claude/settings.local.json"
    local.write_text('{"env": {"ANTHROPIC_AUTH_TOKEN": "k", "CLAUDE_CODE_USE_BEDROCK": "1"}}')
    found = check(case)["claude"]
    assert found.state is FindingState.FAIL
    assert "CLAUDE_CODE_USE_BEDROCK in Claude Code's .claude/settings.local.json" in found.text
    printed = cacheproxy_setup(Need(PROXY))
    assert [line.split()[0] for line in printed.warnings] == [
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_USE_BEDROCK",
    ]
    started = cacheproxy_setup(Need(PROXY, token="secret", folder="/there"))
    assert started.warnings == ()
    assert started.launch.arguments == ("--settings", "/there/settings.json")
    env = json.loads(started.launch.files["settings.json"])["env"]
    assert (env["ANTHROPIC_BASE_URL"], env["CLAUDE_CODE_USE_BEDROCK"]) == (PROXY, "")
    assert env["NO_PROXY"] == env["no_proxy"] == "x.y,localhost,127.0.0.1,::1"
    assert env["ANTHROPIC_AUTH_TOKEN"] == "secret"  # theirs would be sent instead
    local.unlink()
    started = cacheproxy_setup(Need(PROXY, token="secret", folder="/there"))
    assert "secret" not in started.launch.files["settings.json"]
