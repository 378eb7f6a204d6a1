"""The NumPy reference implementation of a program: slow, and correct by definition.

Half-precision values are carried as float32 and rounded when stored, as in generated kernels.
"""
from __future__ import annotations

import ctypes
import threading

import numpy as np

from ..core.meta import Meta
from ..core.narrow import narrow, widen
from ..graph.graph import Graph, Node, map_nodes, nodes_in
from ..graph.views import is_part
from ..ops import openblas


def array_at(address: int, meta: Meta) -> np.ndarray:
    """A NumPy array over memory, sharing it. bfloat16 appears as uint16, float8 as uint8."""
    if meta.numel == 0:
        return np.empty(meta.shape, meta.dtype.numpy)
    size = meta.itemsize
    return np.ndarray(meta.shape, meta.dtype.numpy, (ctypes.c_char * meta.nbytes).from_address(address), 0,
                      [s * size for s in meta.strides])


def evaluate(graph: Graph, values: list) -> list:
    """The outputs of a program for NumPy inputs."""
    return computation(graph)(values)


def computation(graph: Graph):
    """A program as a function from NumPy inputs to outputs."""
    steps, outputs = [(node, step(node)) for node in graph.nodes], graph.result_nodes()

    def run(values):
        env = dict(zip(graph.inputs, values))
        with np.errstate(all="ignore"):
            for node, compute in steps:
                env[node] = compute(env)
        return [env[n] for n in outputs]

    return run


def step(node: Node):
    """One call of a program as a function of the values computed before it."""
    if node.inside is not None:
        inner = computation(node.inside)
        given = list(nodes_in(node.args))

        def opened(env):
            results = inner([env[n] for n in given])
            return results[0] if isinstance(node.meta, Meta) else tuple(results)

        return opened
    args = same_type(node) if node.op.kind.name == "elementwise" else node.args
    function, params, finish = node.op.kind.numpy, node.params, declared(node.meta)
    if node.op.kind.name in ("contract", "foreign") and not is_part(node):
        function = openblas.sparing(function)
    if node.op.kind.name == "reduce" and node.args[0].dtype.is_widened:
        dtype = node.args[0].dtype
        return lambda env: finish(function(widen(narrow(env[args[0]], dtype), dtype), **params))
    if any(isinstance(a, tuple) for a in args):
        return lambda env: finish(function(*map_nodes(args, env.__getitem__), **params))
    return lambda env: finish(function(*[env[a] if type(a) is Node else a for a in args], **params))


def computing_type(dtype):
    return np.dtype(np.complex64 if dtype.is_complex else np.float32) if dtype.is_widened else dtype.numpy


def same_type(node):
    """The arguments of a call, with Python numbers converted to the type of the array arguments, so that NumPy's own
    promotion does not apply."""
    dtypes = [a.dtype for a in node.args if isinstance(a, Node)]
    if not dtypes or node.op.name == "prims.convert":
        return node.args
    target = computing_type(dtypes[-1])
    with np.errstate(all="ignore"):
        return tuple(a if isinstance(a, Node) else np.asarray(a).astype(target) for a in node.args)


def declared(meta):
    """A function that converts arrays to a result: in the type in which its dtype is computed, each of several
    separately."""
    if isinstance(meta, tuple):
        parts = [declared(m) for m in meta]
        return lambda results: tuple(finish(r) for finish, r in zip(parts, results))
    wanted = computing_type(meta.dtype)

    def finish(result):
        result = np.asarray(result)
        return result if result.dtype is wanted or result.dtype == wanted else result.astype(wanted)

    return finish


class Failures(threading.local):
    """An exception raised inside a callback of this thread, to be raised again when the program returns."""

    pending: BaseException | None = None


failures = Failures()
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def callback(graph: Graph, inputs: list, outputs: list):
    """A kernel (``void kernel(slots, begin, end, worker)``) that computes ``graph`` with NumPy.

    ``inputs`` and ``outputs`` are the Metas of each; the slots are their addresses (of weak inputs: the number), then
    the address of the error flag.
    """
    count = len(inputs) + len(outputs) + 1
    compute = computation(graph)
    sources = [(k, node.weak, meta) for k, (node, meta) in enumerate(zip(graph.inputs, inputs))]
    targets = list(enumerate(outputs, len(inputs)))

    def run(slots, begin, end, worker):
        block = (ctypes.c_int64 * count).from_address(slots)
        try:
            written = [(block[k], block[k] + meta.nbytes) for k, meta in targets]
            values = [number(block, k, meta) if weak else read(block[k], meta, written) for k, weak, meta in sources]
            for (k, meta), result in zip(targets, compute(values)):
                array_at(block[k], meta)[...] = narrow(result, meta.dtype)
        except BaseException as error:  # carried over the native frames, raised by the caller
            failures.pending = error
            ctypes.c_int64.from_address(block[count - 1]).value = 1

    return KERNEL(run)


def number(block, k, meta):
    """A run-time scalar."""
    if meta.dtype.is_floating_point:
        return np.asarray(ctypes.c_double.from_buffer(block, k * 8).value)
    return np.asarray(block[k]).astype(meta.dtype.numpy)


def read(address, meta, written):
    """The elements of an input, read-only; a copy if its memory overlaps written memory."""
    found = array_at(address, meta)
    if meta.dtype.is_widened or any(low < address + meta.nbytes and address < high for low, high in written):
        found = np.array(widen(found, meta.dtype))
    found.flags.writeable = False
    return found


def address_of(kernel) -> int:
    """The address of a callback."""
    return ctypes.cast(kernel, ctypes.c_void_p).value
