r"""Continue's CLI for cacheproxy: the marks of its requests, rules for date and git status.

Shape, from its sources (``extensions/cli/src/systemMessage.ts`` of ``@continuedev/cli`` 1.5.47)
and its requests. The system text begins with::

    You are an agent in the Continue CLI. Given the user's prompt, …
    …
    <env>
    Working directory: /home/me/project
    Is directory a git repo: true
    Platform: linux
    Today's date: 2026-11-21
    </env>

    As you answer the user's questions, you can use the following context:

    <context name="gitStatus">This is the git status at the start of the conversation. …

    Working tree clean
    </context>

The text of the user's own files (rules, AGENTS.md) comes after it. ``cn --resume`` makes the whole
system text anew. The user agent is that of OpenAI's SDK, whose class has another name in the
bundled program: ``ls/JS 5.23.2``. So the beginning of the system text is the only mark. Requests
have no id of a session.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

from cacheproxy import (
    FIRST_USER_TEXT,
    SYSTEM_HEAD,
    Client,
    Launch,
    Need,
    Request,
    Rule,
    Setup,
    hookimpl,
    match_paths,
    quick,
)

_HEAD = "You are an agent in the Continue CLI. "
CLIENT = Client(name="continue", head=(_HEAD,))
_ENV = (
    r"\AYou are an agent in the Continue CLI\. (?:(?!<env>)[^\n]*\n){1,30}?"
    r"<env>\n(?:[A-Z][^\n]*\n){1,8}?Today's date: "
)
_DIRECTORY = re.compile(r"<env>\n(Working directory: [^\n]*)\n")
PIN_DATE = Rule(
    name="continue-pin-date",
    where=SYSTEM_HEAD,
    pattern=_ENV + r"(?P<volatile>\d{4}-\d{2}-\d{2})\n</env>\n",
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("Today's date: ",),
)
PIN_GIT_STATUS = Rule(
    name="continue-pin-git-status",
    where=SYSTEM_HEAD,
    pattern=(
        _ENV + r"[^\n]*\n</env>\n\n[^\n]*\n\n"
        r'<context name="gitStatus">This is the git status [^\n]*\n\n'
        r"(?P<volatile>(?!</context>)[^\n]++(?:\n(?!</context>)[^\n]*+)*+)\n</context>"
    ),
    why="git status of the first turn kept",
    pin=True,
    note="The git status is now:\n\n\\g<volatile>",
    literals=("This is the git status ",),
)
RULES = (PIN_DATE, PIN_GIT_STATUS)


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return a hash of folder and first words: texts between them change with each resume."""
    texts = [
        text
        for place in FIRST_USER_TEXT
        for _, text in match_paths(request.json, place)
        if isinstance(text, str)
    ]
    opening = request.opening[0][0] if request.opening else ""
    directory = _DIRECTORY.search(opening)
    if not texts or directory is None:
        return None
    told = "\0".join([directory[1], *texts])
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return Continue's file (docs.continue.dev/reference): YAML, of which JSON is a subset.

    ``cn`` is started with such a file instead of the user's.
    """
    key = f"${{{{ secrets.{need.key_variable} }}}}" if need.key_variable else need.key
    model: dict[str, Any] = {
        "name": need.model_name,
        "provider": "openai",
        "model": need.model_name,
        "apiBase": need.openai,
        "apiKey": key,
        "roles": ["chat"],
    }
    if need.context is not None:
        options = {"contextLength": need.context, "maxTokens": need.output}
        model["defaultCompletionOptions"] = options
    if need.needs_header:
        header = {need.token_header: "${{ secrets.CACHEPROXY_TOKEN }}"}
        model["requestOptions"] = {"headers": header}
    value = {"name": need.provider, "version": "0.0.1", "schema": "v1", "models": [model]}
    setup = Setup.of_json("~/.continue/config.yaml", value, need)
    content = Setup.unexpanded(setup.content or "", need.model_name)
    launch = Launch(
        "cn",
        "npm install --global @continuedev/cli",
        ("--config", f"{need.folder}/config.yaml"),
        files={"config.yaml": content},
    )
    return replace(setup, content=content, launch=launch)
