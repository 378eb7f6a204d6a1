"""One number for every dimension, or one each: under the names that other libraries import."""
from .conv import ntuple

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(count, name="parse"):
    """A function that gives ``count`` numbers for one, and several as they are."""
    def parse(value):
        return ntuple(value, count)

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n, name)
                                       for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1))


def _reverse_repeat_tuple(t, n):
    """Each element n times, the last one first: padding by dimension as ``pad`` takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix: str):
    """Takes a prefix off the keys of a state dict, in place: what a wrapper such as DistributedDataParallel put there.

    >>> from rushlight.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1, 'bias': 2}
    """
    kept = list(state_dict.items())
    state_dict.clear()
    state_dict.update((key.removeprefix(prefix), value) for key, value in kept)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in [k for k in metadata if k and (k + ".").startswith(prefix)]:
            metadata[key.removeprefix(prefix) if key + "." != prefix else ""] = metadata.pop(key)
