"""The list of models."""

from __future__ import annotations

import json

import pytest

from cacheproxy.translate.translation import models
from cacheproxy.translate.translation_error import TranslationError


def test_models():
    """With dates, and how much fits where the server says it; valid by the SDK's types."""
    anthropic = pytest.importorskip("anthropic")
    listed = [
        {"id": "a", "created": 1700000000, "meta": {"n_ctx": 4096}},
        {"id": "b", "created": 10**18, "max_model_len": 8192},
        {"id": "c"},
        {"object": "model"},
    ]
    said = json.loads(models(json.dumps({"object": "list", "data": listed}).encode()))
    dates = "2023-11-14T22:13:20Z", *["1970-01-01T00:00:00Z"] * 2
    rooms = {"max_input_tokens": 4096}, {"max_input_tokens": 8192}, {}
    same = {"type": "model", "lifecycle": "active"}
    assert said["data"] == [
        same | {"id": name, "display_name": name, "created_at": date} | room
        for name, date, room in zip("abc", dates, rooms, strict=True)
    ]
    assert (said["has_more"], said["first_id"], said["last_id"]) == (False, "a", "c")
    for one in said["data"]:
        anthropic.types.ModelInfo.model_validate_json(json.dumps(one), strict=True)


def test_no_models():
    """An empty list is one; anything else is not."""
    assert json.loads(models(b'{"data": []}'))["first_id"] is None
    for body in (b"", b"[]", b'{"data": 7}'):
        with pytest.raises(TranslationError):
            models(body)
