"""One optimizer step of a parameter and its state: each a single kernel that reads and writes them once.

16-bit floats are computed in float32 and rounded when stored.  Numbers that change from step to step are run-time
scalars.
"""
from __future__ import annotations

from ..core.interpret import is_recording
from ..core.kinds import P
from ..core.native import Tensor
from ..core.op import Scalar, op
from .promotion import as_dtype, downcast, upcast


def moved(start, end, weight):
    """start + weight * (end - start)."""
    return P.add(start, P.mul(P.sub(end, start), weight))


def square_of(x):
    return P.mul(x, x)


def store(target, value):
    """Round a value and store it in ``target``."""
    return target.copy_(downcast(value, target))


def entered(numbers, *tensors):
    """Tensors at the precision of the computation, and run-time scalars in their dtype.  If a scalar requires a
    gradient, the backward pass reads values that later steps overwrite: these are copied."""
    if is_recording() and any(isinstance(n, Tensor) and n.requires_grad for n in numbers):
        tensors = [t if t is None else t.clone() for t in tensors]
    tensors = [t if t is None else upcast(t) for t in tensors]
    return [*tensors, *(as_dtype(n, tensors[0].dtype) for n in numbers)]


def with_decay(p, g, shrink, decay, decoupled):
    """Weight decay: of the parameter itself (``decoupled``), added to the gradient (False), or none (None)."""
    if decoupled:
        return P.mul(p, shrink), g
    return p, g if decoupled is None else P.add(g, P.mul(p, decay))


@op(method=False, name="_adam_step", writes=("param", "mean", "square", "highest"))
def adam_step(param, grad, mean, square, highest, shrink: Scalar, decay: Scalar, weight1: Scalar, beta2: Scalar,
              weight2: Scalar,
              correction2: Scalar, eps: Scalar, size: Scalar, decoupled):
    """One step of Adam (Kingma & Ba 2014).

    ``shrink`` scales the parameter first (decoupled weight decay), ``decay`` adds to the gradient; ``weight1`` and
    ``weight2`` are 1 - beta; ``correction2`` is the root of the second moment's bias correction, ``size`` the step with
    the first one's.
    """
    p, g, m, v, top, shrink, decay, weight1, beta2, weight2, correction2, eps, size = entered(
        (shrink, decay, weight1, beta2, weight2, correction2, eps, size), param, grad, mean, square, highest)
    p, g = with_decay(p, g, shrink, decay, decoupled)
    m = moved(m, g, weight1)
    v = P.add(P.mul(v, beta2), P.mul(square_of(g), weight2))
    store(mean, m)
    store(square, v)
    if highest is not None:
        v = P.maximum(top, v)
        store(highest, v)
    root = P.add(P.div(P.sqrt(v), correction2), eps)
    return store(param, P.add(p, P.mul(P.div(m, root), size)))


@op(method=False, name="_sgd_step", writes=("param", "buffer"))
def sgd_step(param, grad, buffer, size: Scalar, decay: Scalar, momentum: Scalar, weight: Scalar, decayed, nesterov):
    """One step of gradient descent with momentum (Sutskever et al. 2013); ``weight`` is 1 - dampening, ``size`` the
    negative step size."""
    p, g, b, size, decay, momentum, weight = entered((size, decay, momentum, weight), param, grad, buffer)
    if decayed:
        g = P.add(g, P.mul(p, decay))
    if buffer is not None:
        b = P.add(P.mul(b, momentum), P.mul(g, weight))
        store(buffer, b)
        g = P.add(g, P.mul(b, momentum)) if nesterov else b
    return store(param, P.add(p, P.mul(g, size)))


@op(method=False, name="_adamax_step", writes=("param", "mean", "largest"))
def adamax_step(param, grad, mean, largest, decay: Scalar, weight1: Scalar, beta2: Scalar, eps: Scalar, size: Scalar,
                decayed):
    """One step of Adamax (Kingma & Ba 2014, section 7.1): Adam with the infinity norm."""
    p, g, m, u, decay, weight1, beta2, eps, size = entered((decay, weight1, beta2, eps, size), param, grad, mean,
                                                           largest)
    p, g = with_decay(p, g, 1.0, decay, False if decayed else None)
    m, u = moved(m, g, weight1), P.maximum(P.mul(u, beta2), P.add(P.abs(g), eps))
    store(mean, m)
    store(largest, u)
    return store(param, P.add(p, P.mul(P.div(m, u), size)))


@op(method=False, name="_nadam_step", writes=("param", "mean", "square"))
def nadam_step(param, grad, mean, square, shrink: Scalar, decay: Scalar, weight1: Scalar, beta2: Scalar,
               weight2: Scalar, correction2: Scalar,
               eps: Scalar, size_grad: Scalar, size_mean: Scalar, decoupled):
    """One step of Adam with Nesterov momentum (Dozat 2016); the two sizes are those of the gradient and of the next
    mean."""
    p, g, m, v, shrink, decay, weight1, beta2, weight2, correction2, eps, size_grad, size_mean = entered(
        (shrink, decay, weight1, beta2, weight2, correction2, eps, size_grad, size_mean), param, grad, mean, square)
    p, g = with_decay(p, g, shrink, decay, decoupled)
    m, v = moved(m, g, weight1), P.add(P.mul(v, beta2), P.mul(square_of(g), weight2))
    store(mean, m)
    store(square, v)
    root = P.add(P.sqrt(P.div(v, correction2)), eps)
    return store(param, P.add(P.add(p, P.mul(P.div(g, root), size_grad)), P.mul(P.div(m, root), size_mean)))


