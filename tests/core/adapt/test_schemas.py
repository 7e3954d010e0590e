"""What is left of a schema, by levels: the least that is at fault goes, values stay."""

import json

import pytest

from cacheproxy.core.adapt.schemas import Level, changes, healed
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request
from tests import transcript

NONE, BOUNDS, PATTERNS, PLAIN, TYPED, NAMES, BARE = 0, *list(Level)[:6]


def of(**members):
    return {"type": "object", "properties": members}


TEXT, LIST, ANY = {"type": "string"}, {"type": "array"}, {}
INT, TRUE = {"type": "integer"}, {"type": "boolean", "const": True}
DEFS = {"$defs": {"X": TEXT}}
AT = [
    (BOUNDS, of(a=TEXT | {"maxLength": 524288}), of(a=TEXT)),
    (BOUNDS, of(a=LIST | {"minItems": 1, "maxItems": 3000}), of(a=LIST | {"minItems": 1})),
    (BOUNDS, {"anyOf": [{"minLength": -1}, TEXT]}, {"anyOf": [{}, TEXT]}),
    (BOUNDS, of(a={"type": "integer", "maximum": 1e308}), of(a={"type": "integer"})),
    (BOUNDS, {"items": [{"maxLength": 2000}, True]}, {"items": [{}, True]}),
    (PATTERNS, of(pattern=TEXT | {"pattern": "\\S"}), of(pattern=TEXT)),
    (PATTERNS, of(a=TEXT | {"format": "uri"}), of(a=TEXT)),
    (PLAIN, of(a=True, b=None), of(a=ANY, b=ANY)),
    (PLAIN, of(a={"type": "STRING"}, b={"type": "any"}), of(a=TEXT, b=ANY)),
    (PLAIN, of(a={"type": ["dict", "any", None]}), of(a={"type": ["object"]})),
    (PLAIN, of(a=TEXT | {"enum": []}), of(a=TEXT)),
    (PLAIN, {"type": "object", "properties": None, "required": None}, {"type": "object"}),
    (PLAIN, of(a={"type": "array", "items": True}), of(a={"type": "array"})),
    (PLAIN, of(a={"not": TEXT, "propertyNames": TEXT, "description": 3}), of(a=ANY)),
    (PLAIN, of(a={"$ref": "#/$defs/X", "title": "d"}) | DEFS, of(a=TEXT | {"title": "d"})),
    (PLAIN, of(a={"$ref": "#/properties/b"}, b=TEXT), of(a=TEXT, b=TEXT)),
    (PLAIN, of(a={"$ref": "#/$defs/Nope"}, b={"$ref": "https://e.com/x"}), of(a=ANY, b=ANY)),
    (PLAIN, of(a={"$ref": 1}, b={"$ref": "#x"}), of(a=ANY, b=ANY)),
    (PLAIN, of(a={"$ref": "#"}), of(a=of(a={"type": "object"}))),
    (PLAIN, {"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}}, {}),
    (PLAIN, {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": TEXT}}, TEXT),
    (TYPED, of(a={"anyOf": [{"type": "null"}, TEXT]}), of(a=TEXT)),
    (TYPED, of(a={"allOf": [TEXT, {"minLength": 1}]}), of(a=TEXT | {"minLength": 1})),
    (TYPED, of(a={"oneOf": [{"anyOf": [INT]}, TEXT], "title": "t"}), of(a=INT | {"title": "t"})),
    (TYPED, of(a={"type": ["null", "integer"]}), of(a=INT)),
    (TYPED, of(a={"enum": [1]}, b={"const": True}), of(a={"enum": [1]} | INT, b=TRUE)),
    (TYPED, of(a=ANY, b=LIST), of(a=TEXT, b=LIST | {"items": {}})),
    (TYPED, {"properties": {}}, of()),
    (PLAIN, True, {}),
    (PLAIN, None, {}),
]  # fmt: skip


@pytest.mark.parametrize("level", Level)
def test_neither_depth_nor_cycles_raise(level):
    deep = {}
    for _ in range(1000):
        deep = {"type": "object", "properties": {"a": deep}, "minLength": 5000}
    edits = list(changes(deep, healed(deep, level), (), ""))
    assert len(edits) <= 17
    assert all(edit.path.count("/") <= 17 for edit in edits), "each step down would be read anew"
    # Each of these refers twice to the next, and the last to the first.
    names = [f"d{number}" for number in range(30)]
    knot = {
        name: of(a={"$ref": f"#/$defs/{after}"}, b={"$ref": f"#/$defs/{after}"})
        for name, after in zip(names, [*names[1:], names[0]], strict=True)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": knot}
    assert len(json.dumps(healed(schema, level))) < 20_000


def test_edits_make_it_what_it_is_healed_to():
    """Each is as small as it can be, and what none names keeps its bytes."""
    for level, schema, expected in AT:
        asked = request(f'{{"x" : 1e2, "s": {json.dumps(schema)} , "s2":[ ]}}', "/v1/messages")
        edits = list(changes(schema, healed(schema, level), ("s",), "why"))
        body = apply(asked.document, edits)
        assert json.loads(body)["s"] == expected
        assert body.startswith(b'{"x" : 1e2, "s": ')
        assert body.endswith(b' , "s2":[ ]}')


def test_all_that_is_said():
    transcript.holds("schemas.txt", globals())
