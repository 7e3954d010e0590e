"""Rules proposed from captures, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cacheproxy.cli.inspecttext import field_name
from cacheproxy.core.diagnose.propose import NoProposal, Proposal


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
