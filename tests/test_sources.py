"""What is wrong with a setting is said in one plain sentence, with the line it stands in."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from cacheproxy.config import Config
from cacheproxy.sources import MistakeError, converted, ignored, tables
from cacheproxy.tables import AlarmTable, UpstreamTable


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """A few settings."""

    name: str = ""
    above: Annotated[float, Meta(gt=0)] = 1.0
    few: Annotated[int, Meta(le=10)] | None = None
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"nome": ""}, "nome is not a setting. Did you mean name?"),
        ({"colour": ""}, "colour is not a setting"),
        ({"above": 0}, "above must be a number above 0"),
        ({"few": 11}, "few must be a whole number of at most 10"),
        ({"few": "x"}, "few must be a whole number, not text"),
        ({"names": [1]}, "names must be text, not a whole number"),
        ({"name": {}}, "name must be text, not a table"),
        (7, "must be a table, not a whole number"),
    ],
)
def test_a_mistake_is_a_sentence(values, says):
    """Its key first, without a type's name of any language."""
    with pytest.raises(MistakeError) as caught:
        converted(values, Table)
    assert str(caught.value) == says


def test_a_table_is_counted_from_one():
    """As people count."""
    with pytest.raises(MistakeError) as caught:
        tables([{}, {"few": "x"}], Table, "thing")
    assert str(caught.value) == "[[thing]] number 2: few must be a whole number, not text"


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        (MistakeError("port", ""), 2),
        (MistakeError("name", "", "rule", 0), 4),
        (MistakeError("name", "", "rule", 1), 7),
        (MistakeError("", "", "rule", 1), 6),
        (MistakeError("name", "", "rule", 2), None),
        (MistakeError("name", ""), None),
        (MistakeError("na.e", "", "rule", 1), None),
    ],
)
def test_the_line_of_a_mistake(mistake, line):
    """In its own table, not where another one has a key of that name."""
    text = """# port = 1
"port" = 1
[[rule]]
  name = 'x'
  where = 'name = 1'
[[ rule ]]
name = 'y'
"""
    assert mistake.line(text) == line


def test_a_variable_that_is_misspelt_is_named():
    """The ones of others are not, nor those with the keys that the config file asks for."""
    environ = ["CACHEPROXY_PROT", "CACHEPROXY_PORT", "CACHEPROXY_CONFIG", "_CACHEPROXY_COMPLETE"]
    environ += ["CACHEPROXY_HOOK_SECRET", "CACHEPROXY_CLOUD_KEY"]
    config = Config(
        alarm=AlarmTable(secret_env="CACHEPROXY_HOOK_SECRET"),
        upstreams=(UpstreamTable("cloud", "http://localhost", key_env="CACHEPROXY_CLOUD_KEY"),),
    )
    assert list(ignored(environ, config)) == [
        "CACHEPROXY_PROT is ignored: it is not a setting. Did you mean CACHEPROXY_PORT?"
    ]
