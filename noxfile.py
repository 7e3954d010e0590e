"""What developers type: nox -l lists it. All but release run in the environment that nox is in."""

from __future__ import annotations

import sys
from pathlib import Path

import nox

nox.options.sessions = ["style", "quick"]
DIST = Path("build/dist")


def module(session: nox.Session, *arguments: str) -> None:
    """Run a module of the environment that nox is in."""
    session.run(sys.executable, "-m", *arguments, external=True)


@nox.session(venv_backend="none")
def quick(session: nox.Session) -> None:
    """Run the quick tests; nox -s quick -- tests/core/rules: those of a folder."""
    module(session, "pytest", "-m", "not slow", "-n", "2", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the tests of each change: all but the nightly ones."""
    module(session, "pytest", "-n", "auto", "--dist", "loadfile", *session.posargs)


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Run the tests that are left to the night."""
    module(session, "pytest", "-m", "nightly", "-n", "auto", "--dist", "loadfile", *session.posargs)


@nox.session(venv_backend="none")
def style(session: nox.Session) -> None:
    """Check style and types."""
    module(session, "ruff", "check", ".")
    module(session, "ruff", "format", "--check", ".")
    module(session, "mypy")


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Write the pages that repeat the code; build the site into build/site, and the news."""
    session.run(sys.executable, "docs/generate.py", external=True)
    module(session, "mkdocs", "build", "--strict")
    module(session, "towncrier", "build", "--draft", "--version", "next")


@nox.session
def release(session: nox.Session) -> None:
    """Build, check and try all packages (build/dist); nox -s release -- v0.2.0: of that version."""
    for tag in session.posargs:
        if f"version = {tag.removeprefix('v')}\n" not in Path("setup.cfg").read_text():
            session.error(f"setup.cfg has another version than {tag}")
    if DIST.exists():
        session.error(f"{DIST} is there from another time: remove it")
    session.install("build", "check-wheel-contents", "setuptools>=77", "twine")
    plugins = sorted([*Path().glob("clients/*/setup.cfg"), *Path().glob("tools/*/setup.cfg")])
    for folder in (".", *(str(setup.parent) for setup in plugins)):
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(DIST), folder)
    wheels = sorted(map(str, DIST.glob("*.whl")))
    session.run("twine", "check", "--strict", *wheels, *map(str, DIST.glob("*.tar.gz")))
    session.run("check-wheel-contents", *wheels)
    fresh = Path(session.create_tmp()) / "fresh"
    session.run("python", "-m", "venv", "--clear", str(fresh))
    session.run(str(fresh / "bin/pip"), "install", "--quiet", *wheels, external=True)
    for arguments in (("--version",), ("plugins",)):
        session.run(str(fresh / "bin/cacheproxy"), *arguments, external=True)
