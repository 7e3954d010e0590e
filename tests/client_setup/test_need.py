"""What a client has to know, and the words of shells (need.txt)."""

from tests import transcript


def test_what_a_client_is_told_and_in_which_words():
    transcript.holds("need.txt", globals())
