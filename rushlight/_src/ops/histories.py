"""Results with a prescribed derivative: random variables, and operators that have none."""
from __future__ import annotations

from ..core.interpret import is_recording, top
from ..core.kinds import P
from ..core.op import op, rule
from ..core.tensor import Tensor


@op(method=False, name="_drawn")
def drawn_by(sample, parameter):
    """A random variable: the derivative with respect to the parameter of its distribution is 0, as in PyTorch, whatever
    the computation."""
    return P.copy(sample)


@rule(drawn_by)
def vjp(g, y, sample, parameter):
    return [None, P.full(shape=tuple(parameter.shape), value=0, dtype=parameter.dtype)]


def with_history(sample, *parameters):
    """Give a sample a history: zero derivatives with respect to the tensors among the parameters of its
    distribution."""
    for parameter in parameters:
        if isinstance(parameter, Tensor) and (parameter.requires_grad or top() is not None):
            sample = drawn_by(sample, parameter)
    return sample


def without_derivative(message, given, compute):
    """Return ``compute(*given)`` without a derivative: if an input requires a gradient, so does the first result, and
    computing it raises RuntimeError.  Under a trace all inputs are passed unchanged."""
    wanted = any(isinstance(x, Tensor) and x.requires_grad for x in given)
    if top() is not None or not (wanted and is_recording()):
        return compute(*given)
    from ..autograd.passing import DelayedError
    results = compute(*(x.detach() if isinstance(x, Tensor) else x for x in given))
    first, *others = results if isinstance(results, tuple) else (results,)
    refused = DelayedError(message, 1)(first)
    return (refused, *others) if isinstance(results, tuple) else refused
