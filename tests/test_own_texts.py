"""A share of fuzz/own_texts.py: with all packages, users' texts and tool results stay (law 2)."""

from collections import Counter
from itertools import islice

import pytest

from cacheproxy.core.rules.rule import Rule
from fuzz.own_texts import bodies
from tests import installed

RULES = [rule for package in installed.packages() for rule in package.rules]
SHARE = 1000


def test_no_package_edits_what_its_clients_user_typed_or_a_tool_returned():
    """And a second pass changes nothing; each rule has had something to do."""
    fired = Counter()
    assert [one for one in islice(bodies(7, RULES, fired), SHARE) if one] == []
    assert [rule.name for rule in RULES if not fired[rule.name]] == []


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("user", "a user's text"),
        ("/messages/*[role=tool]/content", "what tool said"),
        ("/messages/*[role=assistant]/content", "what assistant said"),
    ],
)
def test_it_would_be_seen(where, says):
    """A rule that edits such a text is found out."""
    rules = [*RULES, Rule("bad", where, "(?i)parse", "read", default=True)]
    found = [problem for one in islice(bodies(7, rules, Counter()), 300) for problem in one]
    assert any(says in problem for problem in found)
