"""Run a command in this process, and look at the one line of what cannot be done."""

from __future__ import annotations

import shlex
from pathlib import Path

from click.testing import CliRunner, Result

from cacheproxy.cli.main import main
from tests import golden


def invoke(*words: object, **environ: str) -> Result:
    """Run ``cacheproxy WORDS``."""
    return CliRunner().invoke(main, [str(word) for word in words], env=environ)


def printed(*words: object, **environ: str) -> str:
    """What a command says that succeeds."""
    result = invoke(*words, **environ)
    assert result.exit_code == 0, result.output
    return result.stdout


def one_line(result: Result, code: int = 2) -> str:
    """The only line on standard error of a command that ended with ``code``."""
    assert result.exit_code == code, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("cacheproxy: ")
    return line


def refused(*words: object, code: int = 2, **environ: str) -> str:
    """The line of a command that said nothing else."""
    result = invoke(*words, **environ)
    assert result.stdout == ""
    return one_line(result, code)


def commands(file: Path, name: str) -> list[str]:
    """The commands of a kept text, which ``transcript`` runs again."""
    lines = golden.sections(file)[name].splitlines()
    begin = "$ cacheproxy "
    return [line.removeprefix(begin) for line in lines if line.startswith(begin)]


def transcript(*commands: str, **shown: object) -> str:
    """What commands say, and their exit codes, as a terminal shows them; each is one line.

    ``shown``: what stands in the text (and in the commands) by these names, in capitals.
    """
    names = {name.upper(): str(value) for name, value in shown.items()}
    lines = []
    for command in commands:
        given = command
        for name, value in names.items():
            given = given.replace(name, value)
        result = invoke(*shlex.split(given))
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        lines += [f"$ cacheproxy {command}", *result.stdout.splitlines()]
        lines += [f"! {line}" for line in result.stderr.splitlines()]
        lines += [f"exit {result.exit_code}"] * bool(result.exit_code)
    text = "\n".join(lines)
    for name, value in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(value, name)
    return text
