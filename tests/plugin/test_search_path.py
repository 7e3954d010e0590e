"""Plugins are looked for everywhere Python looks, but not in the working directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproxy.plugin.search_path import entry_points, search_path, without_working_directory
from tests.plugin.installing import distribution
from tests.proxy.harness import environment, running, twistd


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return folder


def names():
    return [entry.name for entry in entry_points("cacheproxy")]


@pytest.mark.parametrize("entry", ["", ".", "{here}", "{link}", "{here}/../here"])
def test_the_working_directory_is_left_out(here, tmp_path, entry):
    """However it is spelled."""
    (tmp_path / "link").symlink_to(here)
    distribution(here, "evil", "evil", "evil")
    before = list(sys.path)
    sys.path.insert(0, entry.format(here=here, link=tmp_path / "link"))
    assert search_path() == [part for part in before if Path(part).is_absolute()]
    assert "evil" not in names()


def test_other_folders_stay(tmp_path, here):
    """Also those below it: a virtual environment may lie in a project."""
    inner = here / "venv" / "site-packages"
    distribution(inner, "inner", "inner", "inner")
    distribution(tmp_path / "other", "other", "other", "other")
    sys.path[:0] = [str(inner), str(tmp_path / "other")]
    assert search_path() == sys.path
    assert {"inner", "other"} <= set(names())


@pytest.mark.parametrize(
    ("given", "is_there"),
    [("{here}", True), (".", False), ("sub", False), ("/nowhere:{here}", True), ("", False)],
)
def test_an_absolute_python_path_counts_a_relative_one_does_not(here, monkeypatch, given, is_there):
    """It would be there wherever the process was started."""
    folder = here / "sub" if given == "sub" else here
    distribution(folder, "evil", "evil", "evil")
    sys.path.insert(0, str(folder))
    monkeypatch.setenv("PYTHONPATH", given.format(here=here))
    assert ("evil" in names()) is is_there


def test_an_editable_install_counts(here, tmp_path, monkeypatch):
    """A .pth file in a site-packages folder names the working directory."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "other.pth").write_text("import os\n# comment\n\n/no/such/folder\n")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])
    distribution(here, "mine", "mine", "mine")
    sys.path.insert(0, str(here))
    assert "mine" not in names()
    (packages / "mine.pth").write_text(f"{here}\n")
    assert "mine" in names()


def test_inside_a_site_packages_folder_nothing_is_hidden(here, monkeypatch):
    """Who stands in it has not come from elsewhere."""
    monkeypatch.setattr("site.getsitepackages", lambda: [str(here)])
    distribution(here, "mine", "mine", "mine")
    sys.path.append(str(here))
    assert "mine" in names()


def test_the_first_distribution_of_a_name_counts(here, tmp_path):
    """As for imports; spellings of one name are one."""
    for number, name in enumerate(("my-plugin", "My_Plugin", "my.plugin")):
        distribution(tmp_path / str(number), name, "x", entry=f"entry-{number}")
        sys.path.append(str(tmp_path / str(number)))
    assert [name for name in names() if name.startswith("entry-")] == ["entry-0"]


@pytest.mark.parametrize("file", ["METADATA", "entry_points.txt"])
@pytest.mark.parametrize("content", [None, "", "no such thing", "[cacheproxy\n=\n", "\xff\0"])
def test_a_broken_distribution_hides_no_other(here, tmp_path, file, content):
    """It is as good as not installed."""
    broken = distribution(tmp_path / "a", "broken", "x", "broken")
    if content is None:
        (broken / file).unlink()
    else:
        (broken / file).write_bytes(content.encode("latin-1"))
    distribution(tmp_path / "b", "sound", "x", "sound")
    sys.path[:0] = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert "sound" in names()


def test_without_the_working_directory_nothing_is_imported_from_it(here):
    """Afterwards the path is as it was, with what was put on it meanwhile."""
    (here / "evil_module.py").write_text("")
    sys.path.insert(0, "")
    before = list(sys.path)
    with without_working_directory():
        with pytest.raises(ImportError):
            import evil_module  # noqa: F401
        sys.path.append("/put/there")
    assert sys.path == ["/put/there", *before]


def test_a_working_directory_that_is_gone(here):
    """There is nothing to be loaded from it."""
    sys.path.insert(0, "")
    here.rmdir()
    assert "" not in search_path()


MAIN = "import sys; sys.argv[0] = 'x'; from cacheproxy.cli.main import main; main()"
TWISTD = twistd("--port", "0", "--upstream", "http://127.0.0.1:9")[3:]
FORMS = {
    "twistd -c": twistd("--port", "0", "--upstream", "http://127.0.0.1:9"),
    "twistd": [str(Path(sys.executable).with_name("twistd")), *TWISTD],
    "cacheproxy -c": [sys.executable, "-c", MAIN, "plugins"],
    "twisted -m": [sys.executable, "-m", "twisted", *TWISTD[TWISTD.index("cacheproxy") :]],
    "cacheproxy": [str(Path(sys.executable).with_name("cacheproxy")), "plugins"],
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_repository_of_somebody_elses_is_no_plugin(tmp_path, form):
    """Neither what it has for an entry point, nor what it calls by an installed plugin's name."""
    here, there = tmp_path / "cloned", tmp_path / "installed"
    marker = tmp_path / "it ran"
    evil = f"open({str(marker)!r}, 'a').write(__name__ + ' ')\n"
    hook = "from cacheproxy import Client, Rule, hookimpl\n@hookimpl\ndef cacheproxy_rules():\n"
    sound = hook + "    return [Rule('sound-rule', 'system', 'x', '', client=Client('*'))]\n"
    distribution(here, "evil", "evil_plugin", "evil")
    distribution(here, "sound", "evil_plugin", "evil-too", version="9.0")  # hides the real one
    for name in ("evil_plugin", "sound_plugin", "sound_helper"):
        (here / f"{name}.py").write_text(evil)
    distribution(there, "sound", "sound_plugin", "sound")
    (there / "sound_plugin.py").write_text("import sound_helper\n" + sound)
    (there / "sound_helper.py").write_text("")
    path = os.pathsep.join([str(there), *(part for part in sys.path if Path(part).is_absolute())])
    output = ""
    with running(
        FORMS[form],
        cwd=here,
        env=environment(tmp_path, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as child:
        for line in child.stdout:
            output += line
            if "Ready." in line:
                child.terminate()
    assert "sound-rule" in output, output
    assert "evil" not in output
    assert not marker.exists(), json.dumps(marker.read_text())