@op(method=False, name="_radam_step", writes=("param", "mean", "square"))
def radam_step(param, grad, mean, square, shrink: Scalar, decay: Scalar, weight1: Scalar, beta2: Scalar,
               weight2: Scalar, correction1: Scalar,
               root2: Scalar, eps: Scalar, rectified: Scalar, plain: Scalar, size: Scalar, decoupled):
    """One step of rectified Adam (Liu et al. 2019); while the variance is not tractable ``rectified`` is 0 and
    ``plain`` is 1."""
    p, g, m, v, shrink, decay, weight1, beta2, weight2, correction1, root2, eps, rectified, plain, size = entered(
        (shrink, decay, weight1, beta2, weight2, correction1, root2, eps, rectified, plain, size), param, grad, mean,
        square)
    p, g = with_decay(p, g, shrink, decay, decoupled)
    m, v = moved(m, g, weight1), P.add(P.mul(v, beta2), P.mul(square_of(g), weight2))
    store(mean, m)
    store(square, v)
    factor = P.add(P.mul(P.div(root2, P.add(P.sqrt(v), eps)), rectified), plain)
    return store(param, P.add(p, P.mul(P.mul(P.div(m, correction1), size), factor)))


@op(method=False, name="_adagrad_step", writes=("param", "total"))
def adagrad_step(param, grad, total, decay: Scalar, eps: Scalar, size: Scalar, decayed):
    """One adaptive subgradient step (Duchi et al. 2011)."""
    p, g, s, decay, eps, size = entered((decay, eps, size), param, grad, total)
    p, g = with_decay(p, g, 1.0, decay, False if decayed else None)
    s = P.add(s, square_of(g))
    store(total, s)
    return store(param, P.add(p, P.mul(P.div(g, P.add(P.sqrt(s), eps)), size)))


@op(method=False, name="_adadelta_step", writes=("param", "square", "change"))
def adadelta_step(param, grad, square, change, decay: Scalar, rho: Scalar, weight: Scalar, eps: Scalar, size: Scalar,
                  decayed):
    """One step of Adadelta (Zeiler 2012)."""
    p, g, v, d, decay, rho, weight, eps, size = entered((decay, rho, weight, eps, size), param, grad, square, change)
    p, g = with_decay(p, g, 1.0, decay, False if decayed else None)
    v = P.add(P.mul(v, rho), P.mul(square_of(g), weight))
    delta = P.mul(P.div(P.sqrt(P.add(d, eps)), P.sqrt(P.add(v, eps))), g)
    store(square, v)
    store(change, P.add(P.mul(d, rho), P.mul(square_of(delta), weight)))
    return store(param, P.add(p, P.mul(delta, size)))


@op(method=False, name="_rmsprop_step", writes=("param", "square", "average", "buffer"))
def rmsprop_step(param, grad, square, average, buffer, decay: Scalar, alpha: Scalar, weight: Scalar, momentum: Scalar,
                 eps: Scalar, size: Scalar, decayed):
    """One step divided by a running root mean square (Tieleman & Hinton 2012); ``average`` centers it, ``buffer``
    carries momentum."""
    p, g, v, a, b, decay, alpha, weight, momentum, eps, size = entered(
        (decay, alpha, weight, momentum, eps, size), param, grad, square, average, buffer)
    p, g = with_decay(p, g, 1.0, decay, False if decayed else None)
    v = P.add(P.mul(v, alpha), P.mul(square_of(g), weight))
    store(square, v)
    if average is not None:
        a = moved(a, g, weight)
        store(average, a)
        v = P.sub(v, square_of(a))
    change = P.div(g, P.add(P.sqrt(v), eps))
    if buffer is not None:
        change = P.add(P.mul(b, momentum), change)
        store(buffer, change)
    return store(param, P.add(p, P.mul(change, size)))


@op(method=False, name="_rprop_step", writes=("param", "previous", "sizes"))
def rprop_step(param, grad, previous, sizes, down: Scalar, up: Scalar, least: Scalar, most: Scalar):
    """One step of resilient backpropagation (Riedmiller & Braun 1993), which uses only the signs of gradients."""
    p, g, before, size, down, up, least, most = entered((down, up, least, most), param, grad, previous, sizes)
    agreement = P.mul(g, before)
    size = P.where(P.gt(agreement, 0.0), P.mul(size, up), P.where(P.lt(agreement, 0.0), P.mul(size, down), size))
    size = P.minimum(P.maximum(size, least), most)
    g = P.where(P.lt(agreement, 0.0), 0.0, g)
    store(sizes, size)
    store(previous, g)
    return store(param, P.sub(p, P.mul(P.sign(g), size)))


@op(method=False, name="_asgd_step", writes=("param", "average"))
def asgd_step(param, grad, average, decay: Scalar, shrink: Scalar, size: Scalar, kept: Scalar, weight: Scalar, decayed):
    """One step of averaged gradient descent (Polyak & Juditsky 1992); ``kept`` is 1 - ``weight`` in the update of the
    average."""
    p, g, a, decay, shrink, size, kept, weight = entered((decay, shrink, size, kept, weight), param, grad, average)
    p, g = with_decay(p, g, 1.0, decay, False if decayed else None)
    p = P.add(P.mul(p, shrink), P.mul(g, size))
    store(average, P.add(P.mul(a, kept), P.mul(p, weight)))
    return store(param, p)
