"""What refusals taught of a server is remembered by what it depends on, until it is another."""

from cacheproxy.core.kinds.belief import Beliefs

KEY, OTHER = (None, "qwen"), (None, "glm")


def test_facts_are_of_one_adaptation_and_model_until_the_server_is_another():
    beliefs = Beliefs()
    beliefs.teach("tools", KEY, {"a": 1})
    handed_out = beliefs.taught["tools", KEY]
    beliefs.teach("tools", KEY, {"a": 2, "b": 3})
    beliefs.teach("tools", OTHER, {"a": 4})
    assert handed_out == {"a": 1}  # a thread may be at it
    assert beliefs.taught == {("tools", KEY): {"a": 2, "b": 3}, ("tools", OTHER): {"a": 4}}
    beliefs.forget()
    assert beliefs.taught == {}


def test_there_is_an_end_to_what_is_remembered():
    """The oldest goes; a client may name as many models, and bring as many tools, as it likes."""
    beliefs = Beliefs()
    for number in range(1034):
        beliefs.teach("tools", KEY, {number: True})
    assert [*beliefs.taught["tools", KEY]] == [*range(10, 1034)]
    for number in range(70):
        beliefs.teach("tools", (None, str(number)), {(): True})
    assert len(beliefs.taught) == 64
