"""Gradients against finite differences."""
from __future__ import annotations

from ..core.advice import warn
from ..core.dtypes import complex128, float64
from ..core.interpret import top
from ..core.native import Tensor
from ..core.op import OPS
from .backward import grad
from .mode import enable_grad, no_grad
from ..core.later import later

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient that differs from finite differences."""


def tensors_of(value) -> tuple:
    """The tensors of an argument list or a result, one level deep."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(v for v in values if isinstance(v, Tensor))


def differentiable(value) -> tuple:
    return tuple(t for t in tensors_of(value) if t.dtype.is_inexact)


def flat(tensor):
    """The elements as a vector of real numbers."""
    vector = tensor.detach().reshape((-1,))
    return OPS["stack"]([OPS["real"](vector), OPS["imag"](vector)], 1).reshape((-1,)) if tensor.is_complex() else vector


def unit_like(tensor, at):
    """A tensor whose element ``at`` (as ``flat`` counts them) is one, the others zero."""
    unit = OPS["zeros_like"](flat(tensor))
    unit[at] = 1
    if tensor.is_complex():
        unit = OPS["complex"](unit[0::2], unit[1::2])
    return unit.reshape(tuple(tensor.shape))


def numerical_jacobian(func, inputs, k, eps) -> list:
    """For each output the matrix [elements of input k, elements of the output], by central differences."""
    x = inputs[k].detach()

    def outputs(moved):
        with no_grad():
            return [flat(o) for o in differentiable(func(*(moved if j == k else v for j, v in enumerate(inputs))))]

    units = [unit_like(x, at) * eps for at in range(flat(x).numel())]
    rows = [[(a - b) / (2 * eps) for a, b in zip(outputs(x + unit), outputs(x - unit))] for unit in units]
    return [OPS["stack"](list(column)) for column in zip(*rows)]


def analytical_jacobian(output, x):
    """The same matrix by the reverse mode, one backward pass for each element of the output."""
    columns = []
    for at in range(flat(output).numel()):
        found, = grad(output, x, unit_like(output, at), retain_graph=True, allow_unused=True)
        columns.append(flat(OPS["zeros_like"](x) if found is None else found))
    return OPS["stack"](columns, 1) if columns else None


def forward_jacobian(func, inputs, k):
    """The same matrices by the forward mode, one run for each element of the input."""
    from ..func.derivatives import jvp

    x = inputs[k].detach()
    call = lambda v: differentiable(func(*(v if j == k else i for j, i in enumerate(inputs))))
    with no_grad():
        rows = [[flat(p) for p in jvp(call, (x,), (unit_like(x, at),))[1]] for at in range(flat(x).numel())]
    return [OPS["stack"](list(column)) for column in zip(*rows)]


def close(a, b, atol, rtol) -> bool:
    return bool(OPS["isclose"](a, b, rtol=rtol, atol=atol, equal_nan=True).all())


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True,
              fast_mode=False, masked=None) -> bool:
    """Whether the gradients of ``func`` agree with central differences, for the inputs that require gradients (float64).

    ``nondet_tol``: by how much two backward passes may differ; ``check_forward_ad``: the forward mode too;
    ``check_batched_grad``: vmap of the backward too.  GradcheckError (or False without ``raise_exception``) where they differ.

    >>> gradcheck(torch.sin, torch.randn(3, dtype=torch.float64, requires_grad=True))
    True
    """
    if not (check_backward_ad or check_forward_ad):
        raise ValueError("Expected at least one of check_forward_ad or check_backward_ad to be True.")
    try:
        check(func, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs), eps, atol, rtol, nondet_tol, check_backward_ad, check_forward_ad,
              check_batched_grad, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def check(func, inputs, eps, atol, rtol, nondet_tol, backward, forward, batched, undefined):
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for k in wanted:
        if inputs[k].dtype not in (float64, complex128):
            warn(f"gradcheck: input {k} is {inputs[k].dtype}, of which differences lose more digits than are compared: the check will likely fail. Give it as float64.")
    with enable_grad():
        outputs = differentiable(func(*inputs))
    for j, output in enumerate(outputs):
        if backward and not output.requires_grad:
            independent(func, inputs, wanted, j, eps, atol)
    for k in wanted:
        numerical = numerical_jacobian(func, inputs, k, eps)
        pushed = forward_jacobian(func, inputs, k) if forward else None
        for j, output in enumerate(outputs):
            if backward and output.requires_grad:
                found = analytical_jacobian(output, inputs[k])
                agree("Backward", found, numerical, k, j, atol, rtol)
                again = analytical_jacobian(output, inputs[k])
                if found is not None and bool(((found - again).abs() > nondet_tol).any()):
                    raise GradcheckError(f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                                         f"values: they differ by more than nondet_tol={nondet_tol}.")
                if batched and found is not None:
                    agree("Batched backward", batched_jacobian(output, inputs[k]), numerical, k, j, atol, rtol)
            if forward:
                agree("Forward", pushed[j], numerical, k, j, atol, rtol)
    if backward and undefined:
        check_undefined(outputs, [inputs[k] for k in wanted])


