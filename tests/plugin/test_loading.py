"""Client packages: found by entry point, loaded in order; a broken one harms no other.

A plugin that is a file: what it may be, and one line for everything else.
"""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import pytest

from cacheproxy.client_setup.need import Need
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import is_quick
from cacheproxy.core.rules.fold import normalize
from cacheproxy.plugin.loading import (
    entry_points,
    installed,
    load_file,
    package_for,
    search_path,
    setups,
    without_working_directory,
)
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from tests import transcript
from tests.plugin.installing import (
    NORMALIZE,
    RULE,
    SESSION,
    Watcher,
    distribution,
    imported,
    loaded,
    others,
    request_of,
    running,
)
from tests.proxy import harness
from tests.turning import TurningReactor

HOOK = "@hookimpl\ndef cacheproxy_"


def test_packages_are_loaded_in_the_order_of_their_names(install):
    """Not in the order of the file system, and with name, distribution and version."""
    for name in ("zeta", "alpha", "mid"):
        install(name, RULE.format(name))
    plugins = loaded()
    assert [(p.name, p.distribution, p.version) for p in plugins] == [
        (name, f"dist-plugin_of_{name}", "1.0") for name in ("alpha", "mid", "zeta")
    ]
    assert [rule.name for rule in plugins.normalizers()] == ["alpha", "mid", "zeta"]
    assert all(p.error is None and not p.blocked for p in plugins)


def test_an_entry_point_name_used_twice_costs_the_second_only(install):
    """The first package goes on working, hooks and all."""
    install("same", SESSION.format("one") + RULE.format("one"), module="plugin_of_one")
    install("same", SESSION.format("two") + RULE.format("two"), module="plugin_of_two")
    plugins = loaded()
    first, second = plugins
    assert (first.error, second.error) == (None, "PluginError: the name 'same' is taken")
    client = plugins.session(request_of()).client
    assert [rule.name for rule in plugins.normalizers()] == [client]
    assert first.rules[0].name == client
    assert running(plugins).manager.get_plugin("same") is first.plugin


@pytest.mark.parametrize(
    ("name", "target", "error"),
    [
        ("My_Plugin", None, "RuleError: rule 'My_Plugin'"),
        ("gone", "plugin_of_gone:nothing", "AttributeError"),
        ("capture", None, "PluginError: the name 'capture' is taken"),
        ("recent", None, "PluginError: the name 'recent' is taken"),
        ("log-line", None, "PluginError: the name 'log-line' is taken"),
    ],
)
def test_what_an_entry_point_may_not_be(install, name, target, error):
    """No rule's name, though its normalize hook is one; nothing at all; an observer of ours."""
    install(name, "@hookimpl\ndef cacheproxy_normalize(request): return []", target=target)
    packages = loaded()
    assert packages[0].error.startswith(error)
    running(packages).register(Watcher(), name)


def test_an_object_is_as_good_as_a_module(install):
    install(
        "thing",
        """
        class Thing:
            @hookimpl
            def cacheproxy_client(self):
                return Client("*")

            @hookimpl
            def cacheproxy_session(self, request):
                return "thing/1"

        thing = Thing()
        """,
        target="plugin_of_thing:thing",
    )
    assert loaded().session(request_of()).name == "thing/1"


def test_a_blocked_package_is_not_imported(install):
    install("bad", "raise SystemExit(3)")
    install("good", RULE.format("good"))
    plugins = loaded(block=("bad",))
    assert [(p.name, p.blocked, p.error) for p in plugins] == [
        ("bad", True, None),
        ("good", False, None),
    ]
    assert not imported("bad")
    assert imported("good")
    assert [rule.name for rule in plugins.normalizers()] == ["good"]


def test_blocking_a_package_that_is_not_there_is_an_error(install):
    install("good", RULE.format("good"))
    with pytest.raises(PluginError, match="block names no installed plugin: baad, wrong"):
        loaded(block=("wrong", "good", "baad"))


