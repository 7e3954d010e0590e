r"""LibreChat for cacheproxy: rules for dates and times that special variables put into prompts.

Shapes, from LibreChat's sources (``packages/data-provider/src/parsers.ts``). In every request's
system text, which has the instructions of an agent or a preset,

- ``{{current_date}}`` becomes ``2026-11-22 (Sunday)``, formerly ``2026-11-22 (0)``;
- ``{{current_datetime}}`` becomes ``2026-11-22 14:03:59 +01:00 (Sunday)``, formerly
  ``2026-11-22 14:03:59 (0)``;
- ``{{iso_datetime}}`` becomes ``2026-11-22T13:03:59.000Z``.

LibreChat has the user agent of an SDK, and its users write the system text. So its requests are
recognised by a header that must be added in its configuration (README.md).
"""

from __future__ import annotations

from cacheproxy import SYSTEM_TEXT, Client, Need, Rule, Setup, hookimpl

CLIENT = Client(name="librechat", headers=("x-librechat-session-id",))
_DAY = r"\((?:(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day|[0-6])\)"

PIN_DATE = Rule(
    name="librechat-pin-date",
    where=SYSTEM_TEXT,
    pattern=rf"(?<![\d-])(?P<volatile>\d{{4}}-\d{{2}}-\d{{2}} {_DAY})",
    why="date of the first turn kept",
    pin=True,
    note=r"The current date is now \g<volatile>.",
)
PIN_TIME = Rule(
    name="librechat-pin-time",
    where=SYSTEM_TEXT,
    pattern=(
        r"(?<![\d-])(?P<volatile>\d{4}-\d{2}-\d{2}"
        rf"(?: \d{{2}}:\d{{2}}:\d{{2}}(?: [+-]\d{{2}}:\d{{2}})? {_DAY}"
        r"|T\d{2}:\d{2}:\d{2}\.\d{3}Z))"
    ),
    why="time of the first turn kept",
    pin=True,
    note=r"The current time is now \g<volatile>.",
)
RULES = (PIN_DATE, PIN_TIME)


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return a part of librechat.yaml (librechat.ai/docs: custom endpoint), with our header.

    The file is in the folder in which LibreChat is installed.
    """
    lines = [
        "# librechat.yaml",
        "endpoints:",
        "  custom:",
        f"    - name: {need.provider}",
        f"      apiKey: {Setup.quoted(_in_yaml(need.key_variable) or need.key)}",
        f"      baseURL: {Setup.quoted(need.openai)}",
        "      headers:",
        '        X-LibreChat-Session-Id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"',
    ]
    if need.needs_header:
        lines.append(f"        {need.token_header}: {Setup.quoted(_in_yaml('CACHEPROXY_TOKEN'))}")
    model = Setup.quoted(need.model_name)
    lines += ["      models:", f"        default: [{model}]"]
    if need.context is not None:
        lines += ["      tokenConfig:", f"        {model}:"]
        lines.append(f"          {{prompt: 0, completion: 0, context: {need.context}}}")
    lines += ["      titleConvo: true", "      titleModel: current_model"]
    note = (
        "If LibreChat runs in a container, use this address for the proxy: "
        "http://host.docker.internal:PORT/v1."
    )
    return Setup(content="\n".join(lines) + "\n", notes=(*need.key_notes, note))


def _in_yaml(variable: str | None) -> str:
    """Return the reference ``${VARIABLE}``, by which LibreChat reads a variable; "" for None."""
    return f"${{{variable}}}" if variable else ""
