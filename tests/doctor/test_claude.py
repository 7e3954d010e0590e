"""Claude Code's settings: three variables, and nothing else."""

from __future__ import annotations

import json

import pytest

from cacheproxy.doctor import claude
from cacheproxy.doctor.finding import State

PROXY, SERVER = "http://127.0.0.1:8081", "http://localhost:8080"


@pytest.fixture
def settings(tmp_path):
    """Write a settings file and return what is read of it and of the environment."""

    def read(env=None, text=None, **environ):
        if env is not None or text is not None:
            folder = tmp_path / ".claude"
            folder.mkdir(exist_ok=True)
            content = {"env": env, "apiKeyHelper": "SECRET"}
            (folder / "settings.json").write_text(json.dumps(content) if text is None else text)
        return claude.read(environ, tmp_path)

    return read


def check(settings, context=131_072, *, seen=False):
    found = claude.check(settings, PROXY, SERVER, context, seen=seen)
    return {finding.name: finding for finding in found}


def test_without_claude_code_nothing_is_said(settings):
    """No folder, no variable, no request of it."""
    assert check(settings()) == {}


def test_the_settings_file_wins_over_the_shell(settings):
    """As Claude Code itself has it."""
    found = check(settings({"ANTHROPIC_BASE_URL": SERVER}, ANTHROPIC_BASE_URL=PROXY))["claude"]
    assert found.state is State.FAIL
    assert "in Claude Code's settings.json: the model server itself" in found.text
    assert found.fix == "set ANTHROPIC_BASE_URL there to http://127.0.0.1:8081"


@pytest.mark.parametrize(
    ("url", "state"),
    [
        ("http://localhost:8081/", State.OK),
        ("http://127.0.0.1:8081", State.OK),
        ("http://127.0.0.1:8080", State.FAIL),
        ("https://api.anthropic.com", State.WARN),
        ("nonsense", State.WARN),
        ("http://[", State.WARN),
    ],
)
def test_where_it_sends_its_requests(settings, url, state):
    """Loopback names are alike."""
    assert check(settings(ANTHROPIC_BASE_URL=url))["claude"].state is state


def test_no_secret_is_printed(settings):
    """Neither another setting, nor a password in a URL."""
    found = check(
        settings({"ANTHROPIC_AUTH_TOKEN": "SECRET"}, ANTHROPIC_BASE_URL="http://SECRET:SECRET@x:1/")
    )
    assert "SECRET" not in repr(found)
    assert "http://x:1" in found["claude"].text


def test_the_context_it_assumes(settings):
    """More than the server has: long conversations fail."""
    unset = check(settings(ANTHROPIC_BASE_URL=PROXY))["window"]
    assert unset.state is State.WARN
    assert unset.fix == 'eval "$(cacheproxy env claude)"'
    assert check(settings(CLAUDE_CODE_MAX_CONTEXT_TOKENS="200000"))["window"].state is State.WARN
    assert check(settings(CLAUDE_CODE_MAX_CONTEXT_TOKENS="131072"))["window"].state is State.OK
    assert check(settings(CLAUDE_CODE_MAX_CONTEXT_TOKENS="many"))["window"].state is State.WARN
    assert "window" not in check(settings(ANTHROPIC_BASE_URL=PROXY), context=262_144)
    assert "window" not in check(settings({}), context=None)


@pytest.mark.parametrize("seen", [False, True])
def test_the_window_of_another_shell_is_not_known_here(settings, seen):
    """``cacheproxy env claude`` was followed there, perhaps: no warning."""
    found = check(settings({}), seen=seen)["window"]
    assert found.state is State.OK
    assert "131,072 tokens" in found.text
    assert found.fix == 'eval "$(cacheproxy env claude)"'


def test_the_header_that_is_off(settings):
    """Either way to write it; a JSON number, too."""
    assert settings(CLAUDE_CODE_ATTRIBUTION_HEADER="1").header_off is None
    assert settings(CLAUDE_CODE_ATTRIBUTION_HEADER="0").header_off is not None
    assert settings({"CLAUDE_CODE_ATTRIBUTION_HEADER": 0}).header_off.source.endswith(
        "settings.json"
    )


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"env": 5}', '{"env": {"ANTHROPIC_BASE_URL": 5}}', ""]
)
def test_a_settings_file_of_another_kind(settings, text):
    """It is no reason to stop."""
    found = settings(text=text)
    assert (found.unreadable is not None) == (text in ("{", ""))
    check(found)
