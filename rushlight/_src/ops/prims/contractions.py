"""Primitives that are sums of products: matmuls and convolutions."""
from __future__ import annotations

import numpy as np

from ...core.dtypes import int32
from ...core.kinds import Contract, Foreign, P
from .primitive import primitive


# --- contractions -----------------------------------------------------------------------------------------------------
def matmul_shape(a, b):
    return (*a.shape[:-1], b.shape[-1])


def transposed(x):
    rank = len(x.shape)
    dims = (*range(rank - 2), rank - 1, rank - 2)
    return P.permute(adjoint(x), dims=dims)


matmul = primitive("matmul", Contract(
    np.matmul, matmul_shape, lambda g, y, a, b: [P.matmul(g, transposed(b)), P.matmul(transposed(a), g)]),
                   lambda a, b: 0,
    doc="[*, m, k] @ [*, k, n] -> [*, m, n] with equal batch dimensions.")


int_matmul = primitive("int_matmul", Contract(lambda a, b: np.matmul(a.astype(np.int32), b.astype(np.int32)),
                                              matmul_shape, lambda g, y, a, b: [None, None], int32),
                       lambda a, b: 0, doc="int8 or uint8 [*, m, k] @ [*, k, n] -> int32 [*, m, n], exactly.")


def windows(x, kernel, stride, dilation):
    """[n, c, *space] -> [n, c, *out, *kernel], every window of x, without copying."""
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    rank = len(kernel)
    seen = np.lib.stride_tricks.sliding_window_view(x, spread, axis=tuple(range(2, 2 + rank)))
    return seen[(np.s_[:],) * 2 + tuple(np.s_[::s] for s in stride) + tuple(np.s_[::d] for d in dilation)]


def places(sizes, kernel, stride, padding, dilation):
    """Number of windows that fit, in each dimension."""
    return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1
                 for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation))


def conv_shape(x, w, stride, padding, dilation, groups):
    return (x.shape[0], w.shape[0], *places(x.shape[2:], w.shape[2:], stride, padding, dilation))


def bordered(padding):
    return [(0, 0), (0, 0), *((p, p) for p in padding)]


def conv_numpy(x, w, stride, padding, dilation, groups):
    out, per, rank = [], x.shape[1] // groups, w.ndim - 2
    x = np.pad(x, bordered(padding))
    share = w.shape[0] // groups
    for k in range(groups):
        seen = windows(x[:, k * per:(k + 1) * per], w.shape[2:], stride, dilation)
        axes = [1, *range(2 + rank, 2 + 2 * rank)]
        out.append(np.moveaxis(np.tensordot(seen, w[k * share:(k + 1) * share], (axes, [1, *range(2, 2 + rank)])), -1,
                               1))
    return np.concatenate(out, 1).astype(x.dtype)


def conv_input_numpy(g, w, shape, stride, padding, dilation, groups):
    per, share = w.shape[1], w.shape[0] // groups
    full = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding))), g.dtype)
    for k in range(groups):
        part = full[:, k * per:(k + 1) * per]
        # [n, *out, c, *kernel]
        columns = np.tensordot(g[:, k * share:(k + 1) * share], w[k * share:(k + 1) * share], ([1], [0]))
        for at in np.ndindex(*w.shape[2:]):
            target = tuple(np.s_[a * d:a * d + (n - 1) * s + 1:s]
                           for a, d, n, s in zip(at, dilation, g.shape[2:], stride))
            part[(np.s_[:], np.s_[:], *target)] += np.moveaxis(columns[(..., *at)], -1, 1)
    return full[(np.s_[:], np.s_[:], *(np.s_[p:p + n] for p, n in zip(padding, shape[2:])))]


def conv_weight_numpy(g, x, shape, stride, padding, dilation, groups):
    rank, per, share = x.ndim - 2, x.shape[1] // groups, shape[0] // groups
    x, out = np.pad(x, bordered(padding)), []
    for k in range(groups):
        seen = windows(x[:, k * per:(k + 1) * per], shape[2:], stride, dilation)
        seen = seen[(np.s_[:], np.s_[:], *(np.s_[:n] for n in g.shape[2:]))]
        axes = [0, *range(2, 2 + rank)]
        out.append(np.tensordot(g[:, k * share:(k + 1) * share], seen, (axes, axes)))
    return np.concatenate(out, 0).astype(x.dtype)


def int_conv_shape(x, w, stride, padding, dilation, groups, border):
    return (x.shape[0], *places(x.shape[1:-1], w.shape[2:], stride, padding, dilation), w.shape[0])


def int_conv_numpy(x, w, stride, padding, dilation, groups, border):
    x = np.pad(np.moveaxis(x, -1, 1).astype(np.int32), bordered(padding), constant_values=border)
    return np.moveaxis(conv_numpy(x, w.astype(np.int32), stride, (0,) * len(padding), dilation, groups), 1, -1)


