"""Map an operator call to the aten overloads that ``__torch_dispatch__`` sees below autograd: one, or several in turn.

PyTorch has three kinds of operators there: visible ones (``meaning`` finds the overload), those that it decomposes
(``composites.txt`` names them), and those that users never call, whose Rushlight spelling is in ``ONE``.
"""
from __future__ import annotations

import functools
import pathlib

from .._ops import ops
from .._src.api import get_default_device
from .._src.core.meta import reshaped_strides
from . import compositions_of_factors, compositions_of_products  # noqa: F401 - register decompositions
from .compositions import SEVERAL, WHOLE
from .conventions import meaning
from .overloads import overloads

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805  # of selu
FAR = 2 ** 63 - 1  # where a slice without an end ends


@functools.cache
def composites() -> frozenset:
    """The overloads that PyTorch writes as others, as ``name`` or ``name.overload``."""
    return frozenset((pathlib.Path(__file__).parent / "composites.txt").read_text(encoding="utf-8").split())


def is_composite(name: str, label: str) -> bool:
    return (name if label == "default" else f"{name}.{label}") in composites()


def sliced(input, index):
    """The one slice of an index; None where it has more."""
    cut = [(dim, entry) for dim, entry in enumerate(index) if entry != WHOLE]
    if len(cut) != 1 or not isinstance(cut[0][1], tuple):
        return None
    dim, (_, start, end, step) = cut[0]
    rest = () if step in (None, 1) else (step,)
    return "slice", "Tensor", (input, dim, 0 if start is None else start, FAR if end is None else end, *rest), {}


def rows(input, indices):
    kept = list(indices)
    while kept and kept[-1] is None:
        kept.pop()
    return "index", "Tensor", (input, kept), {}


def resized(input, shape):
    """A primitive that makes a view where it can."""
    viewable = reshaped_strides(input._rush_meta.shape, input._rush_meta.strides, tuple(shape)) is not None
    return "view" if viewable else "_unsafe_view", "default", (input, list(shape)), {}


def summed(input, dims):
    return ("sum", "dim_IntList", (input, list(dims), True), {}) if input.dtype.is_inexact else None


def filled(value, size, dtype, device=None):
    if not isinstance(value, (int, float, complex)):
        return None
    return "full", "default", (list(size), value), {"dtype": dtype, "device": device or get_default_device()}


PRIMITIVES = {  # those whose meaning is an operator's, and which backward passes are made of
    "prims.reshape": resized, "prims.sum": summed, "_filled": filled,
    "prims.expand": lambda input, shape: ("expand", "default", (input, list(shape)), {}),
    "prims.permute": lambda input, dims: ("permute", "default", (input, list(dims)), {}),
    "prims.convert": lambda input, dtype: ("_to_copy", "default", (input,), {"dtype": dtype}),
}
ONE = {  # our operator: the call of PyTorch's that it is, or None
    "index_basic": sliced,
    "_index": rows,
    "nn.functional._selu": lambda input: ("elu", "default", (input, ALPHA, SCALE), {}),
    "_embedding": lambda weight, indices, padding_idx: (
        "embedding", "default", (weight, indices, *(() if padding_idx is None else (padding_idx,))), {}),
    "_index_put": lambda input, indices, values, accumulate: (
        "index_put", "default", (*rows(input, indices)[2], values, *([True] if accumulate else [])), {}),
}


SPECIAL = {"gammaln": "lgamma", "psi": "digamma", "expit": "sigmoid", "gammainc": "igamma", "gammaincc": "igammac",
           "multigammaln": "mvlgamma"}


def shortened(found):
    """A composite of the special functions as the operator of the top level that it calls, where it calls one."""
    name = found[0].removeprefix("special_")
    name = SPECIAL.get(name, name)
    known = overloads(name) if found[0].startswith("special_") else {}
    return (name, *found[1:]) if found[1] in known and not is_composite(name, found[1]) else None


def one(op, args, kwargs):
    """(overload, args, kwargs) of a call that PyTorch shows as one; None where it shows none, or several."""
    if op.name in PRIMITIVES:
        found = PRIMITIVES[op.name](*args, **kwargs)
    elif op.name in ONE:
        found = ONE[op.name](*args, **kwargs)
    elif op.name in SEVERAL:
        return None
    else:
        found = None if op.name == "_to_dtype" else meaning(op, args, kwargs)
        found = shortened(found) if found is not None and is_composite(*found[:2]) else found
    if found is None:
        return None
    name, label, args, kwargs = found
    packet = getattr(ops.aten, name, None)
    return (ops.aten.packet(name, op) if packet is None else packet).overload(label), args, kwargs


def several(op):
    """The function that calls what is seen in place of an operator that PyTorch writes as others; None for others."""
    return SEVERAL.get(op.name)
