"""An inspection in lines, to be compared whole."""


def shown(found):
    """An inspection in lines."""
    yield f"{found.requests} requests, {found.prompts} prompts, {found.steps} steps"
    yield f"{found.seconds} s, {found.replaced} replaced, {found.late} late ({found.most_late})"
    yield f"{found.chars_per_token:.2f} characters a token, measured: {found.measured}"
    yield f"rules {found.rules}, more {found.more}"
    yield from (f"session {one.client}/{one.id}: {one.turns} turns" for one in found.sessions)
    for side in found.sides:
        yield f"side: {side.requests} requests, {side.tools} tools, {side.evictions} evictions"
    for what, fields in (("field", found.fields), ("between", found.between)):
        for one in fields:
            seen = f"{one.kind}, {one.count} times"
            yield f"{what} {one.path}: {seen}, {one.rules} cover {one.covered}"
    for part in found.parts:
        yield (
            f"{part.name}: {part.chars:.0f} characters, {part.share:.1%}, changed {part.changed}, "
            f"broke {part.breaks} at {part.breaks_at}"
        )
    for view in found.reuse:
        shares = f"{view.without:.3f}, {view.with_rules:.3f} and {view.with_more:.3f}"
        yield f"reuse, {view.order}: {shares}"
