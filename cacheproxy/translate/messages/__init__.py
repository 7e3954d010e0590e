"""Clients that speak Anthropic Messages, before a server that speaks OpenAI Chat Completions."""

from cacheproxy.translate.messages.exchange import MessagesToChat

__all__ = ["MessagesToChat"]
