"""Anthropic Messages <-> OpenAI Chat Completions: pure functions and transforms, no I/O."""