CODE = """
from cacheproxy import quick

{mark}
def find(request, previous):
    return []

@hookimpl
def cacheproxy_rules():
    return [CodeRule("code", "why", find)]
"""


@pytest.mark.parametrize("mark", ["@quick", "# not quick"])
def test_code_runs_without_a_guard_where_it_is_marked_as_quick(install, mark):
    """Whoever wrote it: rules, and both hooks."""
    hooks = SESSION.format("mine") + NORMALIZE.format(arguments="request", new="y")
    install("mine", CODE.format(mark=mark) + hooks.replace("@hookimpl", f"@hookimpl\n{mark}"))
    plugins, is_marked = loaded(), mark == "@quick"
    assert {rule.name: is_quick(rule) for rule in plugins.normalizers()} == {
        "code": is_marked,
        "mine": is_marked,
    }
    asks = {hook.plugin: getattr(hook.ask, "quick", False) for hook in plugins.plan().hooks}
    assert asks == {"mine": is_marked}


@pytest.mark.parametrize(
    "code", [RULE.format("a"), SESSION.format("a"), "@hookimpl\ndef cacheproxy_normalize(): ..."]
)
def test_a_package_that_does_not_say_whose_requests_it_is_for_is_not_loaded(install, code):
    """Else it would edit what other clients' users typed, and nobody would know."""
    install("alpha", code, client=False)
    (package,) = loaded()
    assert package.error.startswith("PluginError: the package does not name its client")
    assert loaded().normalizers() == []
    assert loaded().plan().hooks == []


def test_who_only_looks_needs_no_client(install):
    install("alpha", "@hookimpl\ndef cacheproxy_exchange_finished(exchanges): pass", client=False)
    (package,) = loaded()
    assert (package.error, package.client) == (None, None)


def test_what_was_installed_since_is_loaded_and_what_is_in_use_stays(install, tmp_path):
    """Python loads a module once: another version of it, or none, is for a restart."""
    for name in ("kept", "gone", "newer"):
        install(name, RULE.format(name))
    install("broken", "raise RuntimeError('not yet')")
    first = loaded()
    before = {package.name: package for package in first}
    for name in ("gone", "newer"):
        shutil.rmtree(tmp_path / f"dist_plugin_of_{name}-1.0.dist-info")
    distribution(tmp_path, "dist-plugin_of_newer", "plugin_of_newer", "newer", version="1.1")
    shutil.rmtree(tmp_path / "dist_plugin_of_broken-1.0.dist-info")
    install("broken", RULE.format("broken"))
    install("added", RULE.format("added"))
    found = loaded(earlier=first)
    assert [(package.name, package.outdated) for package in found] == [
        ("added", False),
        ("broken", False),
        ("gone", True),
        ("kept", False),
        ("newer", True),
    ]
    for package in found:
        assert package.error is None
        assert [rule.name for rule in package.rules] == [package.name]
        if package.name in ("gone", "kept", "newer"):
            assert package.plugin is before[package.name].plugin
    changed = Plugins(TurningReactor())
    changed.adopt(first)
    assert changed.adopt(found) == ["added", "broken"]


def test_who_takes_the_name_of_what_is_in_use_has_to_wait(install):
    install("same", RULE.format("one"), module="plugin_of_one", own_name="z")
    first = loaded()
    install("same", RULE.format("two"), module="plugin_of_two", own_name="a")
    found = loaded(earlier=first)
    assert {package.distribution: package.error for package in found} == {
        "z": None,
        "a": "PluginError: the name 'same' is taken",
    }


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
    sys.path.insert(0, "")
    here.rmdir()
    assert "" not in search_path()


