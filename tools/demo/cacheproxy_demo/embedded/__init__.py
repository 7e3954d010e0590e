"""A real llama.cpp server in a child process, on a random model written on the spot."""

from cacheproxy_demo.embedded.model import write_model
from cacheproxy_demo.embedded.server import EmbeddedUnavailable, LlamaServer, StartFailedError

__all__ = ["EmbeddedUnavailable", "LlamaServer", "StartFailedError", "write_model"]
