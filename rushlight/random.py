"""The default stream of random numbers."""
from __future__ import annotations

from ._src.core.random import (default_generator, fork_rng, get_rng_state, initial_seed, manual_seed, seed,
                               set_rng_state)  # noqa: F401


def thread_safe_generator():
    """The stream of a loader's worker that is a thread; None elsewhere, as here: workers are processes, and the
    default stream is their own.

    >>> thread_safe_generator() is None
    True
    """
    return None
