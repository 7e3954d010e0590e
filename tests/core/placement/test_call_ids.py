"""Ids of calls in nine letters or digits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cacheproxy.core.placement.call_ids import short_id
from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.core.placement.placing import place
from cacheproxy.testing import request

ID = "call_d77ad732ce70448c8742bf7f"
SHORT = replace(alike(Late.INLINE, "test"), short_ids=True)


def test_a_call_and_its_result_have_the_same_in_every_api_and_a_second_pass_changes_nothing():
    """What has nine already stays."""
    bodies = {
        "/v1/chat/completions": {
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": ID}, {"id": "abcdefgh1"}]},
                {"role": "tool", "tool_call_id": ID, "content": ID},
            ]
        },
        "/v1/messages": {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": ID}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": ID}]},
            ]
        },
        "/v1/responses": {
            "input": [
                {"type": "function_call", "call_id": ID},
                {"type": "function_call_output", "call_id": ID, "output": "x"},
            ]
        },
    }
    for path, body in bodies.items():
        once, report = place(request(json.dumps(body), path=path), SHORT)
        text = json.dumps(body).replace(f': "{ID}"', f': "{short_id(ID)}"')
        wanted = text.replace(f'"content": "{short_id(ID)}"', f'"content": "{ID}"')
        assert once.body.decode() == wanted
        assert len(report.edits) == 2
        assert place(once, SHORT) == (once, None)


@pytest.mark.parametrize("spelled", ["", ID, "\ud800", "x" * 1_000_000])
def test_any_id_has_nine_signs_of_its_own(spelled):
    assert short_id(spelled).isalnum()
    assert len(short_id(spelled)) == 9
    assert short_id(spelled) != short_id(spelled + "x")
