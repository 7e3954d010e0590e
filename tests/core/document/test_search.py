"""Patterns: they mean what ``re`` says, and have an end."""

import gc
import re
import sys
import zlib
from subprocess import run
from threading import Event, Thread
from time import thread_time

import pytest

from cacheproxy.core.document import search as module
from cacheproxy.core.document.search import SearchPattern, SlowPatternError
from tests import transcript

LATE = r"(?P<volatile>(\w|\s|\w\s)+)\$END", "word " * 22 + "! $END"
"""A pattern, and a text of 120 characters for which ``re`` takes longer than there is time."""


@pytest.fixture
def _little_time(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.02)
    monkeypatch.setattr(module, "SECONDS_PER_MIB", 0.05)


@pytest.mark.usefixtures("_little_time")
@pytest.mark.parametrize("text", [LATE[1], LATE[1] * 10_000], ids=["short", "long"])
def test_what_takes_too_long_ends(text):
    """Whether other threads run meanwhile (in a long text) or not; also at a place of it."""
    search = SearchPattern(LATE[0])
    with pytest.raises(SlowPatternError, match=r"its pattern took longer than 0\.\d+ s"):
        search.within(len(text)).search(text)
    with pytest.raises(SlowPatternError):
        search.within().match(text, 0)


@pytest.mark.usefixtures("_little_time")
def test_all_texts_of_a_body_have_the_time_of_one():
    """A pattern that needs a little for each of many texts is late, too."""
    search = SearchPattern(LATE[0]).within()
    assert search.search("nothing") is None
    with pytest.raises(SlowPatternError):
        search.search(LATE[1])
    with pytest.raises(SlowPatternError):
        search.search("nothing")


@pytest.mark.slow
def test_a_set_that_may_one_day_be_another_is_compiled_without_a_word():
    """``re`` warns of it, with a place in our own code."""
    made = "SearchPattern('[[a-y]z').within().search('[z')[0]"
    program = f"from {module.__name__} import SearchPattern; {made}"
    done = run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stderr == b""


def test_the_time_of_other_threads_does_not_count(monkeypatch):
    """A machine that is busy with much else makes no pattern late."""
    took, size = 0.0, 4
    monkeypatch.setattr(module, "SECONDS", 60)
    while took < 0.01:
        size += 1
        text = "-" * 70_000 + "word " * size + "! $END"
        began = thread_time()
        found = SearchPattern(LATE[0]).within().search(text)
        took = thread_time() - began
    monkeypatch.setattr(module, "SECONDS", 4 * took)
    stop, data = Event(), bytes(1 << 20)

    def work():
        while not stop.is_set():
            zlib.crc32(data)

    threads = [Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            again = SearchPattern(LATE[0]).within().search(text)
            assert again.span() == found.span()
            assert len(list(SearchPattern("-{1000}|w").within().finditer(text))) == 70 + size
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("ignore:Possible nested set")
@pytest.mark.parametrize(
    "pattern",
    [
        *("a{d}", "a{e<=1}", "{i}", "}{", "[[:alpha:]]", r"[\[:a]", r"[\\[:a]", "[]{e}]", "a{,2}b"),
        *("a{2}", "a{1,}", r"\N{DIGIT ONE}{2}", r"\{d}", "(?P<a>b)(?P=a)", r"(?i)\u017f", "", "a|"),
        *("(?#[)[[a]", "(?#{e})a", "(?x)a # [\n[[a]?", r"(?x)[#[] | a\# # {e}"),
    ],
)
def test_a_pattern_means_what_re_says(pattern):
    """Also where the package ``regex`` has more syntax: fuzzy matches, classes in sets."""
    search = SearchPattern(pattern).within()
    texts = ["", "aa", "aab", "bb", "11", "a{d}", "a{e<=1}", "{i}", "}{", ":]", "{d}"]
    for text in (*"ab{s\\", *texts):
        ours = [found.span() for found in search.finditer(text)]
        assert ours == [found.span() for found in re.finditer(pattern, text)]


def test_the_time_of_a_garbage_collection_is_not_the_patterns(monkeypatch):
    """With a large heap one takes longer than a pattern may."""
    monkeypatch.setattr(module, "SECONDS", 0.01)
    gc.freeze()  # what other tests hold is no part of it
    search = SearchPattern("b").within()
    heap = [[] for _ in range(50_000)]
    assert search.search("aab")
    for _ in range(20):
        gc.collect()
    assert search.search("aab")
    assert heap


def test_all_that_is_said():
    transcript.holds("search.txt", globals())
