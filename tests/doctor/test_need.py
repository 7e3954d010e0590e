"""Whether the proxy is needed at all."""

from __future__ import annotations

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.doctor.claude import Setting, Settings
from cacheproxy.doctor.need import judge
from cacheproxy.doctor.reuse import Shot, Trial
from cacheproxy.doctor.template import Placement

PLAIN = Settings({}, present=False)
OFF = Settings({"CLAUDE_CODE_ATTRIBUTION_HEADER": Setting("0", "this shell")}, present=True)
CLAUDE = ("claude-billing-header",)
BOTH = (*CLAUDE, "openclaw-message-id")


def shot(reused):
    return Shot(Usage(prompt=640, reused=reused), 1.0)


def trial(second, without, cch_only=None, path="/v1/chat/completions"):
    return Trial(
        path,
        through_proxy=True,
        first=shot(0),
        second=shot(second),
        without=shot(without),
        cch_only=None if cch_only is None else shot(cch_only),
    )


def test_needed():
    """The header costs the prompt."""
    need = judge([trial(639, 33)], PLAIN, CLAUDE, ())
    assert not need.is_superfluous
    assert need.text == ("needed: on /v1/chat/completions 33 of 640 tokens are reused without it")


def test_a_server_that_does_not_mind_the_header():
    """On every path that was tried."""
    assert judge([trial(639, 639)], PLAIN, CLAUDE, ()).is_superfluous
    assert not judge([trial(639, 639), trial(639, 33)], PLAIN, CLAUDE, ()).is_superfluous
    with_others = judge([trial(639, 639)], PLAIN, BOTH, ())
    assert not with_others.is_superfluous
    assert "perhaps for others; other rules: openclaw-message-id" in with_others.text


def test_the_client_s_own_switch():
    """Nothing volatile is sent, unless another client sends something."""
    assert judge([], OFF, CLAUDE, ("claude",)).is_superfluous
    assert not judge([], OFF, CLAUDE, ("claude", "openclaw")).is_superfluous
    assert not judge([], OFF, BOTH, ()).is_superfluous


def test_a_server_that_repairs_part_of_the_header():
    """Said for what it is: within a conversation it is not needed, between them it is."""
    messages = trial(639, 46, cch_only=639, path="/v1/messages")
    need = judge([trial(639, 33), messages], PLAIN, CLAUDE, ())
    assert not need.is_superfluous
    assert need.text.startswith("partly: on /v1/messages the server repairs")
    assert "on /v1/chat/completions 33 of 640" in need.text


def test_nothing_is_said_where_nothing_is_known():
    """Not sent, not answered, not reused."""
    failed = Trial("/v1/messages", through_proxy=True, error="no")
    for trials in ([], [failed], [trial(0, 0)]):
        assert judge(trials, PLAIN, CLAUDE, ()) is None


def test_a_template_that_takes_no_late_system_message_needs_the_proxy():
    """Whatever becomes of the header: without the proxy requests are refused, or read again."""
    for trials, settings in (([trial(639, 639)], PLAIN), ([], OFF)):
        need = judge(trials, settings, CLAUDE, ("claude",), Placement("refused", "refuses"))
        assert not need.is_superfluous
        assert need.text.startswith("needed: this server's template")
