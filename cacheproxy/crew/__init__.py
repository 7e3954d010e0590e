"""Several processes that serve one address: a keeper, which owns all state, and its workers."""
