"""A disk that is full."""

import resource
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size):
    """What the kernel says where a file would be larger is the same as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
