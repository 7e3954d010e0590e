"""What is said of the server's template."""

from __future__ import annotations

import pytest

from cacheproxy.asking import HEALTH
from cacheproxy.core.placement.placement import Late, Placement, alike
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


def test_what_nothing_can_mend_is_a_warning_of_its_own(peer):
    """Beside what the proxy does about late messages, whoever came; the words are the same."""
    placement = Placement(
        alike(Late.REFUSED, "").system, alike(Late.UNKNOWN, "").system, refuses=("a", "b")
    )
    health = page() | {"placement": placement.as_dict() | {"setting": "auto"}}
    seen = proxies.look(peer({HEALTH: health}).url, {})
    said, *refused = template.check(seen.placement, None)
    assert (said.state, said.text) == (State.OK, placement.mended)
    assert [finding.state for finding in refused] == [State.WARN] * 2
    for finding, what in zip(refused, placement.refuses, strict=True):
        assert f"refuses {what}," in finding.text
        assert "--chat-template-file" in finding.fix
        assert f"it refuses {what}, which nothing can mend" in placement.says
        assert what not in placement.mended.split()


def test_what_nothing_can_mend_is_said_where_the_rest_is_not_known(peer):
    """And where no client came to which the rest matters."""
    health = page(late="unknown", says="not known", mended=5, refuses=["calls", 5])
    seen = proxies.look(peer({HEALTH: health}).url, {})
    assert [finding.fix for finding in template.check(seen.placement, None)] == [template.OTHER] * 2
    assert len(template.check(seen.placement, CLAUDE)) == 3
    assert proxies.look(peer({HEALTH: page(late="x", says="y", refuses=5)}).url, {}).placement
