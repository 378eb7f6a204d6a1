"""Backends for tests: they count what they get and run it as it is."""
from __future__ import annotations

import collections
import math
import types


class CompileCounter:
    """A backend that counts graphs (``frame_count``) and their operators (``op_count``).

    >>> import rushlight as torch
    >>> counter = torch._dynamo.testing.CompileCounter()
    >>> _ = torch.compile(lambda x: x.sin() + 1, backend=counter)(torch.zeros(2))
    >>> counter.frame_count, counter.op_count
    (1, 2)
    """

    def __init__(self):
        self.frame_count = self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call_") for node in gm.graph.nodes)
        return gm.forward

    def clear(self):
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """Counts, keeps the graphs, and compiles them by another backend."""

    def __init__(self, backend):
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm, example_inputs):
        from .._src.compiling import lookup_backend
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)


class EagerAndRecordGraphs:
    """A backend that keeps the graphs it gets."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs(EagerAndRecordGraphs):
    """A backend that keeps the graphs it gets, and their forward and backward programs."""

    def __init__(self):
        super().__init__()
        self.fw_graphs, self.bw_graphs = [], []

    def __call__(self, gm, example_inputs):
        from ..fx.aot import aot_module_simplified

        def keep(where):
            return lambda module, inputs: where.append(module) or module.forward

        super().__call__(gm, example_inputs)
        return aot_module_simplified(gm, example_inputs, keep(self.fw_graphs), keep(self.bw_graphs))


SEQUENCES = tuple, list, collections.deque


def same(ref, res, fp64_ref=None, cos_similarity=False, tol=1e-4, equal_nan=False, exact_dtype=True,
         relax_numpy_equality=False, **_) -> bool:
    """Whether two results hold the same values, nested alike, in sequences of any kind: tensors and arrays of one
    dtype (with ``exact_dtype``) within ``tol``, objects by their attributes.

    >>> import rushlight as torch
    >>> from rushlight._dynamo.testing import same
    >>> same((torch.ones(2), {"a": 1}), (torch.ones(2), {"a": 1})), same([1], {1: 1})
    (True, False)
    """
    import numpy as np

    from .._src.core.native import Tensor
    from .._src.core.op import OPS

    def alike(a, b):
        if isinstance(a, (np.ndarray, np.generic)):
            if not relax_numpy_equality and type(a) is not type(b) or a.dtype != b.dtype:
                return False
            return np.allclose(a, b, rtol=tol, atol=tol,
                               equal_nan=True) if a.dtype.kind in "fciub" else bool((a == b).all())
        if isinstance(a, Tensor):
            if not isinstance(b, Tensor) or a.shape != b.shape or exact_dtype and a.dtype is not b.dtype:
                return False
            return bool(OPS["allclose"](a.to_dense(), b.to_dense().to(a.dtype), rtol=tol, atol=tol,
                                        equal_nan=True)) if a.is_sparse else \
                bool(OPS["allclose"](a, b.to(a.dtype), rtol=tol, atol=tol, equal_nan=True))
        if isinstance(a, dict):
            return isinstance(b, dict) and a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
        if isinstance(a, SEQUENCES):
            return isinstance(b, SEQUENCES) and len(a) == len(b) and all(map(alike, a, b))
        if isinstance(a, float):
            return type(b) is float and (math.isclose(a, b, rel_tol=tol, abs_tol=tol) or a != a and b != b)
        own = type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__") and not isinstance(
            a, (type, types.FunctionType, types.ModuleType))
        return a == b or own and type(a) is type(b) and alike(vars(a), vars(b))

    return alike(ref, res)


def rand_strided(size, stride, dtype=None, device="cpu", extra_size=0):
    """Random numbers with the given sizes and strides."""
    from .._src.core.op import OPS
    count = 1 + extra_size + sum((n - 1) * s for n, s in zip(size, stride))
    made = OPS["randn"](count, device=device).to(dtype or OPS["randn"](0).dtype)
    return OPS["as_strided"](made, size, stride)


def reset_rng_state():
    """Reset the random generator to seed 1337."""
    from .._src.core.random import manual_seed
    manual_seed(1337)


def reduce_to_scalar_loss(out):
    """One number of a tensor, or of what is nested: the mean of means of tensors."""
    from .._src.core.native import Tensor
    if isinstance(out, Tensor):
        return out.sum() / out.numel()
    if isinstance(out, (list, tuple)):
        return sum(map(reduce_to_scalar_loss, out)) / len(out)
    if isinstance(out, dict):
        return sum(map(reduce_to_scalar_loss, out.values())) / len(out)
    raise NotImplementedError(f"a loss of a {type(out).__name__}")
