"""A new API is one module: its value answers for it wherever something is asked."""

import subprocess
import sys

import pytest

PROGRAM = """
import json

from cacheproxy.core.dialects import dialects
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling

NEW = Dialect(
    name="parley",
    path="/talk",
    endpoints=(Endpoint("/talk", Purpose.CHAT, "parley"), Endpoint("/talk/size", Purpose.COUNT)),
    items="lines",
    head="rules",
    limits=("most",),
    as_chat=lambda body: {"messages": body["lines"]},
    key=b"Token: ",
    usage=(UsageSpelling(("read",), ("read",), ("wrote",), ("kept",), (), False, b\'"read"\'),),
    end=EndMarks(lambda message: message.get("over") is True, keys=((b\'"over"\', b"false"),)),
    sign=lambda _: b"..",
    error=lambda status, message: {"failed": message},
)
dialects.DIALECTS += (NEW,)
dialects.USAGES += NEW.usage

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.adapt.late import place
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request, messages_of
from cacheproxy.core.kinds.looking import question
from cacheproxy.core.template.short_prompts import short_prompt
from cacheproxy.translate.translation import chat_of
from cacheproxy.proxy.downstream.request import error_body

user, late = {"role": "user", "content": "Hi."}, {"role": "system", "content": "Be brief."}
body = {"model": "m", "rules": "Help.", "lines": [user, late]}
request = Request("POST", "/x/talk", (), json.dumps(body).encode())
assert request.dialect is NEW
prompt = prompt_of(request)
assert [one.text for one in prompt.of(Part.SYSTEM)] == ["Help."]
assert "Hi." in [one.text for one in prompt.segments]
assert request.opening == [["Help."]]
assert messages_of(request) == ("lines", [user, late])
placed, report = place(request, alike(Late.HOISTED, ""))
assert report.error is None and placed.json["lines"][1]["role"] == "user"
assert json.loads(short_prompt(request, 1, "n").body)["most"] == 1
assert question(request, NEW).target == "/x/talk"
assert chat_of(request)["messages"] == [user, late]
assert json.loads(error_body("/talk", 400, "no")) == {"failed": "cacheproxy: no"}
assert not dialects.endpoint_of("/talk/size").purpose.evaluates
reader = UsageReader("application/x-ndjson", ending=ending_of("/talk"))
reader.feed(b\'{"text": "a", "over": false}\\n\')
assert reader.is_cut
reader.feed(b\'{"over": true, "read": 9, "kept": 4, "wrote": 2}\\n\')
assert not reader.is_cut
assert reader.close() == Usage(9, 4, 2)
assert session_of(request).id != session_of(request.with_text("{}")).id
"""


@pytest.mark.slow
def test_its_value_among_the_dialects_is_all_it_takes():
    """Nothing else knows of it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
