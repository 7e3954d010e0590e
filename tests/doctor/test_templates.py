"""What doctor says of the templates of real servers."""

from __future__ import annotations

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.asking import Site
from cacheproxy.doctor import facts as asking
from cacheproxy.doctor import server_checks
from tests import needs
from tests.doctor.builders import facts
from tests.llama.templates import REWRITING, TEMPLATES

THINKING = "at the second user message this template drops the thinking of the turn before: "
APPENDS = "this template only appends to a conversation with tools and thinking"


@pytest.mark.llama
@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("inline", APPENDS, ""),
        ("keep", THINKING, "keeps it if it is asked to and the client sends it back"),
        ("tools", "at the second user message this template moves the tools", "; no fix is known"),
        ("clock", "the template prints the time: ", "again each time it changes"),
    ],
)
def test_what_a_template_does(tmp_path, name, begins, ends):
    """It was asked to render a few words; the texts are those of findings.txt."""
    needs.llama()
    model = write_model(tmp_path / "model.gguf", template=(TEMPLATES | REWRITING)[name])
    with LlamaServer(model, n_ctx=1024) as server:
        site = Site(server.url)
        found = asking.look_at_server(site)
        profile = asking.learned(site, found.profile, found.look.formats)
    (finding,) = server_checks.next_turns(facts(profile=profile))
    assert finding.text.startswith(begins)
    assert finding.text.endswith(ends)
