"""The weight of breaks: the tokens that were evaluated again, not their number."""

FELT = 0.1
"""Share of all prompt tokens from which somebody should look. A turn may lose a twentieth before it
is called a break at all (``core.verdict``): twice that is more than turns that just missed it."""
BROKEN = 0.25
"""Share from which the cache is said to be breaking. One turn that loses everything, of the four
or fewer that there were, reaches it; the odd break of a long day does not."""


def share_in_words(share: float) -> str:
    """Return ``share`` as people read it, and what is little not as nothing."""
    if 0 < share < 0.001:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %"
