"""Clients that speak Anthropic Messages, before a server that speaks OpenAI Chat Completions."""

from cacheproxy.translate.messages.exchange import MessagesToChat
from cacheproxy.core.conversation.spellings import Spellings

__all__ = ["MessagesToChat", "Spellings"]
