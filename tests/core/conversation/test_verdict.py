"""What turns did not have to evaluate, thanks to the edits."""

from cacheproxy.core.conversation.verdict import (
    Judgement,
    TokenCount,
    Verdict,
)
from tests import transcript


def verdict(expected, unedited, reason=None):
    return Verdict(
        Judgement.OK,
        reason,
        expected=TokenCount(expected, "measured"),
        unedited=TokenCount(unedited, "estimated"),
    )


def test_all_that_is_said():
    transcript.holds("verdict.txt", globals())
