"""Ways to feed a translated stream."""

from cacheproxy.translate.reading import TranslationError


def through(stream, pieces):
    """All that comes out for ``pieces``, the end included."""
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.close()])


def feed_all(stream, pieces):
    """What came out, and the error that ended it, if any."""
    sent = b""
    try:
        for piece in pieces:
            sent += stream.feed(piece)
        sent += stream.close()
    except TranslationError as error:
        return sent, str(error)
    return sent, None


def assert_cuts_do_not_matter(stream, pieces):
    """Whole, byte by byte or as given: the same comes out, and the same is wrong. Return it.

    ``stream``: makes a new one.
    """
    whole = b"".join(pieces)
    expected = feed_all(stream(), [whole])
    for cut in (pieces, [whole[at : at + 1] for at in range(len(whole))]):
        assert feed_all(stream(), cut) == expected
    return expected
