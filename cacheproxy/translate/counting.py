"""Counting the tokens of a Messages body: three steps with llama-server, or an estimate.

The steps: POST ``template_body`` to ``/apply-template``, POST ``tokenize_body`` of that answer to
``/tokenize``, and return ``count`` of that one to the client (llama.cpp, tools/server/README.md).
"""

from __future__ import annotations

import string
from typing import Any

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.conversation import chat_messages
from cacheproxy.translate.reading import Json, TranslationError, document_of, read, write
from cacheproxy.translate.request import chat_tools

APPLY_TEMPLATE, TOKENIZE = "/apply-template", "/tokenize"

_WORDS = (string.ascii_letters + " ").encode()
_OTHERS = bytes(set(range(128)) - set(_WORDS))
_BYTES_PER_TOKEN = (4.4, 2.2, 3.5)
"""Density of words; of digits, signs and JSON; of other scripts in UTF-8."""
_PER_MESSAGE = 4
_PER_PICTURE = 1500
"""Tokens of the template's text around a message; of an image or a document of any size."""


def template_body(request: Request, spellings: Spellings) -> bytes:
    """Return the JSON body for APPLY_TEMPLATE. Raises TranslationError naming the place."""
    return write(_chat_prompt(request, spellings))


def tokenize_body(answer: bytes) -> bytes:
    """Return the JSON body for TOKENIZE from the answer of APPLY_TEMPLATE.

    The server tokenizes it as a chat's prompt, special tokens included. Raises TranslationError if
    the answer has no prompt.
    """
    value = read(answer)
    prompt = value.get("prompt") if isinstance(value, dict) else None
    if not isinstance(prompt, str):
        raise TranslationError("the server's answer has no prompt")
    return write({"content": prompt, "add_special": True, "parse_special": True})


def count(answer: bytes) -> bytes:
    """Return ``{"input_tokens": N}`` (no images) from TOKENIZE's answer; TranslationError."""
    value = read(answer)
    tokens = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(tokens, list):
        raise TranslationError("the server's answer has no tokens")
    return write({"input_tokens": len(tokens)})


def estimate(request: Request) -> bytes:
    """Return the answer if the server cannot count: an estimate with ``"estimated": true``.

    It divides the bytes of tools and messages by the density of vocabularies of 100,000 tokens and
    more: 4.4 bytes a token in words, 2.2 in digits and signs, 3.5 in other scripts; and adds 4
    tokens for each message, 1,500 for an image or a document. Raises TranslationError naming the
    place.
    """
    prompt = _chat_prompt(request, Spellings())
    pictures = sum(_remove_pictures(message) for message in prompt["messages"])
    text = write(prompt)
    others = len(text.translate(None, _WORDS))
    high = len(text.translate(None, _WORDS + _OTHERS))
    sizes = (len(text) - others, others - high, high)
    tokens = sum(size / each for size, each in zip(sizes, _BYTES_PER_TOKEN, strict=True))
    tokens += _PER_MESSAGE * len(prompt["messages"]) + _PER_PICTURE * pictures
    return write({"input_tokens": max(1, round(tokens)), "estimated": True})


def _chat_prompt(request: Request, spellings: Spellings) -> Json:
    """Return the chat messages of ``request``, and its tools if it has any."""
    body = document_of(request)
    prompt: Json = {"messages": chat_messages(body, spellings)}
    tools = chat_tools(body)
    return prompt | ({"tools": tools} if tools else {})


def _remove_pictures(message: Json) -> int:
    """Remove images and documents from ``message``, and return their number."""
    content: Any = message["content"]
    if isinstance(content, str):
        return 0
    message["content"] = [part for part in content if part["type"] == "text"]
    return len(content) - len(message["content"])
