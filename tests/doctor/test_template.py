"""What is said of the server's template."""

from __future__ import annotations

import pytest

from cacheproxy.asking import HEALTH
from cacheproxy.doctor import proxy as proxies
from cacheproxy.doctor import template
from cacheproxy.doctor.finding import State
from cacheproxy.doctor.record import Record
from tests.doctor.builders import seen

SAYS = "refuses late system messages -> sent as user messages"
CLAUDE, OTHER = Record((seen(),)), Record((seen(client="cline"),))


def page(**placement):
    return {"version": "9", "upstream": {}, "placement": placement or None}


def test_what_the_proxy_has_learned_is_printed_in_its_words(peer):
    """From its health page."""
    health = page(setting="auto", late="refused", learned_by="its template", says=SAYS)
    seen = proxies.look(peer({HEALTH: health}).url, {})
    (found,) = template.check(seen.placement, CLAUDE)
    assert (found.name, found.state, found.text) == ("template", State.OK, SAYS)


@pytest.mark.parametrize(
    "placement",
    [None, 5, {}, {"late": 5, "says": "x"}, {"late": "unknown", "says": "not known yet"}],
)
def test_what_is_not_known_matters_to_clients_that_send_such_messages(peer, placement):
    """They are told what can be done; nothing is said where no such client came."""
    health = page() | {"placement": placement}
    seen = proxies.look(peer({HEALTH: health}).url, {})
    (found,) = template.check(seen.placement, CLAUDE)
    assert found.state is State.WARN
    assert "--placement user" in found.fix
    assert template.check(seen.placement, OTHER) == []
    assert template.check(seen.placement, None) == []