MAIN = "import sys; sys.argv[0] = 'x'; from cacheproxy.cli.main import main; main()"
TWISTD = harness.twistd("--port", "0", "--upstream", "http://127.0.0.1:9")[3:]
FORMS = {
    "twistd -c": harness.twistd("--port", "0", "--upstream", "http://127.0.0.1:9"),
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
    with harness.running(
        FORMS[form],
        cwd=here,
        env=harness.environment(tmp_path, PYTHONPATH=path),
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


TABLE = """\
'''Makes a clock constant.'''
from cacheproxy import Client, Rule
CLIENT = Client("*")
RULES = (Rule("clock", "/a", r"\\d\\d:\\d\\d", "00:00", "the clock"),)
"""
HOOKS = """\
'''Finds what no rule can say.'''
import dataclasses
from cacheproxy import Client, Edit, hookimpl

@dataclasses.dataclass
class Known:
    word: "str"

@hookimpl
def cacheproxy_client():
    return Client("*")

@hookimpl
def cacheproxy_normalize(request):
    return [Edit("/a", Known("y").word, "why")]

@hookimpl
def cacheproxy_session(request):
    return "mine/1"
"""


@pytest.fixture
def write(tmp_path):
    """Write a plugin's file; return its path."""

    def one(code, name="rules.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    return one


def edited(packages, text):
    request = Request("POST", "/v1/messages", body=b'{"a": "%s"}' % text.encode())
    return normalize(request, packages.normalizers()).request.json["a"]


def files(*paths):
    return Packages().with_files([str(path) for path in paths])


def test_a_file_may_have_every_hook(write):
    """Its normalize hook is a rule with the file's name, spelt as rules are."""
    packages = files(write(HOOKS, "My_rules.py"))
    assert [package.name for package in packages] == ["My_rules"]
    assert [(rule.name, rule.why) for rule in packages.normalizers()] == [
        ("my-rules", "Finds what no rule can say.")
    ]
    assert edited(packages, "x") == "y"
    assert packages.session(Request("POST", "/v1/messages", body=b"{}")).name == "mine/1"
    assert not any(map(is_quick, packages.normalizers()))


def test_it_leaves_nothing_behind(write, tmp_path):
    """No byte code beside it, and no folder on Python's path."""
    before = list(sys.path)
    files(write(TABLE))
    assert [path.name for path in tmp_path.iterdir()] == ["rules.py"]
    assert sys.path == before


def test_what_is_wrong_is_one_line(install, write, tmp_path, monkeypatch):
    """It names the file, and its line where there is one; no other package is harmed."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # one module is written many times
    install("alpha", RULE.format("alpha"))
    install("zeta", SESSION.format("zeta"))

    def broken(code):
        also = SESSION.format("broken") if HOOK + "rules" in code else ""
        shutil.rmtree(tmp_path / "dist_plugin_of_broken-1.0.dist-info", ignore_errors=True)
        sys.modules.pop("plugin_of_broken", None)
        install("broken", also + code)
        first, found, last = plugins = loaded()
        assert (first.error, found.name, last.error) == (None, "broken", None)
        assert [rule.name for rule in plugins.normalizers()] == ["alpha"]
        assert plugins.session(request_of()).name == "zeta/1"
        assert found.error.isprintable()
        return found.error

    def named(name):
        before = dict(sys.modules)
        with pytest.raises(PluginError) as raised:
            files(tmp_path / name)
        assert sys.modules == before
        assert "\n" not in str(raised.value)
        return str(raised.value).replace(str(tmp_path), "FOLDER")

    def wrong(code):
        return named(write(code).name)

    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    transcript.holds("loading.txt", globals() | locals())


def test_a_file_that_does_not_come_to_its_end_is_named(write, capsys, monkeypatch):
    """While it is waited for: else nobody knows why the proxy does not start."""
    monkeypatch.setattr("cacheproxy.plugin.loading.SLOW_SECONDS", 0.0)
    waiting = "import sys, time\nwhile 'wait' not in sys.stderr.getvalue(): time.sleep(0.01)\n"
    path = write(waiting + TABLE)
    files(path)
    said = capsys.readouterr().err
    assert said.startswith(f"cacheproxy: plugin {path} is still being loaded")
    assert said.count("\n") == 1


def test_two_plugins_of_one_name_are_an_error_that_names_both(write, tmp_path):
    """Two files, or a file and an installed package."""
    (tmp_path / "other").mkdir()
    one, two = write(TABLE), write(TABLE, "other/rules.py")
    with pytest.raises(PluginError, match=rf"plugin {two}: {one} is also called 'rules'"):
        files(one, two)
    claude = write(TABLE, "claude-code.py")
    with pytest.raises(
        PluginError, match=r"cacheproxy-claude-code .* is also called 'claude-code'"
    ):
        Packages().load((), [str(claude)])


def test_a_file_named_twice_is_one_plugin(write):
    path = write(TABLE)
    assert len(files(path, path)) == 1


def test_block_keeps_a_file_from_being_run(write):
    path = str(write("raise RuntimeError"))
    (package,) = Packages().with_files([path], ["rules"])
    assert (package.blocked, package.rules) == (True, ())
    with pytest.raises(PluginError, match="block names no installed plugin: rulez"):
        Packages().with_files([], ["rulez"])


def test_a_file_that_others_may_write_is_loaded_with_a_warning(write):
    """What it says runs in the proxy; on some file systems nothing else can be had."""
    path = write(TABLE)
    assert load_file(path).warning is None
    path.chmod(0o646)
    assert load_file(path).warning == (
        f"every user of this machine may write {path}, which runs in the proxy: run chmod o-w on it"
    )


def test_only_a_file_whose_text_changed_is_run_again(write):
    """What another has learned since it was started stays."""
    one, two = write(TABLE), write(HOOKS, "two.py")
    before = files(one, two)
    write(TABLE.replace("00:00", "99:99"))
    after = before.with_files([str(one), str(two)])
    assert after[0].plugin is not before[0].plugin
    assert after[1].plugin is before[1].plugin
    assert edited(before, "12:34") == "y"  # those in force are what they were
    plugins = Plugins(TurningReactor())
    assert plugins.adopt(before) == ["rules", "two"]
    assert plugins.adopt(after) == ["rules"]
    assert plugins.adopt(after.with_files([str(two)])) == ["rules"]
    assert [package.name for package in plugins.packages] == ["two"]


SETUP = """
from cacheproxy import Setup
CLIENT = Client({client!r})
@hookimpl
def cacheproxy_setup(need): {does}
"""
NEED = Need("http://here")


def with_setup(name, does="return Setup({'URL': need.url})"):
    return SETUP.format(client=name, does=does)


def test_a_client_is_found_by_its_name_before_a_package_is(install):
    """Of two packages for one client, the first by name counts."""
    install("a-package", with_setup("mine"))
    install("b-package", with_setup("mine", "return None"))
    install("other", with_setup("a-package"))
    install("silent", "CLIENT = Client('silent')\nRULES = ()")
    found = partial(package_for, block=others())
    assert found("mine").client.has_setup
    assert sorted(setups(installed(others()))) == ["a-package", "mine"]
    assert found("mine").name == "a-package"
    assert found("a-package").name == "other"
    assert found("other").name == "other"
    assert found("mine").setup(NEED).variables == {"URL": "http://here"}


def test_one_that_is_not_there(install):
    with pytest.raises(PluginError, match="no client called 'mine' is installed; there is none"):
        package_for("mine", others())
    install("mine-package", "raise OSError('no disk')")
    install("silent", "CLIENT = Client('silent')\nRULES = ()")
    with pytest.raises(PluginError, match="there is none; mine-package cannot be loaded: OSError"):
        package_for("silent", others())


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise OSError('no disk')", "OSError: no disk"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return None", "PluginError: cacheproxy_setup returns a cacheproxy.Setup"),
        ("return 5", "PluginError: cacheproxy_setup returns a cacheproxy.Setup"),
    ],
)
def test_a_hook_that_fails_is_one_line_with_its_plugins_name(install, does, said):
    install("mine-package", with_setup("mine", does))
    with pytest.raises(PluginError) as caught:
        package_for("mine", others()).setup(NEED)
    assert str(caught.value) == f"plugin mine-package: cacheproxy_setup: {said}"
