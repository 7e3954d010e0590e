"""Counting a prompt's tokens for clients whose API the upstream does not speak."""

from __future__ import annotations

from dataclasses import replace

from twisted.logger import Logger

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.servers.asker import PROMPT_SECONDS, Asker
from cacheproxy.translate import counting
from cacheproxy.translate.translation_error import TranslationError

_log = Logger()


class _CannotCountError(Exception):
    """The upstream has no page that counts."""


class Counting:
    """Asks a llama-server for the prompt it would make, and its tokens; else estimates."""

    def __init__(self, asker: Asker, spellings: Spellings) -> None:
        self._asker = asker
        self._spellings = spellings
        self._told = False

    async def count(self, request: Request) -> bytes:
        """Return the body that answers ``request``. Raises TranslationError naming its place."""
        body = counting.template_body(request.body, self._spellings)
        try:
            prompt = await self._ask(request, counting.APPLY_TEMPLATE, body)
            tokens = await self._ask(request, counting.TOKENIZE, counting.tokenize_body(prompt))
            return counting.count(tokens)
        except (_CannotCountError, TranslationError):
            if not self._told:
                self._told = True
                _log.info(
                    "the upstream cannot count tokens, so the proxy estimates count_tokens "
                    "(logged once)"
                )
            return counting.estimate(request.body)

    async def _ask(self, request: Request, path: str, body: bytes) -> bytes:
        kept = tuple(
            pair for pair in request.headers if pair[0].lower() in (b"authorization", b"x-api-key")
        )
        headers = (*kept, (b"Content-Type", b"application/json"))
        question = replace(request, method="POST", target=path, headers=headers, body=body)
        status, answer = await self._asker.ask(question, PROMPT_SECONDS, is_marked=False)
        if status != 200:
            raise _CannotCountError
        return answer
