"""The NumPy meaning of a program: slow, and by definition right.

Half-precision values are carried as float32 and rounded when stored, as in generated kernels.
"""
from __future__ import annotations

import ctypes
import threading

import numpy as np

from ..core.dtypes import bfloat16, float16
from ..core.meta import Meta
from ..graph.graph import Graph, Node, map_nodes


def array_at(address: int, meta: Meta) -> np.ndarray:
    """A NumPy array over memory, sharing it.  bfloat16 appears as uint16."""
    if meta.numel == 0:
        return np.empty(meta.shape, meta.dtype.numpy)
    block = (ctypes.c_char * meta.nbytes).from_address(address)
    flat = np.frombuffer(block, dtype=meta.dtype.numpy)
    return np.lib.stride_tricks.as_strided(flat, meta.shape, tuple(s * meta.itemsize for s in meta.strides))


def widen(array: np.ndarray, dtype) -> np.ndarray:
    """Stored elements as the type NumPy computes in."""
    if dtype is bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype is float16 else array


def narrow(array, dtype) -> np.ndarray:
    """Computed elements as they are stored, rounded to nearest even."""
    array = np.asarray(array)
    if dtype is bfloat16:
        bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
        rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy, copy=False)


def evaluate(graph: Graph, values: list) -> list:
    """The outputs of a program for NumPy inputs."""
    env = dict(zip(graph.inputs, values))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            args = map_nodes(node.args, env.__getitem__)
            if node.inside is not None:
                results = evaluate(node.inside, list(_arrays(args)))
                env[node] = results[0] if isinstance(node.meta, Meta) else tuple(results)
                continue
            kind = node.op.kind
            if kind.name == "elementwise":
                args = same_type(args, node)
            result = kind.numpy(*args, **node.params)
            env[node] = as_declared(result, node.meta)
    return [env[n] for n in graph.result_nodes()]


def _arrays(args):
    for a in args:
        if isinstance(a, np.ndarray):
            yield a
        elif isinstance(a, tuple):
            yield from _arrays(a)


def computing_type(dtype):
    return np.dtype(np.float32) if dtype.is_half else dtype.numpy


def same_type(args, node):
    """Python numbers take the type of the arrays beside them, so that NumPy's own promotion has no say."""
    metas = [a.dtype for a in node.args if isinstance(a, Node)]
    if not metas or node.op.name == "prims.convert":
        return args
    target = computing_type(metas[-1])
    with np.errstate(all="ignore"):
        return tuple(a if isinstance(a, np.ndarray) else np.asarray(a).astype(target) for a in args)


def as_declared(result, meta):
    if isinstance(meta, tuple):
        return tuple(as_declared(r, m) for r, m in zip(result, meta))
    result = np.asarray(result)
    wanted = computing_type(meta.dtype)
    return result if result.dtype == wanted else result.astype(wanted)


class Failures(threading.local):
    """What went wrong inside a callback of this thread, to be raised once the program is back."""

    pending: BaseException | None = None


failures = Failures()
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def callback(graph: Graph, inputs: list, outputs: list):
    """A kernel (``void kernel(slots, begin, end, worker)``) that computes ``graph`` with NumPy.

    ``inputs`` and ``outputs`` tell the Meta of each; the slots are their addresses (of weak inputs: the number), then the
    address of the error flag.
    """
    count = len(inputs) + len(outputs) + 1

    def run(slots, begin, end, worker):
        block = (ctypes.c_int64 * count).from_address(slots)
        try:
            values = [read(block, k, node, place.meta) for k, (node, place) in enumerate(zip(graph.inputs, inputs))]
            results = evaluate(graph, values)
            for k, (place, result) in enumerate(zip(outputs, results), len(inputs)):
                array_at(block[k], place.meta)[...] = narrow(result, place.meta.dtype)
        except BaseException as error:  # carried over the native frames, raised by the caller
            failures.pending = error
            ctypes.c_int64.from_address(block[count - 1]).value = 1

    def read(block, k, node, meta):
        if node.weak:
            if meta.dtype.category == 2:
                return np.asarray(ctypes.c_double.from_buffer(block, k * 8).value)
            return np.asarray(block[k]).astype(meta.dtype.numpy)
        return widen(array_at(block[k], meta), meta.dtype).copy()

    return KERNEL(run)
