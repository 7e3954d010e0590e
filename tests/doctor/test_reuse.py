"""The test prompts, against the real server."""

from __future__ import annotations

import re

import pytest

from cacheproxy.demo.proxy import ProxyService
from cacheproxy.doctor import outcome
from cacheproxy.doctor.finding import State
from cacheproxy.doctor.prompt import Header, body, text
from cacheproxy.doctor.reuse import Trial, measure
from cacheproxy.doctor.site import Site
from cacheproxy.embedded import LlamaServer


@pytest.fixture(scope="module")
def rules():
    billing = pytest.importorskip("cacheproxy_claude_code.billing")
    return [billing.BILLING_HEADER]


@pytest.fixture(scope="module")
def marks():
    """Another one for each trial."""
    return (f"mark{number:012}" for number in range(1000))


def check(trial, rules=("claude-billing-header",), kind="llama-server", has_package=True):
    return outcome.check(trial, rules, kind, has_package=has_package)


def test_the_prompt_is_about_600_tokens_of_made_up_text():
    """Four to five characters a token; the mark stands right behind the header."""
    assert 2400 < len(text("x")) < 3000
    for api in ("chat", "messages"):
        data = body(api, "m", Header("1a2", "b3c4d"), "MARK").decode()
        head = r"x-anthropic-billing-header: cc_version=2\.1\.285\.1a2; .*?cch=b3c4d;"
        assert re.search(head + r".{0,40}\[cacheproxy doctor MARK\]", data)
        assert '"max_tokens":1' in data


@pytest.mark.llama
@pytest.mark.parametrize("api", ["chat", "messages"])
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
    assert not trial.works_without
    finding = check(trial)
    assert finding.state is State.OK
    assert f"reused {prompt - 1} of {prompt} tokens through the proxy (without: " in finding.text


@pytest.mark.llama
def test_the_installed_rules_do_the_same_in_this_process(site, rules, marks):
    """Where no proxy runs yet."""
    trial = measure("chat", site, None, rules, "random", next(marks))
    assert trial.works
    assert trial.edited is True
    assert "with the rules installed here" in check(trial).text


@pytest.mark.llama
def test_on_messages_the_server_repairs_the_cch_alone(site, rules, marks):
    """As llama.cpp does since 2026: said, for it makes the proxy less needed."""
    trial = measure("messages", site, None, rules, "random", next(marks))
    assert trial.cch_only.is_reused
    assert not trial.without.is_reused


@pytest.mark.llama
def test_without_a_rule_the_server_is_not_blamed(site, marks):
    """The very same prompt is reused: so it is the header that is not made constant."""
    trial = measure("chat", site, None, (), "random", next(marks))
    assert not trial.works
    assert trial.same.is_reused
    assert trial.edited is False
    missing = check(trial, rules=(), has_package=False)
    assert (missing.state, missing.fix) == (State.WARN, "pip install cacheproxy-claude-code")
    off = check(trial, rules=("openclaw-message-id",))
    assert (off.state, "plugins" in off.fix) == (State.WARN, True)
    broken = check(trial)
    assert broken.state is State.FAIL
    assert "does not reach" in broken.text


@pytest.mark.llama
def test_a_server_that_keeps_nothing(model, rules, marks):
    """Its prompt cache is off: not even the very same prompt is reused."""
    with LlamaServer(model, n_ctx=2048, cache_prompt=False) as server:
        trial = measure("chat", Site(server.url), None, rules, "random", next(marks))
    assert not trial.same.is_reused
    finding = check(trial)
    assert finding.state is State.FAIL
    assert "the server reuses nothing" in finding.text


@pytest.mark.llama
def test_a_context_too_small_for_the_prompt(model, rules, marks):
    """The server's own words, and what mends it."""
    with LlamaServer(model, n_ctx=512) as server:
        trial = measure("chat", Site(server.url), None, rules, "random", next(marks))
    assert "/v1/chat/completions answered 400 (request (" in trial.error
    assert "larger context" in check(trial).fix


def chat(usage):
    return {"/v1/chat/completions": {"choices": [], **usage}}


