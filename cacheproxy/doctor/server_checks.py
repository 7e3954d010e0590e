"""Checks of the model server: its own pages, the test prompts' results, its memory and template."""

from __future__ import annotations

from collections.abc import Iterator

from cacheproxy.client_setup.finding import Finding, fail, ok, warn
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.kinds.known import EXAMPLE
from cacheproxy.core.kinds.placement import Late
from cacheproxy.core.kinds.profile import Thinking, described
from cacheproxy.core.kinds.status import MetricsPage
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.doctor.facts import Examination
from cacheproxy.doctor.trial import APIS, NO_MODEL, Trial, TrialOutcome
from cacheproxy.http_client import shown
from cacheproxy.observe.failures import Fault

RAM_OFF = "off: a slot's prompt is lost when another conversation takes the slot"
_FLAG = EXAMPLE.settings.template
OTHER_TEMPLATE = f"start the server with another chat template: {EXAMPLE.name} {_FLAG}"
_CURE = "; the template keeps it if it is asked to and the client sends it back"
_WITHOUT_CURE = "; cacheproxy knows no chat_template_kwargs that make the template keep it"
_OPTION = (
    "start the proxy with --keep-thinking yes: the proxy then asks the template, and gives back "
    "what clients drop"
)
_SILENT = "the server does not say what it reused"
_FROZEN = "the server's counter of reused tokens never moved, which proves nothing"
_WHEN = {"the date": "once a day", "the time": "each time it changes"}


def answering(facts: Examination) -> Iterator[Finding]:
    """Check that the server answers, and that its counters can be read."""
    upstream, server = facts.upstream, facts.server
    if server is None or upstream.look is None:
        yield fail("upstream", upstream.problem or "", upstream.fix)
        return
    seconds, kind = upstream.seconds, facts.kind
    took = f"{max(1, seconds * 1e3):.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    yield ok("upstream", f"{server.summary} at {shown(upstream.url)} answers in {took}")
    flag = kind.settings.metrics
    if not flag:
        return
    if upstream.look.metrics is MetricsPage.OFF:
        text = f"the server was started without {flag}, so nobody tells the speed that some "
        text += "of its answers do not"
        yield warn("metrics", text, f"add {flag} to the {kind.name} command line")
    elif upstream.look.sample is not None:
        figures = upstream.look.sample.figures
        since = f"{figures.evaluated or 0:,.0f} prompt tokens evaluated"
        since += f" and {figures.reused:,.0f} reused" if figures.reused is not None else ""
        yield ok("metrics", f"/metrics is on: {since} since its start")


def reuse(facts: Examination) -> Iterator[Finding]:
    """Report the test prompts' results, or why none was sent."""
    for trial, outcome in zip(facts.trials, facts.outcomes, strict=True):
        yield _of_trial(facts, trial, outcome)
    measured = [trial.second for trial in facts.trials if trial.is_measured]
    if any(shot.is_counted for shot in measured if shot is not None):
        text = "only /metrics tells what was reused; the answers do not, so the proxy does not "
        text += "know it where several requests run at the same time"
        yield warn("reports", text, _saying(facts))
    if facts.not_sent:
        fix = "cacheproxy doctor --send"
        yield warn("reuse", f"test prompts were not sent: {facts.not_sent}", fix)
    elif facts.server is not None and not facts.trials:
        yield _not_tried(facts)


def _not_tried(facts: Examination) -> Finding:
    """Return the finding on why no test prompt was sent, and what to do."""
    server = facts.server
    assert server is not None
    if facts.send is False:
        return warn("reuse", "not tried, since --no-send was given")
    if not facts.edits:
        text = "not tried: the server is not on your own network, and the proxy edits nothing there"
        return warn("reuse", text, "set edit_remote if the server is yours")
    if facts.kind.serving.loads_models and not facts.is_named:
        text = f"not tried: {server.kind} would load a model for the test, "
        text += "and perhaps unload another one"
        return warn("reuse", text, "name a model with --model")
    text = f"not tried: the server serves neither {' nor '.join(api.path for api in APIS)}"
    state = warn if facts.kind.reuse.similarity else fail
    return state("reuse", text, "name the model server's root URL with --upstream")


