"""The list of models."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("openai")

from hypothesis import given
from openai.types import Model
from pydantic import TypeAdapter

from cacheproxy.translate.chat.models import models
from cacheproxy.translate.common.translation import TranslationError
from tests.translate.common.values import JSON

from .conversations import spelt

MODEL = TypeAdapter(Model)


def listed(*given):
    value = json.loads(models(spelt({"data": list(given), "has_more": False}).encode()))
    assert value["object"] == "list"
    for one in value["data"]:
        MODEL.validate_python(one, strict=True)
    return value["data"]


def test_models_of_a_messages_server():
    """Dates become seconds; what else it is called, the API has no word for."""
    given = {
        "type": "model",
        "id": "claude-x",
        "display_name": "Claude X",
        "created_at": "2025-02-19T00:00:00Z",
        "max_input_tokens": 200000,
    }
    assert listed(given) == [
        {
            "id": "claude-x",
            "object": "model",
            "created": 1739923200,
            "owned_by": "anthropic",
            "max_model_len": 200000,
        }
    ]


@pytest.mark.parametrize("date", ["2025-02-19T00:00:00", "2025-02-19T01:00:00+01:00", "2025-02-19"])
def test_dates_are_universal_time(date):
    """Unless they say another."""
    assert listed({"id": "m", "created_at": date})[0]["created"] == 1739923200


def test_what_is_there_already_stays():
    """Some servers answer with both shapes at once."""
    given = {"id": "m", "object": "model", "created": 7, "owned_by": "someone"}
    assert listed(given, {"no": "id"}, 7) == [given]


@pytest.mark.parametrize("date", ["soon", None, 7, "2025-02-30T00:00:00Z", "0001-01-01"])
def test_a_date_that_is_none(date):
    """It is unknown, or so long ago that it is as good as that."""
    assert listed({"id": "m", "created_at": date})[0]["created"] <= 0


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"data":7}'])
def test_what_is_no_list_is_an_error(body):
    """The server's."""
    with pytest.raises(TranslationError):
        models(body)


@given(JSON, JSON)
def test_any_list_is_read(one, date):
    """Whatever is in it."""
    listed(one, {"id": "m", "created_at": date, "created": one, "owned_by": date})