def test_a_server_without_usage(peer):
    """Nothing is claimed; the seconds may be compared."""
    site = Site(peer(chat({})).url)
    trial = measure("chat", site, None, (), "m", "x")
    assert not trial.is_measured
    assert trial.same is None
    finding = check(trial, kind="vLLM")
    assert finding.state is State.WARN
    assert "does not say what it reused" in finding.text
    assert finding.fix == "start vLLM with --enable-prompt-tokens-details"


def test_a_server_that_drops_the_header_needs_no_rule(peer):
    """It reuses whatever the header says."""
    details = {"prompt_tokens": 640, "prompt_tokens_details": {"cached_tokens": 624}}
    trial = measure("chat", Site(peer(chat({"usage": details})).url), None, (), "m", "x")
    assert trial.works_without


def test_a_path_that_is_not_served_is_no_trial(peer):
    """But an unknown model is an error, though servers answer it with 404, too."""
    assert measure("messages", Site(peer({}).url), None, (), "m", "x") is None
    unknown = {"error": {"message": "The model `m` does not exist."}}
    site = Site(peer({"/v1/chat/completions": (404, unknown)}).url)
    trial = measure("chat", site, None, (), "m", "x")
    assert trial.error == "/v1/chat/completions answered 404 (The model `m` does not exist.)"
    assert check(trial).fix == "name a model with --model"


def test_a_server_that_lists_no_model_and_wants_one(peer):
    """As ``transformers serve``, in its own words."""
    refused = (400, {"detail": "Server is pinned to 'hf'; requested 'default'."})
    site = Site(peer({"/v1/chat/completions": refused}).url)
    trial = measure("chat", site, None, (), outcome.NO_MODEL, "x")
    assert "pinned to 'hf'" in trial.error
    assert check(trial).fix == "name a model with --model"


def test_a_server_that_is_gone(nobody):
    """One line."""
    trial = measure("chat", Site(nobody), None, (), "m", "x")
    assert "Connection refused" in trial.error
    assert check(trial).state is State.WARN


def test_a_key_that_is_missing(peer):
    """401 in whichever words."""
    refused = (401, {"error": "nope"})
    trial = measure("chat", Site(peer({"/v1/chat/completions": refused}).url), None, (), "m", "x")
    assert check(trial).fix == "give the server's key with --api-key KEY"


def test_a_path_that_the_proxy_translates_is_measured_through_it_alone(peer):
    """Servers that speak Chat Completions only: nothing was served once, and then no more."""
    details = {"prompt_tokens": 640, "prompt_tokens_details": {"cached_tokens": 600}}
    said = {"role": "assistant", "content": "four"}
    choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
    answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    server = peer({"/v1/chat/completions": answer | {"usage": details}})
    with ProxyService(server.url) as through:
        trial = measure("messages", Site(server.url), Site(through.url), (), "m", "x")
    assert trial.error is None
    assert trial.translated
    assert trial.works
    assert trial.without is None
    found = check(trial)
    assert found.state is State.OK
    assert found.text.endswith("through the proxy, which asks the server on another path")


def test_a_path_that_is_served_no_more_is_said_so(peer):
    """Where there is no proxy to translate it."""
    answers = iter([{"usage": {"prompt_tokens": 640}}] * 2)
    gone = (404, {"error": {"message": "File Not Found"}})
    server = peer({"/v1/chat/completions": lambda _: next(answers, gone)})
    trial = measure("chat", Site(server.url), None, (), "m", "x")
    assert trial.error == "/v1/chat/completions was served once, and then no more"


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("llama-server", "start llama-server with a larger context: -c 32768"),
        ("vLLM", "start vLLM with a larger context: --max-model-len 32768"),
        ("Ollama", "start Ollama with a larger context"),
        ("", "start this server with a larger context"),
    ],
)
def test_a_larger_context_is_asked_for_as_the_server_spells_it(kind, fix):
    trial = Trial("/v1/messages", False, error="/v1/messages answered 400 (context too small)")
    assert check(trial, kind=kind).fix == fix
