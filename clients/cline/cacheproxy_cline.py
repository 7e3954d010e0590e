r"""Cline for cacheproxy: the marks of its requests, and a rule for the date in its system text.

Shapes, from its public releases. In the CLI 3.x and its SDK (``@cline/shared``, the prompts for
acting and for work without questions) the system text has::

    Environment you are running in:
    <env>
    1. Platform: linux
    2. Date: 11/21/2026
    3. IDE: Terminal Shell
    4. Working Directory: /home/me/project
    </env>

The date is JavaScript's ``toLocaleDateString``, whose format depends on the locale. The user's own
rules come after it, so that the first such block is Cline's. The extension and the CLI up to 2.x
have no date in the system text; their "# Current Time" is in each user message and never changes
there.

The user agent is ``Cline/…``, or that of an SDK (``ai-sdk/openai-compatible/…``); then the first
sentence of the system text identifies Cline.
"""

from __future__ import annotations

from typing import Any

from cacheproxy import SYSTEM_HEAD, Client, Launch, Need, Rule, Setup, hookimpl

CLIENT = Client(
    name="cline",
    heeds_comments=True,
    agents=("cline/",),
    title="Cline",
    start="base URL {url}/v1",
    head=(
        "You are Cline, an AI coding agent.",
        "You are Cline, a careful and helpful coding agent",
        # the extension, and the CLI up to 2.x: a sentence for each family of models
        "You are Cline, a highly skilled software engineer",
        "You are Cline, a software engineering AI.",
        "You are Cline, a senior software engineer",
    ),
)
PIN_DATE = Rule(
    name="cline-pin-date",
    where=SYSTEM_HEAD,
    pattern=(
        r"\A[\s\S]*?\nEnvironment you are running in:\n<env>\n1\. Platform: [^\n]*\n"
        r"2\. Date: (?P<volatile>[^\n]{6,40})\n3\. IDE: [^\n]*\n4\. Working Directory: "
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("2. Date: ",),
)
RULES = (PIN_DATE,)
_PROVIDER = "openai-compatible"


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return fields of Cline's settings (docs.cline.bot/provider-config/openai-compatible)."""
    key = need.key_variable
    fields = [
        "Cline's settings, API Provider: OpenAI Compatible",
        f"  Base URL:             {need.openai}",
        f"  API Key:              {f'(the value of {key})' if key else need.key}",
        f"  Model ID:             {need.model_name}",
    ]
    if need.context is not None:
        fields.append(f"  Context Window Size:  {need.context}")
    if need.needs_header:
        fields.append(
            f"  Custom Headers:       {need.token_header}: (the value of CACHEPROXY_TOKEN)"
        )
    return Setup(content="\n".join(fields) + "\n", launch=_launch(need))


def _launch(need: Need) -> Launch:
    """Return the launch of its CLI (3.x), with a file in place of the one that ``auth`` writes."""
    settings: dict[str, Any] = {
        "provider": _PROVIDER,
        "apiKey": need.key,
        "model": need.model_name,
        "baseUrl": need.openai,
    }
    if need.needs_header:
        settings["headers"] = {need.token_header: need.token}
    value = {
        "version": 1,
        "lastUsedProvider": _PROVIDER,
        "modes": {},
        "providers": {
            _PROVIDER: {
                "settings": settings,
                "updatedAt": "2026-01-01T00:00:00.000Z",
                "tokenSource": "manual",
            }
        },
    }
    return Launch(
        "cline",
        "npm install --global cline",
        variables={
            "CLINE_PROVIDER_SETTINGS_PATH": f"{need.folder}/providers.json",
            "CLINE_SESSION_BACKEND_MODE": "local",  # its daemon would outlive the file
        },
        files={"providers.json": Setup.json(value)},
    )