def adjoint(x):
    """The conjugate of complex values; real ones unchanged."""
    return P.conj(x) if x.dtype.is_complex else x


def conv_gradient(g, y, x, w, **geometry):
    return [P.conv_input(g, adjoint(w), shape=tuple(x.shape), **geometry),
            P.conv_weight(g, adjoint(x), shape=tuple(w.shape), **geometry)]


def conv_for(grad, x, w, **geometry):
    """The convolution whose gradient is ``grad``; after a transposed one with much output padding, some windows are
    made by no element of it."""
    back = P.conv(x, w, **geometry)
    if tuple(back.shape) != tuple(grad.shape):
        back = P.slice(back, starts=(0,) * len(grad.shape), steps=(1,) * len(grad.shape), shape=tuple(grad.shape))
    return back


def conv_input_gradient(g, y, grad, w, shape, **geometry):
    """Cotangents of a convolution's input gradient: for the gradient ``grad`` and for the weight."""
    return [conv_for(grad, g, adjoint(w), **geometry),
            P.conv_weight(adjoint(grad), g, shape=tuple(w.shape), **geometry)]


def conv_weight_gradient(g, y, grad, x, shape, **geometry):
    return [conv_for(grad, adjoint(x), g, **geometry), P.conv_input(adjoint(grad), g, shape=tuple(x.shape), **geometry)]


conv = primitive("conv", Contract(conv_numpy, conv_shape, conv_gradient),
                 lambda x, w, stride, padding, dilation, groups: 0,
                 doc="Cross-correlation. x: [n, c, *space], w: [o, c / groups, *kernel] -> [n, o, *out].")
conv_input = primitive("conv_input", Contract(conv_input_numpy, lambda g, w, shape, **_: tuple(shape),
                                              conv_input_gradient),
                       lambda g, w, shape, stride, padding, dilation, groups: 0,
                       doc="The transpose of conv in its input: g: [n, o, *out] -> shape [n, c, *space].")
conv_weight = primitive("conv_weight", Contract(conv_weight_numpy, lambda g, x, shape, **_: tuple(shape),
                                                conv_weight_gradient),
                        lambda g, x, shape, stride, padding, dilation, groups: 0,
                        doc="The transpose of conv in its weight: g: [n, o, *out], x: [n, c, *space] -> shape [o, c / "
                            "groups, *kernel].")


def channels_at_end(x):
    return P.permute(x, dims=(0, *range(2, len(x.shape)), 1))


def channels_in_front(x):
    return P.permute(x, dims=(0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))


def conv_last_gradient(g, y, x, w, **geometry):
    return [P.conv_last_input(g, adjoint(w), shape=tuple(x.shape), **geometry),
            P.conv_weight(channels_in_front(g), channels_in_front(adjoint(x)), shape=tuple(w.shape), **geometry)]


def conv_last_input_gradient(g, y, grad, w, shape, **geometry):
    back, of_weight = conv_input_gradient(channels_in_front(g), y, channels_in_front(grad), w,
                                          (shape[0], shape[-1], *shape[1:-1]), **geometry)
    return [channels_at_end(back), of_weight]


conv_last = primitive("conv_last", Contract(
    lambda x, w, **geometry: np.moveaxis(conv_numpy(np.moveaxis(x, -1, 1), w, **geometry), 1, -1),
    lambda x, w, stride, padding, dilation, groups: (x.shape[0], *places(x.shape[1:-1], w.shape[2:], stride, padding,
                                                                         dilation), w.shape[0]), conv_last_gradient),
    lambda x, w, stride, padding, dilation, groups: 0,
                      doc="conv with channels last. x: [n, *space, c], w: [o, c / groups, *kernel] -> [n, *out, o].")
conv_last_input = primitive("conv_last_input", Contract(
    lambda g, w, shape, **geometry: np.moveaxis(conv_input_numpy(np.moveaxis(g, -1, 1), w,
                                                                 (shape[0], shape[-1], *shape[1:-1]), **geometry), 1,
                                                -1),
    lambda g, w, shape, **_: tuple(shape), conv_last_input_gradient),
    lambda g, w, shape, stride, padding, dilation, groups: 0,
                            doc="The transpose of conv_last in its input: g: [n, *out, o] -> shape [n, *space, c].")
int_conv = primitive("int_conv", Contract(int_conv_numpy, int_conv_shape, lambda g, y, x, w, **_: [None, None], int32),
                     lambda x, w, stride, padding, dilation, groups, border: 0,
                     doc="Cross-correlation of bytes with channels last, exactly. x: uint8 or int8 [n, *space, c], "
                         "around which stands the number border, "
                         "w: int8 [o, c / groups, *kernel] -> int32 [n, *out, o].")

item = primitive("item", Foreign(lambda values, index: values[index], lambda metas, index: metas[index]),
                 lambda values, index: 0, arity=1,
                 doc="One of several results of an operator.")
