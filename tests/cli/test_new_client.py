"""A new client package installs and passes its own tests, as it is."""

import os
import subprocess
import sys
from functools import partial

import pytest

from tests.cli.invoking import invoke

made = partial(invoke, "new-client")


@pytest.mark.slow
def test_it_installs_and_its_tests_pass(tmp_path):
    """Then the proxy's commands see it."""
    result = made("my-agent", "--folder", tmp_path)
    assert result.exit_code == 0, result.output
    folder, target = tmp_path / "cacheproxy-my-agent", tmp_path / "installed"
    assert f"made {folder}/cacheproxy_my_agent.py" in result.output
    environ = os.environ | {"PYTHONPATH": str(target)}

    def run(*arguments, cwd=tmp_path, exits=0):
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            cwd=cwd,
            env=environ,
        )
        assert done.returncode == exits
        return done.stdout

    alone = ("--no-deps", "--no-index", "--no-build-isolation")
    run("pip", "install", "-q", *alone, "--target", str(target), str(folder))
    assert "8 passed" in run("pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=folder)
    assert "my-agent-pin-date" in run("cacheproxy", "plugins")
    assert "OPENAI_BASE_URL" in run("cacheproxy", "env", "my-agent", exits=1)  # no proxy runs


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("My Agent", "'My Agent' is not a valid name: write lower-case words joined by dashes"),
        ("../x", "'../x' is not a valid name"),
        ("a" * 21, "is not a valid name: a client's name must be a lower-case word of up to 20"),
        ("there", "cacheproxy-there already exists"),
    ],
)
def test_what_cannot_be_made_is_one_line(tmp_path, name, says):
    """And nothing is written."""
    (tmp_path / "cacheproxy-there").mkdir()
    result = made(name, "--folder", tmp_path)
    assert result.exit_code == 2
    assert says in result.output
    assert len(result.output.splitlines()) == 1
    assert [*tmp_path.rglob("*")] == [tmp_path / "cacheproxy-there"]


def test_a_folder_that_is_not_there(tmp_path):
    """It is named."""
    result = made("x", "--folder", tmp_path / "none")
    assert result.exit_code == 2
    assert "No such file" in result.output
