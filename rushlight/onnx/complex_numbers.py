"""Complex numbers in ONNX: a value has a last dimension of 2 for its parts; transforms are the operator DFT."""

from __future__ import annotations

import numpy as np

from .._src.core.meta import product
from .._src.core.op import OPS
from .errors import OnnxExporterError
from .rules import rule


def real_form(tensor):
    """Return a tensor in ONNX's form: complex numbers with a last dimension of 2, in the same memory if possible."""
    return OPS["view_as_real"](tensor.resolve_conj()) if tensor.dtype.is_complex else tensor


@rule("complex")
def pair(w, node, *parts):
    """A complex value of its parts."""
    dtype = node.dtype.to_real()
    last = w.constant([-1])
    wide = [w.emit("Unsqueeze", w.emit("Expand", w.value(v, dtype), w.vector(node.shape)), last) for v in parts]
    return w.emit("Concat", *wide, axis=-1)


@rule("half")
def part(w, node, x, which):
    return w.emit("Gather", w.names[x], w.constant(int(which)), axis=-1)


def transform(w, value, dim, **how):
    """DFT along a dimension of a value whose last dimension has the parts.  Runtimes need a dimension before it."""
    axis = {} if w.opset >= 20 else {"axis": dim + 1}
    given = ["", w.constant(dim + 1)] if w.opset >= 20 else []
    made = w.emit("DFT", w.emit("Unsqueeze", value, w.constant([0])), *given, **how, **axis)
    return w.emit("Squeeze", made, w.constant([0]))


@rule("fft")
def fft(w, node, x, dims, inverse):
    value, dtype = w.names[x], node.dtype.to_real()
    for dim in dims:
        value = transform(w, value, dim, inverse=int(inverse))
    if inverse:  # the primitive has no factor
        value = w.emit("Mul", value, w.value(product(x.shape[d] for d in dims), dtype))
    return value


@rule("rfft")
def rfft(w, node, x, dim):
    return transform(w, w.emit("Unsqueeze", w.value(x, x.dtype), w.constant([-1])), dim, onesided=1)


@rule("irfft")
def irfft(w, node, x, dim, size):
    """The inverse of all coefficients: those of the second half are conjugates of the first, in the other order."""
    if not isinstance(size, int):
        raise OnnxExporterError("irfft of a dynamic size is not written as ONNX: export it for a fixed size")
    dtype, half = node.dtype, size // 2 + 1
    order = np.asarray([*range(half), *(size - k for k in range(half, size))], np.int64)
    signs = np.ones((size, *[1] * (len(x.shape) - dim - 1), 2))
    signs[half:, ..., 1] = -1
    value = w.emit("Mul", w.emit("Gather", w.names[x], w.constant(order), axis=dim), w.constant(signs, dtype))
    whole = w.emit("Mul", transform(w, value, dim, inverse=1), w.constant(size, dtype))
    return w.emit("Gather", whole, w.constant(0), axis=-1)