def _of_trial(facts: Examination, trial: Trial, outcome: TrialOutcome) -> Finding:
    """Return the finding on one trial: what was reused, and the cure if that is too little."""
    if trial.error is not None:
        return warn("reuse", trial.error, _mend(facts, trial.error))
    first, second, without = trial.first, trial.second, trial.without
    assert first is not None
    assert second is not None
    what = facts.heads.what if facts.heads is not None else ""
    how = "through the proxy" if trial.through_proxy else "with the rules installed here"
    if trial.translated:
        how += ", which uses another path of the server"
    prompt = f"{second.usage.prompt:,}-token " if second.usage.prompt else ""
    if outcome is TrialOutcome.SHORT:
        text = f"{trial.path}: a {prompt}prompt is too short for this test: the server reuses only "
        text += f"whole blocks of {second.memory.block or 1:,} tokens"
        return warn("reuse", text)
    if outcome is TrialOutcome.UNTOLD:
        other = f"with another {what} " if what else ""
        text = f"{trial.path}: {_FROZEN if trial.is_frozen else _SILENT}. A {prompt}prompt took "
        text += f"{first.wall:.2f} s, again {other}{second.wall:.2f} s {how}"
        text += f", and {without.wall:.2f} s without" if without is not None else ""
        fix = _saying(facts) or "compare the seconds; cacheproxy demo --upstream URL shows more"
        return warn("reuse", text, fix)
    if outcome is TrialOutcome.SEVERAL:
        text = f"{trial.path}: one {prompt}prompt was sent several times {how}; one answer reused "
        text += "it and another did not. Several servers take turns to answer, and the router does "
        text += "not keep a conversation at one server. (If there is only one server, other "
        text += "requests pushed the prompt out.)"
        return fail("reuse", text, facts.router_cure)
    sent = f"{trial.path}: sent one {prompt}prompt twice"
    sent += f" with different {what}s: " if what else ": "
    if outcome is TrialOutcome.WORKS:
        text = f"{sent}the second answer reused {second.figures} tokens {how}"
        text += f" (without: {without.usage.reused or 0:,})" if without is not None else ""
        return ok("reuse", text)
    text = f"{sent}the second answer reused only {second.figures} tokens {how}"
    if trial.has_yielded:
        return warn("reuse", f"{text}; doctor did not send the prompts that would tell why")
    if trial.same is None or outcome is TrialOutcome.KEEPS_NOTHING:
        text += "; the same prompt sent again reused no more, so the server reuses nothing"
        return fail("reuse", text, _caching(facts))
    text += f"; the same prompt sent again reused {trial.same.figures}"
    if facts.tried is None or facts.heads is None:
        return fail("reuse", text, _caching(facts))
    if outcome is TrialOutcome.NOT_REUSED:
        text += ": the rule for the header does not reach the requests"
        fix = "look in the proxy's log: is this another proxy, or another upstream?"
        return fail("reuse", text, fix)
    text += f": no rule for this header is on, which matters if you use {facts.tried.client.called}"
    return warn("reuse", text, f"switch {facts.heads.rules[0]} on (cacheproxy plugins)")


def _saying(facts: Examination) -> str | None:
    """Return the advice that makes a server report its reuse, None if there is none."""
    flag = facts.kind.settings.reports
    return f"start {facts.kind.called} with {flag}" if flag else None


def _caching(facts: Examination) -> str | None:
    """Return advice for a server that reuses nothing, None if its kind never does."""
    if facts.kind.reuse.is_never:
        return None
    start = "switch on the server's prompt cache, if it has one"
    if facts.profile.reuses:
        return "try again when the server is idle: it says itself that its prompt cache is on"
    if facts.kind.settings.caching is not None:
        start = f"start {facts.kind.called} {facts.kind.settings.caching.flag}"
    return f"{start}, or try again when the server is idle"


def _mend(facts: Examination, error: str) -> str | None:
    """Return advice by the words in ``error``: context, key or model; else None."""
    if "context" in error:
        context = facts.kind.settings.context
        flag = f": {context} 32768" if context.startswith("-") else ""
        return f"start {facts.kind.called} with a larger context{flag}"
    if "401" in error or "403" in error:
        return "give the server's key with --api-key KEY"
    return "name a model with --model" if "model" in error.lower() or NO_MODEL in error else None


