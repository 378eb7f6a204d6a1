"""How often functions run."""
from __future__ import annotations

import functools
from collections import OrderedDict


simple_call_counter: OrderedDict[str, int] = OrderedDict()


def count_label(label: str) -> None:
    """Counts one more of a label."""
    simple_call_counter[label] = simple_call_counter.setdefault(label, 0) + 1


def count(fn):
    """A function whose calls are counted under its name."""
    @functools.wraps(fn)
    def counted(*args, **kwargs):
        count_label(fn.__qualname__)
        return fn(*args, **kwargs)

    return counted
