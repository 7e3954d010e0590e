"""Whether the proxy is needed at all."""

from __future__ import annotations

import pytest

from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.doctor.claude import ClaudeSetting, ClaudeSettings
from cacheproxy.doctor.conclusion import judge
from cacheproxy.doctor.reuse import Trial
from tests.doctor.builders import trial

PLAIN = ClaudeSettings({}, present=False)
OFF = ClaudeSettings(
    {"CLAUDE_CODE_ATTRIBUTION_HEADER": ClaudeSetting("0", "this shell")}, present=True
)
CLAUDE = ("claude-billing-header",)
BOTH = (*CLAUDE, "openclaw-message-id")
LOST, KEPT = trial(639, 33), trial(639, 639)
REPAIRED = trial(639, 46, cch_only=639, path="/v1/messages")
FAILED = Trial("/v1/messages", through_proxy=True, error="no")


@pytest.mark.parametrize(
    ("trials", "settings", "rules", "clients", "is_superfluous", "words"),
    [
        (
            [LOST],
            *(PLAIN, CLAUDE, (), False),
            "needed: on /v1/chat/completions 33 of 640 tokens are reused without the proxy",
        ),
        ([KEPT], PLAIN, CLAUDE, (), True, "with the rules and without"),
        ([KEPT, LOST], PLAIN, CLAUDE, (), False, "needed: on"),
        ([KEPT], PLAIN, BOTH, (), False, "perhaps for others; other rules: openclaw-message-id"),
        ([], OFF, CLAUDE, ("claude",), True, "no volatile header"),
        ([], OFF, CLAUDE, ("claude", "openclaw"), False, "perhaps for others"),
        ([], OFF, BOTH, (), False, "perhaps for others"),
        ([LOST, REPAIRED], PLAIN, CLAUDE, (), False, "on /v1/chat/completions 33 of 640"),
        ([REPAIRED], PLAIN, CLAUDE, (), False, "partly: on /v1/messages the server repairs"),
    ],
)
def test_whether_it_is_needed(  # noqa: PLR0917 (a table)
    trials, settings, rules, clients, is_superfluous, words
):
    """The header costs the prompt, or the server or the client's own switch sees to it."""
    need = judge(trials, settings, rules, clients)
    assert need.is_superfluous is is_superfluous
    assert words in need.text


@pytest.mark.parametrize("trials", [[], [FAILED], [trial(0, 0)]])
def test_nothing_is_said_where_nothing_is_known(trials):
    """Not sent, not answered, not reused."""
    assert judge(trials, PLAIN, CLAUDE, ()) is None


@pytest.mark.parametrize(("trials", "settings"), [([KEPT], PLAIN), ([], OFF)])
def test_a_template_that_takes_no_late_system_message_needs_the_proxy(trials, settings):
    """Whatever becomes of the header: without the proxy requests are refused, or read again."""
    need = judge(trials, settings, CLAUDE, ("claude",), alike(Late.REFUSED, ""))
    assert not need.is_superfluous
    assert need.text.startswith("needed: this server's template")
