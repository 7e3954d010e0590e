"""Each kind of server's settings for its prompt cache, as the server spells them.

Sources: llama.cpp tools/server/README.md (checkpoint spacing of 8,192 tokens and the RAM cache of
8,192 MiB are its defaults), vLLM 0.32 ``vllm serve --help=CacheConfig``, SGLang "Server Arguments"
and "HiCache", Ollama docs/faq.mdx, ``mlx_lm.server --help`` 0.32, LM Studio "Idle TTL and
Auto-Evict".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from cacheproxy.core.servers.identify import UNKNOWN
from cacheproxy.core.servers.profile import Profile


class FlagAdvice(NamedTuple):
    """What to set, and what it does."""

    flag: str  #: as it is written, with its value
    does: str  #: for people

    @property
    def says(self) -> str:
        """Both, for people."""
        return f"{self.flag}: {self.does}"


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """What one kind of server can be told. "" and () where nothing is known to help."""

    name: str  #: as its own documentation spells it
    room: tuple[FlagAdvice, ...] = ()  #: more memory for prompts
    caching: FlagAdvice | None = None  #: how it is started to keep any
    context: str = ""  #: a longer one
    reporting: str = ""  #: has answers say what was reused
    kwargs: str = ""  #: sets chat_template_kwargs for all requests, {} standing for their JSON
    template: str = ""  #: has it use another chat template
    points: tuple[FlagAdvice, ...] = ()  #: more places to go back to
    models: str = ""  #: keeps several models loaded
    keeps_none: bool = False  #: it reuses nothing, whatever is set

    def with_kwargs(self, member: tuple[str, bool]) -> str:
        """Return the flag that sets a member of chat_template_kwargs, "" if there is none."""
        return self.kwargs.format(as_object(member)) if self.kwargs else ""


def as_object(member: tuple[str, bool]) -> str:
    """Return a member of chat_template_kwargs as a JSON object."""
    return json.dumps({member[0]: member[1]})


LLAMA = ServerFlags(
    "llama-server",
    room=(
        FlagAdvice(
            "--cache-ram 16384", "twice the default room, in MiB, for prompts that left their slot"
        ),
    ),
    caching=FlagAdvice("without --no-cache-prompt", 'and no "cache_prompt": false in requests'),
    context="-c",
    kwargs="--chat-template-kwargs '{}'",
    template="--chat-template-file FILE",
    points=(
        FlagAdvice(
            "--checkpoint-min-step 256",
            "more places to go back to than one in 8,192 tokens, of 150 MB each with a 27B model "
            "(no more than --ctx-checkpoints, 32, for a slot)",
        ),
        FlagAdvice(
            "--swa-full",
            "if the model has a sliding window (Gemma 3, gpt-oss): the server can then go back "
            "to any token, but needs memory for the whole context",
        ),
    ),
)
SIMILARITY = FlagAdvice(
    "--slot-prompt-similarity 0.5",
    "a request that shares less than half of itself with a conversation does not take its slot",
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
SLOTS = FlagAdvice("--parallel 4", "more slots, if the RAM cache cannot be used")
"""Of llama-server, for what is known to have happened there."""
_VLLM = ServerFlags(
    "vLLM",
    room=(
        FlagAdvice(
            "--gpu-memory-utilization 0.95",
            "more of the GPU for prompts than 0.92 (or --kv-cache-memory-bytes N; on a CPU: "
            "VLLM_CPU_KVCACHE_SPACE=GIB)",
        ),
        FlagAdvice("--kv-offloading-size 16", "16 GiB of RAM for what has to leave the GPU"),
    ),
    caching=FlagAdvice("without --no-enable-prefix-caching", "it is on by default"),
    context="--max-model-len",
    reporting="--enable-prompt-tokens-details",
    kwargs="--default-chat-template-kwargs '{}'",
    template="--chat-template FILE",
)
_SGLANG = ServerFlags(
    "SGLang",
    room=(
        FlagAdvice("--mem-fraction-static 0.9", "more of the GPU for weights and prompts"),
        FlagAdvice(
            "--enable-hierarchical-cache", "RAM for what has to leave the GPU (--hicache-size GB)"
        ),
    ),
    caching=FlagAdvice("without --disable-radix-cache", "it is on by default"),
    context="--context-length",
    reporting="--enable-cache-report",
    template="--chat-template FILE",
)
_OLLAMA = ServerFlags(
    "Ollama",
    room=(
        FlagAdvice(
            "OLLAMA_KEEP_ALIVE=-1",
            "without it Ollama unloads a model after 5 idle minutes, and its cache with it",
        ),
        FlagAdvice(
            "OLLAMA_NUM_PARALLEL=2",
            "room for one more conversation; each takes the memory of a whole context",
        ),
    ),
    context="OLLAMA_CONTEXT_LENGTH=N, or num_ctx in the Modelfile,",
    models="OLLAMA_MAX_LOADED_MODELS=2",
)
_MLX = ServerFlags(
    "mlx-lm",
    room=(
        FlagAdvice("--prompt-cache-size 20", "the number of prompts that are kept; 10 by default"),
        FlagAdvice("--prompt-cache-bytes N", "a larger limit, if one was set"),
    ),
    kwargs="--chat-template-args '{}'",
    template="--chat-template TEXT",
)
_LM_STUDIO = ServerFlags(
    "LM Studio",
    room=(
        FlagAdvice(
            "a longer Idle TTL",
            "a model loaded on request is unloaded after 60 idle minutes, and when another one is "
            "asked for (Auto-Evict, in Server Settings)",
        ),
    ),
    context="the model's context length, where it is loaded,",
    models="Auto-Evict off, in Server Settings",
)
_TRANSFORMERS = ServerFlags("transformers serve", keeps_none=True)
_NOTHING = ServerFlags("this server")
KINDS = (LLAMA, _VLLM, _SGLANG, _OLLAMA, _MLX, _LM_STUDIO, _TRANSFORMERS)
"""Those of which something is known."""


def flags_of(profile: Profile) -> ServerFlags:
    """Return the settings of the server that ``profile`` is of."""
    return of_kind(profile.server.kind if profile.server is not None else UNKNOWN)


def of_kind(kind: str) -> ServerFlags:
    """Return the settings of a ``kind`` of server (``Server.kind``), however it is spelt."""
    if kind in ("", UNKNOWN):
        return _NOTHING
    same = (one for one in KINDS if _plain(kind).startswith(_plain(one.name)))
    return next(same, None) or ServerFlags(kind)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