def memory(facts: Examination) -> Iterator[Finding]:
    """Report how far the server's memory can go back, and what its slots cost conversations.

    Which setting helps where a conversation lost its slot is for the proxy to report, which saw
    what ran meanwhile: see ``core.kinds.crowds``.
    """
    if facts.server is None:
        return
    if kept := described(facts.profile).get("memory"):
        yield ok("memory", kept)
    for title, cure in facts.proxy.evicted if facts.is_own else ():
        yield warn("slots", title, cure)
    came_back = next((one.again.is_reused for one in facts.trials if one.again is not None), None)
    if came_back:
        yield ok("cache-ram", "on: a prompt that leaves its slot is kept and comes back")
    elif came_back is False:
        yield warn("cache-ram", RAM_OFF, f"start {facts.kind.name} with {facts.kind.settings.ram}")


def late_messages(facts: Examination) -> Iterator[Finding]:
    """Report what the chat template does with late system messages, and the proxy's cure."""
    if facts.server is None:
        return
    placement = facts.profile.placement
    seen, known = facts.own.clients(), facts.found.packages.clients
    senders = [one.name for one in known if one.sends_late and one.name in seen]
    if placement is not None and placement.late != Late.UNKNOWN:
        yield ok("template", placement.mended)
    elif senders:
        text = "it is not known where this server puts system messages in mid-conversation, which "
        text += f"{senders[0]} sends. If it refuses them, or reads the whole prompt again, the "
        text += "proxy can send them as user messages"
        yield warn("template", text, Fault.PLACE)
    for what in placement.refuses if placement is not None else ():
        text = f"the chat template refuses {what}, which the proxy cannot mend: such requests fail"
        yield warn("template", text, OTHER_TEMPLATE)


def next_turns(facts: Examination) -> Iterator[Finding]:
    """Report what the server's template makes it read again at the next turn."""
    if facts.server is None:
        return
    profile, kind = facts.profile, facts.kind
    found = [*_thinking(facts)]
    is_head = profile.system_last or profile.order is PromptOrder.TOOLS_FIRST
    after = "the whole prompt" if is_head else "everything after the system text"
    for what, is_last in (("tools", profile.tools_last), ("system text", profile.system_last)):
        if is_last:  # the next user message moves it
            text = _again(f"moves the {what}, which it prints in the last user message", after)
            found.append(warn("template", f"{text}; no fix is known"))
    if profile.clock:
        text = f"the template prints {profile.clock}: the server reads all text behind it again "
        flag = kind.settings.template
        fix = f"start {kind.called} with {flag}: a copy of the template without that line"
        text += _WHEN[profile.clock]
        found.append(warn("template", text, fix if flag else None))
    if not found and profile.thoughts.way is not Thinking.UNKNOWN:
        text = "this template only appends to a conversation with tools and thinking: the server "
        text += "reads nothing again at the second user message"
        found.append(ok("template", text))
    yield from found


def _thinking(facts: Examination) -> Iterator[Finding]:
    """Warn if the template drops earlier reasoning; or report that the proxy has it stay."""
    thoughts, record = facts.profile.thoughts, facts.own
    drops = thoughts.way in (Thinking.DROPPED, Thinking.ON_REQUEST)
    if not (drops or thoughts.writes_empty):
        return
    if thoughts.asked_by and facts.proxy.keeps and record.remembers:
        yield ok("template", f"the template {facts.proxy.keeps}")
        return
    what = "thinking of the turn before" if drops else "empty thinking block that it had written"
    text = _again(f"drops the {what}", "everything after the first user message")
    if drops and thoughts.writes_empty:
        text += ", whether the client sends its reasoning back or not"
    else:
        text += f", if the client {'sends' if drops else 'does not send'} its reasoning back"
    text += _CURE if thoughts.asked_by else _WITHOUT_CURE
    turns, tokens = record.rewritten(Rewrite.THINKING)
    if tokens:
        of_all = f"{turns} of the last {len(record.rows)} turns"
        text += f"; it cost {tokens:,} tokens in {of_all}, as the proxy counted them"
    yield warn("template", text, _OPTION if thoughts.asked_by else None)


def _again(does: str, what: str) -> str:
    """Return the sentence: this template ``does`` so, and the server reads ``what`` again."""
    return f"at the second user message this template {does}: the server reads {what} again"
