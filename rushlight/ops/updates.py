"""What one step of an optimizer does to a parameter and its state: each one kernel that reads and writes them once.

Half precision computes in float32 and rounds what is stored.
"""
from __future__ import annotations

from ..core.kinds import P
from ..core.op import Scalar, op
from .activation import back
from .promotion import as_dtype, wide


def moved(start, end, weight):
    """start + weight * (end - start)."""
    return P.add(start, P.mul(P.sub(end, start), weight))


@op(method=False, name="_adam_step")
def adam_step(param, grad, mean, square, highest, shrink: Scalar, decay: Scalar, weight1: Scalar, beta2: Scalar, weight2: Scalar,
              correction2: Scalar, eps: Scalar, size: Scalar, decoupled):
    """One step of Adam (Kingma & Ba 2014).

    ``shrink`` scales the parameter first (decoupled weight decay), ``decay`` adds to the gradient; ``weight1`` and ``weight2`` are
    1 - beta; ``correction2`` is the root of the second moment's bias correction, ``size`` the step with the first one's.
    """
    p, g, m, v = map(wide, (param, grad, mean, square))
    shrink, decay, weight1, beta2, weight2, correction2, eps, size = (
        as_dtype(s, p.dtype) for s in (shrink, decay, weight1, beta2, weight2, correction2, eps, size))
    if decoupled:
        p = P.mul(p, shrink)
    elif decoupled is not None:
        g = P.add(g, P.mul(p, decay))
    m = moved(m, g, weight1)
    v = P.add(P.mul(v, beta2), P.mul(P.mul(g, g), weight2))
    mean.copy_(back(m, mean))
    square.copy_(back(v, square))
    if highest is not None:
        v = P.maximum(wide(highest), v)
        highest.copy_(back(v, highest))
    root = P.add(P.div(P.sqrt(v), correction2), eps)
    return param.copy_(back(P.add(p, P.mul(P.div(m, root), size)), param))


@op(method=False, name="_sgd_step")
def sgd_step(param, grad, buffer, size: Scalar, decay: Scalar, momentum: Scalar, weight: Scalar, decayed, nesterov):
    """One step of gradient descent with momentum (Sutskever et al. 2013); ``weight`` is 1 - dampening, ``size`` the negative step."""
    p, g = wide(param), wide(grad)
    size, decay, momentum, weight = (as_dtype(s, p.dtype) for s in (size, decay, momentum, weight))
    if decayed:
        g = P.add(g, P.mul(p, decay))
    if buffer is not None:
        b = P.add(P.mul(wide(buffer), momentum), P.mul(g, weight))
        buffer.copy_(back(b, buffer))
        g = P.add(g, P.mul(b, momentum)) if nesterov else b
    return param.copy_(back(P.add(p, P.mul(g, size)), param))
