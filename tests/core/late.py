"""Conversations with late system messages, and how they go on."""

from hypothesis import strategies as st

from cacheproxy.core.adapt.late import place
from cacheproxy.core.adapt.placing import count_of
from cacheproxy.core.kinds.placement import Late, Placement, Treatment, alike
from cacheproxy.testing import request

IN_PLACE = alike(Late.REFUSED, "test")
JOINS_USER = Placement(IN_PLACE.system, IN_PLACE.developer, joins_user=True)
JOINS_TOOL = Placement(IN_PLACE.system, IN_PLACE.developer, joins_tool=True)
JOINS_BOTH = alike(Late.REFUSED, "test", joins=True)
MODES = [IN_PLACE, JOINS_USER, JOINS_TOOL, JOINS_BOTH]
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}
CACHE = {"cache_control": {"type": "ephemeral"}}
NEWS = "<system-reminder>\nnews\n</system-reminder>"


def text(words, **more):
    return {"type": "text", "text": words, **more}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def system(content, role="system", **more):
    return {"role": role, "content": content, **more}


def assistant(content):
    return {"role": "assistant", "content": content}


def call(*names):
    return assistant([{"type": "tool_use", "id": name, "name": "t", "input": {}} for name in names])


def result(name, content="done"):
    return {"type": "tool_result", "tool_use_id": name, "content": content}


HEAD = system("head")


def body_of(messages, api="messages"):
    if api == "responses":
        return {"instructions": "head", "input": messages}
    if api == "messages":
        return {"system": "head", "messages": messages}
    return {"messages": [HEAD, *messages]}


def placed(asked, placement=IN_PLACE):
    """The request after it is placed, and how many messages were; a second time there are none."""
    after, report = place(asked, placement)
    assert report is None or report.error is None, report
    again, more = place(after, placement)
    assert (again.body, more) == (after.body, None)
    return after, 0 if report is None else count_of(report.edits)


def sent(*messages, by=IN_PLACE, api="messages", count=None):
    """What goes on for ``messages``."""
    after, number = placed(request(body_of(list(messages), api), PATHS[api]), by)
    assert count in (None, number)
    items = after.json["input" if api == "responses" else "messages"]
    return items if api in ("messages", "responses") else items[1:]


CONTENTS = st.one_of(
    st.sampled_from(["", " ", "hi", NEWS, "\ud83d", None, 1]),
    st.lists(
        st.one_of(
            st.sampled_from(["", "a", "b"]).map(text),
            st.sampled_from(["1", "2", 3]).map(result),
            st.sampled_from([None, {}, {"type": "text"}, {"type": "image"}]),
            st.just({"type": "tool_result"}),
        ),
        max_size=3,
    ),
)
ITEMS = st.one_of(
    st.builds(user, CONTENTS),
    st.builds(system, CONTENTS, st.sampled_from(["system", "developer"])),
    st.builds(
        lambda role, content: system(content, role, images=["aGk="]),
        st.sampled_from(["system", "user", "tool"]),
        CONTENTS,
    ),
    st.builds(assistant, CONTENTS),
    st.builds(lambda content: {"role": "tool", "content": content}, CONTENTS),
    st.builds(lambda output: {"type": "function_call_output", "output": output}, CONTENTS),
    st.sampled_from([None, 1, "x", {}, {"role": []}, {"role": "system"}]),
)
TREATMENTS = st.builds(Treatment, st.sampled_from(Late), st.sampled_from(Late))
PLACEMENTS = st.builds(Placement, TREATMENTS, TREATMENTS, st.booleans(), st.booleans())
