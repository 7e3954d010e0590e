"""The model's name is replaced and nothing else; who names none goes as it came."""

import pytest

from cacheproxy.core.adapt.model import NAME, ModelName
from cacheproxy.testing import request

from .adapted import adapted

QWEN = ModelName("qwen3")


def test_spaces_order_and_the_spelling_of_numbers_stay():
    asked = request('{"max_tokens" : 1e1,"model": "claude-\\u0041", "messages": []}')
    after, _, report = adapted(QWEN, asked, QWEN.given)
    assert after.body == b'{"max_tokens" : 1e1,"model": "qwen3", "messages": []}'
    assert (report.rule, [edit.path for edit in report.edits]) == (NAME, ["/model"])
    assert adapted(QWEN, after, QWEN.given) == (after, None, None)


@pytest.mark.parametrize("body", ['{"messages": []}', '{"model": 7}', "nonsense", ""])
def test_who_names_no_model_goes_as_it_came(body):
    asked = request(body)
    assert adapted(QWEN, asked, QWEN.given) == (asked, None, None)
