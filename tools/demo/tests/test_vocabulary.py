"""What is learnt from a text, and in which order."""

import sys
from collections import Counter

import pytest
from cacheproxy_demo.embedded.vocabulary import BYTE_SPELLING, WORD, learn_merges, learn_vocabulary


def test_every_byte_has_its_own_printable_character():
    assert len(set(BYTE_SPELLING)) == 256
    assert all(character.isprintable() for character in BYTE_SPELLING)
    assert BYTE_SPELLING[ord(" ")] == "Ġ"


def test_the_words_of_a_text_are_the_whole_text():
    text = 'a_b  {"x": [12, "ü²"]}\n\n\tdon\'t … \U0001f600 end '
    assert "".join(WORD.findall(text)) == text


def test_the_most_frequent_pair_comes_first_and_ties_by_spelling():
    words = Counter({"ab": 3, "cd": 5, "ef": 3})
    assert learn_merges(words, 9) == [("c", "d"), ("a", "b"), ("e", "f")]


def test_merges_build_on_merges_and_repeated_letters_merge_from_the_left():
    assert learn_merges(Counter({"aaaa": 2}), 9) == [("a", "a"), ("aa", "aa")]


def test_no_more_merges_than_the_limit():
    assert len(learn_vocabulary("some words and some more words", 4).merges) == 4


def test_without_a_limit_every_word_becomes_one_token():
    text = "The quick brown fox; the lazy dog, naïve."
    known = set(learn_vocabulary(text, 10_000).tokens)
    spelt = {"".join(BYTE_SPELLING[b] for b in word.encode()) for word in WORD.findall(text)}
    assert spelt <= known


def test_special_tokens_follow_the_ordinary_ones():
    vocabulary = learn_vocabulary("some words", 100)
    assert vocabulary.tokens[vocabulary.id_of("<|im_end|>")] == "<|im_end|>"
    assert vocabulary.id_of("<|endoftext|>") == len(vocabulary.ordinary)


def test_a_text_with_half_a_surrogate_pair_is_learnt_from_all_the_same():
    assert learn_vocabulary("cut \ud83d off", 100).merges


@pytest.mark.slow
def test_the_work_grows_as_the_text_does():
    def work(words):
        text = " ".join(f"word{n * n % 7919} and {n}" for n in range(words))
        return calls(lambda: learn_vocabulary(text, 16_384))

    assert work(3_000) < 3 * work(1_500)


def calls(work):
    """How many functions are called meanwhile."""
    count = 0

    def see(_, event, __):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
