"""The list of models."""

from __future__ import annotations

import json

import pytest

from cacheproxy.translate.common.translation import TranslationError
from cacheproxy.translate.messages.models import models


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
    epoch = "1970-01-01T00:00:00Z"
    assert said == {
        "data": [
            {
                "type": "model",
                "id": "a",
                "display_name": "a",
                "lifecycle": "active",
                "created_at": "2023-11-14T22:13:20Z",
                "max_input_tokens": 4096,
            },
            {
                "type": "model",
                "id": "b",
                "display_name": "b",
                "lifecycle": "active",
                "created_at": epoch,
                "max_input_tokens": 8192,
            },
            {
                "type": "model",
                "id": "c",
                "display_name": "c",
                "lifecycle": "active",
                "created_at": epoch,
            },
        ],
        "has_more": False,
        "first_id": "a",
        "last_id": "c",
    }
    for one in said["data"]:
        anthropic.types.ModelInfo.model_validate_json(json.dumps(one), strict=True)


def test_no_models():
    """An empty list is one; anything else is not."""
    assert json.loads(models(b'{"data": []}'))["first_id"] is None
    for body in (b"", b"[]", b'{"data": 7}'):
        with pytest.raises(TranslationError):
            models(body)
