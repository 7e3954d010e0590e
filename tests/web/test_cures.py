"""Rules for what broke a turn, from what the store keeps; the configuration read again."""

from dataclasses import replace

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.plugin.packages import configured
from cacheproxy.proxy.exchange.workers import LeftOutError
from cacheproxy.web.cures import Applying, Cures, ReloadError
from cacheproxy.web.pages import PageError
from cacheproxy.web.prompts import Prompts
from tests import installed
from tests.observe.exchanges import body

from .breaking import DATED, date
from .sample import Shown
from .test_dashboard import judged, result


async def at_once(work):
    return work()


async def no_reload():
    return "", []


@pytest.fixture
def made():
    """The pages, the store, and a turn that broke."""
    shown, store = Shown(), Store()
    known = Verdicts(store)
    first, second = (body(*texts, system=DATED.format(date(day))) for texts, day in (
        ("a", 20), (("a", "b", "c"), 21)
    ))  # fmt: skip
    turns = [
        judged(known, 1, first, usage=Usage(2000, 0, 5)),
        judged(known, 2, second, usage=Usage(2010, 3, 5)),
    ]
    shown.finish(*turns)
    cures = Cures(
        recent=shown.recent,
        store=store,
        found=configured(Config(), installed.packages()),
        edits=True,
        file="config.toml",
        profile=Profile,
        run=at_once,
        applying=Applying(no_reload, at_once),
        prompts=Prompts(),
    )
    return cures, store, turns


def test_what_is_read_for_it_is_not_kept(made):
    """Of a body of 2 MB that would be 20 MB, of each request that a rule is tried on."""
    cures, store, (first, broke) = made
    assert result(cures.of(broke)).names
    assert result(cures.texts(broke)).was
    lane = store.conversation(broke.session).lane(broke.place.lane)
    for request in (*lane.broken[:2], *store.requests(1 << 20)):
        assert not request.is_read
    with pytest.raises(PageError, match="did not break"):
        result(cures.of(first))


def test_it_is_worked_out_once(made):
    cures, _, (_, broke) = made
    assert result(cures.of(broke)) is result(cures.of(broke))


def test_why_nothing_was_worked_out_is_said(made):
    """Also once it was late so often that it is not tried any more."""
    cures, _, (_, broke) = made

    async def left_out(_):
        raise LeftOutError

    with pytest.raises(PageError, match="it took too long several times: restart"):
        result(replace(cures, run=left_out).of(broke))


def test_what_cannot_be_taken_back_is_said(made, tmp_path):
    """Somebody edits the file while it is read, and it cannot be used."""
    cures, _, (_, broke) = made
    file = tmp_path / "config.toml"

    async def reload():
        file.write_text("# mine")
        raise ReloadError("it is not read")

    cure = replace(result(cures.of(broke)), file=str(file))
    with pytest.raises(PageError, match="was edited since") as error:
        result(Applying(reload, at_once).apply("2", cure))
    assert error.value.status == 409