def agree(mode, found, numerical, k, j, atol, rtol):
    if found is not None and not close(found, numerical[j].to(found.dtype), atol, rtol):
        raise GradcheckError(f"{mode} jacobian mismatch for output {j} with respect to input {k},\nnumerical:{numerical[j]}\nanalytical:{found}\nThe largest "
                             f"difference is {float((found - numerical[j]).abs().max()):.3g}; check the derivative's formula, and that inputs are float64.")


def independent(func, inputs, wanted, j, eps, atol):
    for k in wanted:
        if bool((numerical_jacobian(func, inputs, k, eps)[j].abs() > atol).any()):
            raise GradcheckError(f"Numerical gradient for function expected to be zero: output {j} does not require a gradient, but depends on input {k}.")


def batched_jacobian(output, x):
    from ..func.batching import vmap

    units = OPS["eye"](output.numel(), dtype=output.dtype).reshape((-1, *output.shape))
    found = vmap(lambda g: grad(output, x, g, retain_graph=True)[0])(units)
    return found.reshape((output.numel(), -1)).t()


def check_undefined(outputs, inputs):
    """A gradient that does not arrive must act as zeros."""
    live = [o for o in outputs if o.requires_grad]
    if len(live) < 2:
        return
    for k, output in enumerate(live):
        alone = grad(output, inputs, OPS["ones_like"](output), retain_graph=True, allow_unused=True)
        zeros = [OPS["ones_like"](o) if o is output else OPS["zeros_like"](o) for o in live]
        padded = grad(live, inputs, zeros, retain_graph=True, allow_unused=True)
        for a, b in zip(alone, padded):
            if a is not None and b is not None and not close(a, b, 1e-8, 1e-6):
                raise GradcheckError(f"Expected backward function to handle undefined output grads: the gradient of output {k} alone differs from that with "
                                     "zeros for the other outputs.")


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False, raise_exception=True,
                  nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False,
                  check_rev_over_rev=True, fast_mode=False, masked=False) -> bool:
    """Whether the second derivatives of ``func`` agree with central differences of the first.

    ``grad_outputs``: the cotangents of the outputs to check with (default: random).

    >>> gradgradcheck(torch.sin, torch.randn(3, dtype=torch.float64, requires_grad=True))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    with enable_grad():
        outputs = differentiable(func(*inputs))
    if grad_outputs is None:
        given = tuple(OPS["randn_like"](o).requires_grad_() for o in outputs)
    else:
        given = tensors_of(grad_outputs)
    count = len(given)
    wanting = [isinstance(x, Tensor) and x.requires_grad for x in inputs]

    def first(*args):
        xs, cotangents = args[:-count], args[-count:]
        derivative = pulled if top() is not None else engine_gradients
        return tuple(g for g in derivative(func, xs, wanting, cotangents) if g is not None)

    return gradcheck(first, (*inputs, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad, check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
                     check_backward_ad=check_rev_over_rev)


def engine_gradients(func, inputs, wanting, cotangents):
    """The gradients of the ``wanting`` inputs by the backward engine, recorded."""
    with enable_grad():
        live = [x.detach().requires_grad_() if w and not x.requires_grad else x for x, w in zip(inputs, wanting)]
        results = differentiable(func(*live))
        pairs = [(r, g) for r, g in zip(results, cotangents) if r.requires_grad]
        return grad([r for r, _ in pairs], [x for x, w in zip(live, wanting) if w], [g for _, g in pairs], create_graph=True, allow_unused=True)


def pulled(func, inputs, wanting, cotangents):
    """The same by ``vjp``, for inputs that carry tangents."""
    from ..func.derivatives import Noted

    def call(*chosen):
        left = iter(chosen)
        return differentiable(func(*(next(left) if w else x for x, w in zip(inputs, wanting))))

    return Noted("gradgradcheck", call, tuple(x for x, w in zip(inputs, wanting) if w)).pull(cotangents)


__getattr__ = later(__name__)
