"""Clients of Anthropic's Messages API before servers of OpenAI's Chat Completions; no I/O."""
