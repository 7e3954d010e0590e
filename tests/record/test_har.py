"""Captured exchanges as an HTTP Archive, and back."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from cacheproxy.record.exchange import Exchange
from cacheproxy.record.files import read
from cacheproxy.record.har import from_har
from tests.record.test_jsonl import anything
from tests.record.test_transcripts import archive, entry_of, foreign

SCHEMAS = Path(__file__).parents[1] / "fixtures" / "har-schema"


@pytest.fixture(scope="session")
def schema():
    """A check of a HAR against the JSON Schema of HAR 1.2."""
    jsonschema = pytest.importorskip("jsonschema")
    referencing = pytest.importorskip("referencing")
    found = {file.name: json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")}
    registry = referencing.Registry().with_resources(
        (name, referencing.Resource.from_contents(one)) for name, one in found.items()
    )
    formats = jsonschema.Draft6Validator.FORMAT_CHECKER
    return jsonschema.Draft6Validator(
        found["har.json"], registry=registry, format_checker=formats
    ).validate


@given(anything)
def test_an_export_is_har_and_comes_back_whole(schema, captured):
    """As the schema has it, whatever was captured; what HAR has no word for stands in our field."""
    entry, document = entry_of(captured), archive(captured)
    schema(document)
    assert entry["time"] >= 0
    assert all(value >= -1 for value in entry["timings"].values())
    names = [name.lower() for name, _ in captured.response_headers]
    every = [*names, *(name for name, _ in captured.received.headers)]
    if b"content-encoding" not in names and not any(name.startswith(b":") for name in every):
        assert [one for one in from_har(document) if isinstance(one, Exchange)] == [captured]


def test_recorded_traffic_is_exported_as_har(schema, captures):
    """All of it, and it comes back the same."""
    records, _ = read(captures)
    document = archive(*records)
    schema(document)
    assert list(from_har(document)) == records


def test_a_har_file(tmp_path):
    """On one line or on many, alone or in a folder."""
    (tmp_path / "a.har").write_text(json.dumps(foreign()))
    (tmp_path / "b.har").write_text(json.dumps(foreign(), indent=2))
    (tmp_path / "c.har").write_text(json.dumps({"x": 1} | foreign(request={"postData": None})))
    records, (problem,) = read(tmp_path)
    assert len(records) == 3
    assert str(problem).startswith(f"{tmp_path / 'c.har'}:1: no request has its body")
