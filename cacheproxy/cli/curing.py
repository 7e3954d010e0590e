"""Rules that cure: proven by the running proxy, or proposed from captures; as text, and applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cacheproxy.asking import CommandError
from cacheproxy.cli.inspecttext import field_name
from cacheproxy.cli.running import get_json
from cacheproxy.configfile import append
from cacheproxy.core.diagnose.cure import Cure, Found
from cacheproxy.core.diagnose.propose import NoProposal, Proposal

PAGE = "/_cacheproxy/cure/"


def cure_lines(cure: Cure, command: str) -> Iterator[str]:
    """Yield the rules as TOML, and all else as comments. ``command``: what applies them."""
    if not cure.found:
        yield f"# Nothing to propose: each field that changed in request {cure.number} has a rule."
    for one in cure.found:
        yield from _found(one)
    if not cure.edits:
        yield (
            "# The upstream is not a local server, so rules edit nothing (--edit-remote changes "
            "this)."
        )
    elif command and cure.can_apply:
        yield f"# Switch it on, without a restart: {command}"


def _found(one: Found) -> Iterator[str]:
    name = f"{field_name(one)} ({one.kind})"
    if one.toml:
        yield f"# {name}:{f' {one.won.says}' if one.won else ' proven on this turn.'}"
        yield from one.toml.rstrip().split("\n")
    elif one.on:
        yield f"# {name}: rule {one.on[0]} is on and makes it constant from now on."
    elif one.rules:
        yield f"# {name}: rule {one.rules[0]} is installed but off."
    else:
        yield f"# No rule for {name}: {one.why}."


def apply(cure: Cure, proxy: str, token: Mapping[str, str], config: str | None) -> str:
    """Have the proxy write the rules of ``cure`` into the file that it reads, and read it again.

    Those that are there, but off, are switched on in it.

    Return what was done, in a line. ``config``: another file, which is written here. Raises
    CommandError; then the file is as it was.
    """
    if config is None or Path(config).expanduser().resolve() == Path(cure.file).resolve():
        done = get_json(proxy, f"{PAGE}{cure.number}/apply", token, post=True)
        return str(done.get("said")) if isinstance(done, dict) else ""
    if cure.why_not is not None:
        raise CommandError(f"nothing written: {cure.why_not}")
    added = append(cure.tables, config, cure.off)
    return (
        f"{added.what} {added.file}. The running proxy reads another file, {cure.file}: to use "
        f"this one, start the proxy with --config {added.file}"
    )


def proposal_lines(
    proposals: Sequence[Proposal], refusals: Sequence[NoProposal], *, steps: int, command: str = ""
) -> Iterator[str]:
    """Yield the proposals as TOML, and what else changes as comments.

    ``command``: what writes them into the config file.
    """
    if not proposals and not refusals:
        yield "# Nothing to propose: each volatile field has a rule."
    for proposal in proposals:
        found = proposal.field
        yield f"# {field_name(found)}: {found.kind.value}, seen in {found.count} of {steps} turns."
        if not proposal.rule.default:
            yield (
                "# Off by default, because the model goes on seeing the first value. Switch the "
                "rule on"
            )
            yield f"# with --enable {proposal.rule.name}, or delete the line default = false."
        yield from proposal.toml().split("\n")
    for refusal in refusals:
        found = refusal.field
        yield f"# No rule for {field_name(found)} ({found.kind.value}): {refusal.why}."
    if command and proposals:
        yield f"# Into the config file: {command}"
