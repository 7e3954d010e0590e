"""``cacheproxy diagnose --propose`` against a running proxy: proven there, applied, in use."""

import re
import shlex

import pytest

from tests import transcript
from tests.cli.invoking import transcript as printed
from tests.web.asking import get
from tests.web.breaking import WORDS, Breaking

SECRET = "kanarienvogel"


@pytest.fixture
def breaking(tmp_path):
    (tmp_path / "proxy").mkdir()
    found = Breaking(tmp_path / "proxy")
    yield found
    assert SECRET not in found.proxy.output
    found.close()


@pytest.mark.slow
def test_what_it_proposes_and_applies(breaking, tmp_path):
    proxy, file = breaking.proxy, breaking.file

    def named(text):
        text = re.sub("(you are careful and write good code. )+", "WORDS", text)
        for path, name in ((file, "FILE"), (proxy.url, "PROXY"), (tmp_path, "FOLDER")):
            text = text.replace(str(path), name)
        return text

    def propose(number, words=""):
        """What the command prints, and how it ends."""
        command = f"diagnose {number} --propose --proxy {proxy.url} {words}"
        said = printed(command.strip()).splitlines()[1:]
        return named("\n".join(said)).replace(f"diagnose {number} ", "diagnose NUMBER ")

    def wrote(text):
        """Write the config file, and have it read."""
        file.write_text(text)
        breaking.read_again()

    def read():
        return file.read_text()

    def logged(since):
        """The command that the log gives for a break."""
        line = proxy.wait_for("system_changed: ", since=since)
        return line[line.index("cacheproxy diagnose") :]

    def sent(number, *texts, system, reused=1990):
        """What went up of the next turn: its system text, and the last message."""
        said = breaking.say(breaking.session(number), *texts, system=system, reused=reused)
        return named(said["system"]), said["messages"][-1]["content"]

    def cure(number):
        return get(proxy, f"/_cacheproxy/cure/{number}").body.decode()

    names = globals() | {name: each for name, each in locals().items() if name != "names"}
    transcript.holds("curing.txt", names | {"words": shlex.split})


def test_what_is_printed_is_toml_whatever_was_found():
    transcript.holds("curelines.txt", globals())


def dated(name="Today's date", *, before="be kind\n", words=WORDS):
    return f"{before}{name}: {{}}\n{words}"
