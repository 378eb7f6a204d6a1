"""Primitives that combine elements along dimensions."""
from __future__ import annotations

import numpy as np

from ...core.dtypes import bool_, int64
from ...core.kinds import P, Reduce
from .primitive import primitive


# --- reductions -------------------------------------------------------------------------------------------------------
def reduction(name, numpy, combine, gradient=None, result=None):
    return primitive(name, Reduce(lambda x, dims: numpy(x, axis=dims, keepdims=True), combine, gradient, result),
                     lambda x, dims: 0)


def sum_numpy(x, axis, keepdims):
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def prod_numpy(x, axis, keepdims):
    return np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def extreme_gradient(g, y, x, dims):
    hit = P.convert(P.eq(x, y), dtype=g.dtype)
    return P.mul(P.div(g, P.sum(hit, dims)), hit)


def first_index(pick):
    def run(x, axis, keepdims):
        if x.dtype.kind == "b":
            x = x.astype(np.uint8)
        return pick(x, axis=axis[0], keepdims=keepdims).astype(np.int64)
    return run


sum = reduction("sum", sum_numpy, "add", lambda g, y, x, dims: P.expand(g, shape=tuple(x.shape)))
prod = reduction("prod", prod_numpy, "mul", lambda g, y, x, dims: P.div(P.mul(g, y), x))
amax = reduction("amax", np.max, "max", extreme_gradient)
amin = reduction("amin", np.min, "min", extreme_gradient)
any = reduction("any", np.any, "or", result=bool_)
all = reduction("all", np.all, "and", result=bool_)
argmax = reduction("argmax", first_index(np.argmax), "argmax", result=int64)
argmin = reduction("argmin", first_index(np.argmin), "argmin", result=int64)
