"""llama.cpp's llama-server, by its ``tools/server/README.md`` and source. Measured: October 2026.

- Its metrics (``server-context.cpp``; the page's own HELP lines): ``prompt_tokens_total`` excludes
  cached tokens, which are counted by ``prompt_tokens_cached_total`` (builds since August 2026). No
  labels, no start time; the page is there with ``--metrics`` alone.
- It writes ``fffff`` over the first ``cch`` of Claude Code's billing line, if that has five bytes,
  on messages alone (``tools/server/server-chat.cpp``, ``normalize_anthropic_billing_header``, pull
  request 21793).
- POST ``/apply-template`` renders a conversation as text.
- Defaults: a checkpoint in 8,192 tokens, a RAM cache of 8,192 MiB.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.kinds.clock import clock_formats
from cacheproxy.core.kinds.crowds import setting_for
from cacheproxy.core.kinds.kind import (
    UNLIKE,
    CounterNames,
    FlagAdvice,
    LogAdvice,
    Recognition,
    RenderingPage,
    Repair,
    Reuse,
    ServerKind,
    Serving,
    Settings,
    StatusReading,
)
from cacheproxy.core.kinds.profile import Memory, Reporting, ServerFacts
from cacheproxy.core.kinds.status import MODELS, Answers, Look, Slot, number, text

_NAME = "llama-server"
SLOTS, _PROPS = "/slots", "/props"
_MOST_SLOTS = 256
_LITTLE = 0.5
"""Share of a unified memory in use below which no slot is cleared for want of room."""
CCH = Repair(
    re.compile(r"(x-anthropic-billing-header:(?:(?!cch=).)*cch=)[\x00-\x7f]{5}(?=;)", re.DOTALL),
    r"\1fffff",
)
SIMILARITY = FlagAdvice(
    "--slot-prompt-similarity 0.9",
    "a prompt that shares less than that with what the only slot holds has it kept in RAM, and "
    "looks there for its own beginning. Measured: half to three quarters of the tokens",
)
RAM_CACHE = FlagAdvice(
    "--cache-ram 8192",
    "the default, but off on this server; with it a prompt that leaves its slot is kept in RAM "
    "and comes back",
)
RAM_CACHE_PERHAPS = FlagAdvice(
    "--cache-ram 8192",
    "if it is off: a prompt that leaves its slot is then kept in RAM. If it is on: use a larger "
    "number of MiB",
)
MORE_SLOTS = FlagAdvice("--parallel 4", "more slots, if the RAM cache cannot be used")
_ROOM = (
    FlagAdvice(
        "--cache-ram 16384", "twice the default room, in MiB, for prompts that left their slot"
    ),
)


def _props(answers: Answers) -> dict[str, Any]:
    page = answers.pages.get(_PROPS)
    return page if isinstance(page, dict) else {}


def _facts(answers: Answers) -> ServerFacts:
    props = _props(answers)
    settings = props["default_generation_settings"]
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    build: str | None = (text(props.get("build_info")) or "").partition("-")[0]
    if build in ("", "b0"):  # b0: built without its history, so it does not know
        build = None
    name, slots = text(answers.model.get("id")), number(props.get("total_slots"))
    return ServerFacts(_NAME, build, name, number(context), slots)


def _look(look: Look, answers: Answers) -> Look:
    """Return ``look`` with the slots, the last task and what /props has; task numbers only rise."""
    slots, props = slots_of(answers.pages.get(SLOTS)), _props(answers)
    return replace(
        look,
        slots=slots,
        start=look.start or start_of(props),
        tasks=max((slot.task for slot in slots if slot.task is not None), default=None),
        file=props["model_path"] if isinstance(props.get("model_path"), str) else look.file,
        formats=clock_formats(props.get("chat_template")),
        has_cleared=any(
            slot.get("is_processing") is False
            and type(slot.get("id_task")) is int
            and slot["id_task"] >= 0
            and slot.get("n_prompt_tokens") == 0
            for slot in _slots_in(answers.pages.get(SLOTS))
        ),
    )


def slots_of(page: Any) -> tuple[Slot, ...]:
    """Return the slots that ``page``, the JSON value of /slots, lists; () if it lists none."""
    return tuple(map(_slot, _slots_in(page)))


def _slots_in(page: Any) -> list[dict[str, Any]]:
    found = page[:_MOST_SLOTS] if isinstance(page, list) else ()
    return [slot for slot in found if isinstance(slot, dict)]


def _slot(slot: Mapping[str, Any]) -> Slot:
    next_token = slot.get("next_token")
    token = next_token[0] if isinstance(next_token, list) and next_token else next_token
    decoded = number(token.get("n_decoded")) if isinstance(token, dict) else None
    busy = slot.get("is_processing") is True
    # An idle slot's n_prompt_tokens is all it holds; while it works, its answer comes beside it.
    used = (number(slot.get("n_prompt_tokens")) or 0) + ((decoded or 0) if busy else 0)
    context = number(slot.get("n_ctx")) or 0
    task = slot.get("id_task")
    return Slot(
        number(slot.get("id")) or 0,
        context,
        min(used, context),
        busy,
        task if type(task) is int and task >= 0 else None,
    )


def start_of(props: Any) -> str | None:
    """Return a text that differs after a restart: a hash of the marker for media in prompts.

    The server draws that marker at random when it starts. Only the hash is stored: who knows the
    marker could write it into a prompt.
    """
    marker = props.get("media_marker") if isinstance(props, dict) else None
    if not isinstance(marker, str) or not marker:
        return None
    return hashlib.sha256(marker.encode("utf-8", "replace")).hexdigest()[:16]


def _memory(look: Look, before: Memory) -> Memory:
    """Return the memory: each slot's context, and whether the slots share one memory.

    The pages do not state the latter. Slots that hold more than one context in all do not share
    it. A slot that was cleared while idle shares it: only shared ones are cleared, when a new task
    begins (its prompt then goes to the RAM cache), or when there is no more room.
    """
    server = look.server or ServerFacts()
    context = server.context or next((slot.context for slot in look.slots), None) or before.context
    count = server.slots or len(look.slots) or before.slots
    unified, ram = before.is_unified, before.has_ram
    used = sum(slot.used for slot in look.slots)
    if count is not None and count > 1 and context is not None:
        if used > context:
            unified = False
        elif look.has_cleared:
            unified = True
            ram = True if used < _LITTLE * context else ram
    capacity = None
    if context is not None and count is not None:
        if count == 1 or unified:
            capacity = context
        elif unified is False:
            capacity = context * count
    return replace(
        before,
        slots=count,
        context=context,
        is_unified=unified if count != 1 else None,
        has_ram=ram,
        capacity=capacity,
    )


def _room_for(
    *, was_taken: bool, is_full: bool, has_ram: bool | None, slots: int | None = None
) -> Iterator[FlagAdvice]:
    """Yield the settings that help where a prompt was dropped; arguments: see ``Settings``.

    More slots change nothing where a RAM cache stands behind them. That cache is searched only if
    no slot is as similar as ``--slot-prompt-similarity`` demands; without the cache, that flag
    changes nothing for a single slot. With several slots its best value depends on how many
    conversations there are: see ``crowds``.
    """
    if was_taken and slots == 1 and has_ram is not False:
        yield SIMILARITY
    if has_ram is False:
        yield from (RAM_CACHE, MORE_SLOTS)
    elif has_ram is None:
        yield RAM_CACHE_PERHAPS
    elif not was_taken or is_full:
        yield from _ROOM


LLAMA_CPP = ServerKind(
    _NAME,
    port=8080,
    starts="llama-server -m model.gguf --port 8080",
    recognition=Recognition(
        mark=(_PROPS, "default_generation_settings"),
        software="llama.cpp",
        pages=(SLOTS, _PROPS, MODELS),
    ),
    reading=StatusReading(
        facts=_facts,
        look=_look,
        memory=_memory,
        start=(_PROPS, start_of),
        counters=CounterNames(
            "llamacpp:",
            {
                "evaluated": ("prompt_tokens_total",),
                "reused": ("prompt_tokens_cached_total",),
                "generated": ("tokens_predicted_total",),
                "prefill": ("prompt_seconds_total",),
                "generation": ("tokens_predicted_seconds_total",),
                "running": ("requests_processing",),
                "waiting": ("requests_deferred",),
            },
        ),
    ),
    reuse=Reuse(reporting=Reporting.ALWAYS, similarity=UNLIKE, moves_heads=True),
    serving=Serving(
        counts_streams=True,  # in ``timings``
        repairs={MESSAGES: CCH},
        rendering=RenderingPage("/apply-template", tokenizer="/tokenize"),
        warms_at="/completion",
        progress=(CHAT, RESPONSES),
    ),
    settings=Settings(
        metrics="--metrics",
        room=_ROOM,
        room_for=_room_for,
        for_crowd=setting_for,
        caching=FlagAdvice("without --no-cache-prompt", 'and no "cache_prompt": false in requests'),
        context="-c",
        kwargs="--chat-template-kwargs '{}'",
        template="--chat-template-file FILE",
        points=(
            FlagAdvice(
                "--checkpoint-min-step 256",
                "more places to go back to than one in 8,192 tokens, of 150 MB each with a 27B "
                "model (no more than --ctx-checkpoints, 32, for a slot)",
            ),
            FlagAdvice(
                "--swa-full",
                "if the model has a sliding window (Gemma 3, gpt-oss): the server can then go back "
                "to any token, but needs memory for the whole context",
            ),
        ),
        ram=RAM_CACHE.flag,
        log=LogAdvice(
            verbose="start the server with --verbosity 4 to log requests",
            verbose_command="llama-server --verbosity 4 logs all of that",
            memory="llama-server --checkpoint-min-step 256 (or --swa-full, for a sliding window)",
            evicted="raise --cache-ram of llama-server",
            ram_off=f"start llama-server with {RAM_CACHE.flag}",
            context="a larger -c, or less in the client's window",
        ),
    ),
)
