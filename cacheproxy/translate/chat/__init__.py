"""Clients that speak OpenAI Chat Completions, before a server that speaks Anthropic Messages."""

from cacheproxy.translate.chat.exchange import ChatToMessages

__all__ = ["ChatToMessages"]
