"""The test prompts, against the real server."""

import re
from dataclasses import replace

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy import Rule
from cacheproxy.child.process import ChildProxy
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.doctor import server_checks
from cacheproxy.doctor.trial import PromptSender
from cacheproxy.doctor.trial_prompt import body, text
from cacheproxy.http_client import Site
from cacheproxy.plugin.packages import Configured
from tests import transcript
from tests.doctor.builders import CHECKED, HEADS, HERE, RULE, RUNS, facts, head


@pytest.fixture(scope="module")
def rules():
    billing = pytest.importorskip("cacheproxy_claude_code.billing")
    return [billing.BILLING_HEADER]


@pytest.fixture(scope="module")
def marks():
    """Another one for each trial."""
    return (f"mark{number:012}" for number in range(1000))


def measure(api, upstream, proxy, rules, model, mark, **more):  # noqa: PLR0917 (the parties)
    more = {"model": model, "heads": HEADS} | more
    return PromptSender(upstream=upstream, proxy=proxy, rules=rules, **more).measure(api, mark)


def check(trial, rules=(RULE,), kind="llama-server", tried=CHECKED):
    """The finding; these rules are on in the running proxy and here."""
    on = tuple(Rule(name, "system", "stamp", "", why="it changes") for name in rules)
    found = Configured(HERE.packages, (), on, frozenset(rules))
    checked = () if tried is None else (tried,)
    proxy = replace(RUNS, rules=tuple(rules))
    known = facts(kind, trials=(trial,), found=found, checked=checked, proxy=proxy)
    return next(server_checks.reuse(known))


def test_the_prompt_is_about_600_tokens_of_made_up_text():
    """Four to five characters a token; the mark stands right behind the header."""
    assert 2400 < len(text("x")) < 3000
    for api in (CHAT, MESSAGES):
        data = body(api, "m", head("1a2", "b3c4d"), "MARK").decode()
        header = r"x-anthropic-billing-header: cc_version=2\.1\.285\.1a2; .*?cch=b3c4d;"
        assert re.search(header + r".{0,40}\[cacheproxy doctor MARK\]", data)
        assert '"max_tokens":1' in data


@pytest.mark.llama
@pytest.mark.parametrize("api", [CHAT, MESSAGES], ids=lambda api: api.name)
def test_through_the_proxy_it_is_reused_and_directly_not(api, site, proxy, marks):
    """The figures are the server's own."""
    trial = measure(api, site, Site(proxy.url), (), "random", next(marks))
    prompt = trial.second.usage.prompt
    assert trial.error is None
    assert trial.through_proxy
    assert trial.first.usage.reused < 100
    assert prompt > 600
    assert trial.second.usage.reused == prompt - 1
    assert trial.without.usage.reused < 100
    assert trial.works
    finding = check(trial)
    assert finding.state is FindingState.OK
    assert f"reused {prompt - 1} of {prompt} tokens through the proxy (without: " in finding.text


@pytest.mark.llama
def test_the_installed_rules_do_the_same_in_this_process(site, rules, marks):
    trial = measure(CHAT, site, None, rules, "random", next(marks))
    assert trial.works
    assert "with the rules installed here" in check(trial).text


@pytest.mark.llama
def test_without_a_rule_the_server_is_not_blamed(site, marks):
    """The very same prompt is reused: so it is the header that is not made constant."""
    trial = measure(CHAT, site, None, (), "random", next(marks))
    assert not trial.works
    assert trial.same.is_reused
    off = check(trial, rules=("openclaw-message-id",))
    assert (off.state, "plugins" in off.fix) == (FindingState.WARN, True)
    broken = check(trial)
    assert broken.state is FindingState.FAIL
    assert "does not reach" in broken.text


@pytest.mark.llama
def test_without_a_client_package_one_prompt_is_sent_again(site, marks):
    trial = measure(CHAT, site, None, (), "random", next(marks), heads=None)
    assert trial.works
    assert trial.without is None
    found = check(trial, rules=(), tried=None)
    assert found.state is FindingState.OK
    assert "-token prompt twice: the second answer reused" in found.text


@pytest.mark.llama
def test_a_server_that_keeps_nothing(model, rules, marks):
    with LlamaServer(model, n_ctx=2048, cache_prompt=False) as server:
        trial = measure(CHAT, Site(server.url), None, rules, "random", next(marks))
    assert not trial.same.is_reused
    finding = check(trial)
    assert finding.state is FindingState.FAIL
    assert "the server reuses nothing" in finding.text


@pytest.mark.llama
def test_a_context_too_small_for_the_prompt(model, rules, marks):
    with LlamaServer(model, n_ctx=512) as server:
        trial = measure(CHAT, Site(server.url), None, rules, "random", next(marks))
    assert "/v1/chat/completions answered 400 (request (" in trial.error
    assert "larger context" in check(trial).fix


PATH = "/v1/chat/completions"


def tried(peer, answer, model="m"):
    """The trial on a server that gives this one answer, without rules and proxy."""
    return measure(CHAT, Site(peer({PATH: answer}).url), None, (), model, "x")


def test_a_server_without_usage(peer):
    """Nothing is claimed; the seconds may be compared."""
    trial = tried(peer, {"choices": []})
    assert not trial.is_measured
    assert trial.same is None
    finding = check(trial, kind="vLLM")
    assert finding.state is FindingState.WARN
    assert "does not say what it reused" in finding.text
    assert finding.fix == "start vLLM with --enable-prompt-tokens-details"


def test_an_answer_that_is_an_error_is_one_line(peer):
    def said(answer):
        trial = tried(peer, answer, "default")
        found = check(trial)
        assert found.state is FindingState.WARN
        return f"{trial.error}\nfix: {found.fix}"

    transcript.holds("refused.txt", globals() | locals())


def test_a_path_that_is_not_served_is_no_trial(peer, nobody):
    assert measure(MESSAGES, Site(peer({}).url), None, (), "m", "x") is None
    assert "Connection refused" in measure(CHAT, Site(nobody), None, (), "m", "x").error


def test_a_path_that_the_proxy_translates_is_measured_through_it_alone(peer):
    """Servers that speak Chat Completions only: nothing was served once, and then no more."""
    details = {"prompt_tokens": 640, "prompt_tokens_details": {"cached_tokens": 600}}
    said = {"role": "assistant", "content": "four"}
    choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
    answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    server = peer({PATH: answer | {"usage": details}})
    with ChildProxy(server.url) as through:
        trial = measure(MESSAGES, Site(server.url), Site(through.url), (), "m", "x")
    assert trial.error is None
    assert trial.translated
    assert trial.works
    assert trial.without is None
    found = check(trial)
    assert found.state is FindingState.OK
    assert found.text.endswith("through the proxy, which uses another path of the server")


def test_a_path_that_is_served_no_more_is_said_so(peer):
    answers = iter([{"usage": {"prompt_tokens": 640}}] * 2)
    gone = (404, {"error": {"message": "File Not Found"}})
    trial = tried(peer, lambda _: next(answers, gone))
    assert trial.error == "/v1/chat/completions answered once, and then no more"
