"""Chat templates that behave as vendors' do, made of the embedded model's own.

None is a vendor's text. ``inline`` is the embedded one as it is.
"""

from __future__ import annotations

from cacheproxy_demo.embedded.model import default_template

_FIRST = "{%- if message.role == 'system' and loop.first -%}"
_HEAD = "{%- if has_system -%}{{- text(messages[0].content) -}}{%- endif -%}"
_ROLE = "{{- '<|im_start|>' + message.role + '\\n' + text(message.content) + '<|im_end|>\\n' -}}"
_ALL_HEADS = (
    "{%- for message in messages -%}{%- if message.role == 'system' -%}"
    "{{- text(message.content) + '\\n\\n' -}}{%- endif -%}{%- endfor -%}"
)
_RAISE = "{{- raise_exception('System message must be at the beginning.') -}}"
_TURNS = """\
{%- set turn = namespace(index=0) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) -%}
        {%- if (message.role == 'user') != (turn.index % 2 == 0) -%}
            {{- raise_exception('After the optional system message, conversation roles must ' +
                'alternate user/assistant/user/assistant/...') -}}
        {%- endif -%}
        {%- set turn.index = turn.index + 1 -%}
    {%- elif message.role == 'system' and not loop.first -%}
        {{- raise_exception('Only user, assistant and tool roles are supported, got system.') -}}
    {%- endif -%}
{%- endfor -%}
"""

_ASSISTANT = "{{- '<|im_start|>assistant\\n' + text(message.content) -}}"
_LAST_USER = (
    "{%- set last = namespace(user=-1) -%}{%- for one in messages -%}"
    "{%- if one.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}"
)
_THINKING = (
    "{{- '<|im_start|>assistant\\n' -}}{%- if KEPT loop.index0 > last.user -%}"
    "{{- '<think>\\n' + (message.reasoning_content or '').strip('\\n') -}}"
    "{{- '\\n</think>\\n\\n' -}}{%- endif -%}"
    "{{- text(message.content) -}}"
)
_TOOLS = default_template()[
    default_template().index("    {%- if tools -%}") : default_template().index(
        "    {{- '<|im_end|>\\n' -}}\n{%- endif -%}"
    )
]
_BEFORE_THE_LAST = (
    "{%- if tools and loop.index0 == last.user -%}{{- '<|im_start|>tools' -}}"
    "{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}"
    "{{- '<|im_end|>\\n' -}}{%- endif -%}"
)
_CLOCK = "{{- '<|im_start|>developer\\nIt is ' + strftime_now('%H:%M:%S') + '<|im_end|>\\n' -}}"


_SETTINGS = (
    "{{- 'Effort: ' + (reasoning_effort or 'none') + ', thinking: '"
    " + (enable_thinking | string) + '\\n' -}}"
)


def _made(*changes: tuple[str, str]) -> str:
    text = default_template()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


TEMPLATES = {
    "inline": default_template(),
    "user": _made(
        (_ROLE, _ROLE.replace("message.role", "('user' if loop.index0 else message.role)"))
    ),
    "strict": _made(
        (
            _FIRST,
            f"{{%- if message.role == 'system' and not loop.first -%}}{_RAISE}{_FIRST}".replace(
                _RAISE + "{%- if", _RAISE + "{%- elif"
            ),
        )
    ),
    "hoist": _made((_HEAD, _ALL_HEADS), (_FIRST, "{%- if message.role == 'system' -%}")),
    "drop": _made((_FIRST, "{%- if message.role == 'system' -%}")),
    "turns": _TURNS + default_template(),
}
"""By what becomes of a late system message; ``turns`` wants the roles in turns, as Mistral's do."""

REWRITING = {
    "think": _LAST_USER + _made((_ASSISTANT, _THINKING.replace("KEPT ", ""))),
    "keep": _LAST_USER
    + _made((_ASSISTANT, _THINKING.replace("KEPT", "preserve_thinking or preserve_reasoning or"))),
    "tools": _LAST_USER + _made((_TOOLS, ""), (_ROLE, _BEFORE_THE_LAST + _ROLE)),
    "clock": _CLOCK + default_template(),
    "clock-behind": _made((_HEAD, _HEAD + "{{- ' It is ' + strftime_now('%H:%M:%S') -}}")),
    "effort": _made((_HEAD, _SETTINGS + _HEAD)),
}
"""Templates that render an earlier turn anew when the next one comes.

``think``: reasoning stands only after the last user message (GLM, gpt-oss, Qwen3), with an empty
block where there is none (Qwen3.5). ``keep``: so, unless ``chat_template_kwargs`` ask to keep it.
``tools``: the tools stand before the last user message (Mistral-Small-3.2, Nemo). ``clock``: the
time stands at the head (Granite-3.3, Llama-3.2 print the date), ``clock-behind``: behind the
system text. ``effort``: what a request asks of reasoning stands at the head (gpt-oss, Seed-OSS).
"""

_NO_TOOLS = (
    "{%- for message in messages -%}{%- if message.role == 'tool' or message.tool_calls -%}"
    "{{- raise_exception('Conversation roles must be user or assistant.') -}}"
    "{%- endif -%}{%- endfor -%}"
)
_DROP, _HOIST = (_FIRST, "{%- if message.role == 'system' -%}"), (_HEAD, _ALL_HEADS)
ALIKE = {
    "no-tools": _NO_TOOLS + TEMPLATES["turns"],
    "drop-think": _LAST_USER + _made((_ASSISTANT, _THINKING.replace("KEPT ", "")), _DROP),
    "hoist-think": _LAST_USER + _made((_ASSISTANT, _THINKING.replace("KEPT ", "")), _DROP, _HOIST),
}
"""Templates that behave as some do whose licences keep them out of ``fixtures/templates``.

``no-tools``: refuses calls of tools and late system messages (Gemma 2 and 3). ``drop-think``:
drops late system messages, and thinking before the last user message (Reka-Edge).
``hoist-think``: moves them to the head, and drops such thinking (Solar Open, Hunyuan 3).
"""
