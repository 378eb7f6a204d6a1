"""Gradients against finite differences."""
from __future__ import annotations

import sys
import types

from .._src.core.advice import warn
from .._src.core.dtypes import complex128, float64
from .._src.core.exchange import tensor
from .._src.core.interpret import top
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.autograd.backward import grad
from .._src.autograd.differences import (Moving, analytical, count, difference, flat, forward, forward_jacobian,
                                         inexact, numerical, pushed, random_like, shown_elements, strided,
                          tensors_of, unflat)
from .._src.autograd.function import Function
from .._src.autograd.mode import enable_grad


class GradcheckError(RuntimeError):
    """A gradient that differs from finite differences."""


def warn_of_undefined():
    """Warn of the check that fails for functions which gradients of None break."""
    warn("Backwards compatibility: New undefined gradient support checking feature is enabled: pass "
         "check_undefined_grad=False to leave it out for functions that need every gradient.")


def close(a, b, atol, rtol) -> bool:
    return bool(OPS["isclose"](a, b, rtol=rtol, atol=atol, equal_nan=True).all())


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False,
              check_forward_ad=False, check_backward_ad=True,
              fast_mode=False, masked=None) -> bool:
    """Whether the gradients of ``func`` agree with central differences, for the inputs that require gradients
    (float64).

    The elements of the inputs are moved in place, one after the other; with ``fast_mode`` all at once, in a random
    direction.
    ``nondet_tol``: by how much two backward passes may differ; ``check_forward_ad``: the forward mode too;
      ``check_batched_grad``,
    ``check_batched_forward_grad``: vmap of either; ``masked``: of sparse inputs only the elements that are in memory.
    GradcheckError (or False without ``raise_exception``) where they differ.

    >>> gradcheck(torch.sin, torch.randn(3, dtype=torch.float64, requires_grad=True))
    True
    """
    if not (check_backward_ad or check_forward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True.")
    if check_batched_grad and not check_backward_ad or check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "check_batched_grad needs check_backward_ad, and check_batched_forward_grad check_forward_ad")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checking = Checking(func, inputs, eps, atol, rtol, nondet_tol, bool(masked), fast_mode)
    try:
        if check_backward_ad:
            checking.backward(check_batched_grad, check_undefined_grad, check_grad_dtypes)
        if check_forward_ad:
            checking.forward(check_batched_forward_grad, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class Checking:
    """One check: the function, the inputs that are ``wanted``, the outputs that gradients flow from."""

    def __init__(self, func, inputs, eps, atol, rtol, nondet_tol, masked, fast):
        self.func, self.inputs, self.masked, self.fast = func, inputs, masked, fast
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.wanted = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
        self.check_inputs()
        with enable_grad():
            results = tensors_of(func(*inputs))
        if any(str(o.layout) != "torch.strided" for o in results):
            raise ValueError(
                "Sparse output is not supported at gradcheck yet: let the function return to_dense() of it")
        self.every = inexact(results)
        self.outputs = [(j, o) for j, o in enumerate(self.every) if o.requires_grad]

    def check_inputs(self):
        if not self.wanted:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of the them have "
                "requires_grad=True.")
        for k in self.wanted:
            x = self.inputs[k]
            if x.dtype not in (float64, complex128):
                warn(f"Input #{k} requires gradient and is not a double precision floating point or complex: of "
                     f"{x.dtype} differences lose more digits than are compared. "
                     "The check will likely fail.")
            if str(x.layout) == "torch.strided" and x.numel() and any(stride == 0 and size > 1
                                                                      for stride, size in zip(x.stride(), x.shape)):
                raise RuntimeError(
                    f"The {k}th input has a dimension with stride 0, whose elements can't be moved one by one: call "
                    "contiguous() on it first")

    # --- the reverse mode ---
    def backward(self, batched, undefined, dtypes):
        if not self.outputs:
            return self.independent()
        for k in self.wanted:
            (self.projected if self.fast else self.compared)(k)
        for _, output in self.outputs:
            if batched:
                self.batched(output)
        self.nothing_from_nothing(dtypes)
        if undefined:
            self.undefined()

    def independent(self):
        """GradcheckError where an output depends on an input, though none requires a gradient."""
        for k in self.wanted:
            for j, found in enumerate(self.differences(k) if self.every else ()):
                if bool((found.abs() > self.atol).any()):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: output {j} does not require a "
                        f"gradient, but depends on input {k}.")

    def differences(self, k):
        return numerical(self.func, self.inputs, k, self.eps, self.masked)

    def compared(self, k):
        """All elements of the matrices of derivatives of the outputs by input k."""
        expected = self.differences(k)
        for j, output in self.outputs:
            found, again = (analytical(output, self.inputs[k], self.masked) for _ in range(2))
            self.agree("Jacobian mismatch", found, expected[j], k, j, output.is_complex())
            self.same_again(found, again)

    def projected(self, k):
        """One number for each output: what the matrix gives between a random vector for the output and one for input
        k."""
        x = self.inputs[k]
        u = random_like(x)
        shown = shown_elements(x, self.masked)
        u = u if shown is None else u * tensor(shown).to(u.dtype)
        moved = difference(self.func, self.inputs, k, unflat(u, x), self.eps, Moving(x, self.masked))
        for j, output in self.outputs:
            v = random_like(output)
            found, again = ((flat(g) * u).sum() if g is not None else u.sum() * 0
                            for g in (grad(output, x, unflat(v, output), retain_graph=True, allow_unused=True)[0]
                                      for _ in range(2)))
            self.agree("Jacobian mismatch", found, (moved[j] * v).sum(), k, j, False)
            self.same_again(found, again)

    def same_again(self, found, again):
        if bool(((found - again).abs() > self.nondet_tol).any()):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values: they differ "
                f"by more than nondet_tol={self.nondet_tol}.")

    def agree(self, what, found, expected, k, j, complex):
        """GradcheckError where matrices differ; for complex outputs the imaginary parts are looked at first."""
        expected = expected.to(found.dtype)
        if close(found, expected, self.atol, self.rtol):
            return
        part = ""
        if complex and found.dim() == 2:
            part = "imaginary" if not close(found[:, 1::2], expected[:, 1::2], self.atol, self.rtol) else "real"
            part = f"While considering the {part} part of complex outputs only, "
        raise GradcheckError(
            f"{part}{what} for output {j} with respect to input {k},\nnumerical:{expected}\nanalytical:{found}\nThe "
            "largest "
            f"difference is {float((found - expected).abs().max()):.3g}; check the derivative's formula, and that "
            "inputs are float64.")

    def batched(self, output):
        """vmap of the backward pass, over two weights of an output, against one after the other."""
        from .._src.transforms.vmap import vmap

        inputs = [self.inputs[k] for k in self.wanted]
        weights = OPS["stack"]([unflat(random_like(output), output) * s for s in (1, 2)])

        def pull(weight):
            return [g for g in grad(output, inputs, weight, retain_graph=True, allow_unused=True) if g is not None]

        self.in_batches(pull, weights, vmap)

    def in_batches(self, function, values, vmap):
        failed = "gradcheck or gradgradcheck failed while testing batched gradient computation"
        alone = [function(v) for v in values]
        try:
            found = vmap(lambda value: tuple(function(value)))(values)
        except RuntimeError as error:
            raise GradcheckError(f"{failed}: {error}") from error
        for k, rows in enumerate(found):
            expected = OPS["stack"]([strided(one[k]) for one in alone])
            if not close(strided(rows), expected, self.atol, self.rtol):
                raise GradcheckError(
                    f"{failed}: for input or output {k} vmap gives {rows}, one after the other {expected}")

    def nothing_from_nothing(self, dtypes):
        """Gradients for weights of zero are zero, and like the inputs."""
        inputs = [self.inputs[k] for k in self.wanted]
        found = grad([o for _, o in self.outputs], inputs, [OPS["zeros_like"](o) for _, o in self.outputs],
                     retain_graph=True, allow_unused=True)
        for x, g in zip(inputs, found):
            if g is None:
                continue
            if str(g.layout) != "torch.strided":
                if g.layout is not x.layout:
                    raise GradcheckError(f"grad is incorrect layout ({g.layout} is not {x.layout})")
                for name in ("sparse_dim", "dense_dim"):
                    if getattr(g, name)() != getattr(x, name)():
                        raise GradcheckError(
                            f"grad is sparse tensor, but has incorrect {name} {getattr(g, name)()}, expected "
                            f"{getattr(x, name)()}")
            if bool((strided(g) != 0).any()):
                raise GradcheckError(
                    "backward not multiplied by grad_output: gradients for weights of zero are not zero")
            if dtypes and g.dtype is not x.dtype:
                raise GradcheckError(f"grad is incorrect type: {g.dtype} for {x.dtype}")

    def undefined(self):
        """GradcheckError where gradients that do not arrive act otherwise than zeros."""
        inputs = [self.inputs[k] for k in self.wanted]
        live = [o for _, o in self.outputs]
        for lost in [range(len(live)), *([[j] for j in range(len(live))] if len(live) > 1 else [])]:
            weights = [OPS["zeros_like"](o) if j in lost else unflat(random_like(o), o) for j, o in enumerate(live)]
            try:
                found = grad([Lost.apply(o) if j in lost else o for j, o in enumerate(live)], inputs, weights,
                             retain_graph=True, allow_unused=True)
            except RuntimeError as error:
                warn_of_undefined()
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads, as those of outputs that are not "
                    f"used: {error}") from error
            expected = grad(live, inputs, weights, retain_graph=True, allow_unused=True)
            for x, a, b in zip(inputs, found, expected):
                a, b = (OPS["zeros_like"](strided(x)) if g is None else strided(g) for g in (a, b))
                if not close(a, b, 1e-8, 1e-6):
                    warn_of_undefined()
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: gradients without those of some "
                        "outputs differ from gradients with "
                        "zeros for them.")

    # --- the forward mode ---
    def forward(self, batched, undefined):
        for k in self.wanted:
            if self.fast:
                self.pushed(k)
            else:
                expected = self.differences(k)
                for j, found in enumerate(forward_jacobian(self.func, self.inputs, self.wanted, k)):
                    self.agree("Jacobian computed with forward mode mismatch", found, expected[j], k, j,
                               self.every[j].is_complex())
        if undefined:
            self.undefined_tangents()
        if batched:
            for k in self.wanted:
                self.batched_forward(k)

    def pushed(self, k):
        """The tangents of all outputs for one random tangent of input k."""
        x = self.inputs[k]
        u = unflat(random_like(x), x)
        moved = difference(self.func, self.inputs, k, u, self.eps, Moving(x, self.masked))
        for j, found in enumerate(forward(self.func, self.inputs, self.wanted, k, u)):
            self.agree("Jacobian computed with forward mode mismatch", found, moved[j], k, j, False)

    def batched_forward(self, k):
        from .._src.transforms.vmap import vmap

        x = self.inputs[k]

        def push(tangent):
            primals, found = pushed(self.func, self.inputs,
                                    [tangent if j == k else None for j in range(len(self.inputs))])
            return [t for t in found if t is not None]

        self.in_batches(push, OPS["stack"]([unflat(random_like(x), x) * s for s in (1, 2)]), vmap)

    def undefined_tangents(self):
        """GradcheckError where a tangent that is not there acts otherwise than zeros."""
        for k in self.wanted:
            given = [unflat(random_like(x), x) if j in self.wanted and j != k else None
                     for j, x in enumerate(self.inputs)]
            zeros = [OPS["zeros_like"](x) if j == k else t for j, (x, t) in enumerate(zip(self.inputs, given))]
            primals, with_zeros = pushed(self.func, self.inputs, zeros)
            without = pushed(self.func, self.inputs, given)[1]
            for p, a, b in zip(primals, with_zeros, without):
                a, b = (OPS["zeros_like"](p) if t is None else t for t in (a, b))
                if not close(flat(a), flat(b), 1e-8, 1e-6):
                    raise GradcheckError(
                        f"Expected jvp function to handle undefined input tangents: without one for input {k} those "
                        "of the outputs differ from those with zeros.")


class Lost(Function):
    """The values, for which no gradient arrives."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


def private(name, grad_out):
    warn(f"`{name}` was part of PyTorch's private API: call gradcheck() instead.", FutureWarning)
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0, not {grad_out}: other weights are no longer supported")


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """For each input that requires a gradient (or is in ``target``) the matrix of differences of the first output of
    ``fn(inputs)``."""
    private("get_numerical_jacobian", grad_out)
    targets = [t for t in tensors_of(inputs if target is None else target) if t.requires_grad]
    return tuple(numerical(lambda *values: fn(values), inputs, k, eps)[0] for t in targets
                 for k, x in enumerate(inputs) if x is t)


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """(The matrices of the derivatives of ``output`` by inputs that require gradients, whether a second pass gives the
    same, and whether sizes and dtypes are right.)"""
    private("get_analytical_jacobian", grad_out)
    wanted = [x for x in inexact(inputs) if x.requires_grad]
    found, again = ([analytical(output, x) for x in wanted] for _ in range(2))
    same = all(count(x) == 0 or bool(((a - b).abs() <= nondet_tol).all()) for x, a, b in zip(wanted, found, again))
    return tuple(found), same, all(len(m) == count(x) for m, x in zip(found, wanted)), all(m.dtype is x.dtype.to_real()
                                                                                           for m, x in zip(
                                                                                                   found, wanted))


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True,
                  nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False,
                  check_rev_over_rev=True, fast_mode=False, masked=False) -> bool:
    """Whether the second derivatives of ``func`` agree with central differences of the first.

    ``grad_outputs``: the cotangents of the outputs to check with (default: random; with ``gen_non_contig_grad_outputs``
      with steps between their elements).

    >>> gradgradcheck(torch.sin, torch.randn(3, dtype=torch.float64, requires_grad=True))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    with enable_grad():
        outputs = inexact(func(*inputs))
    carrying = [j for j, o in enumerate(outputs) if o.requires_grad]
    if grad_outputs is None:
        given = tuple(spaced(OPS["randn_like"](outputs[j]), gen_non_contig_grad_outputs).requires_grad_()
                      for j in carrying)
    else:
        given = tensors_of(grad_outputs)
        given = tuple(given[j] for j in carrying) if len(given) == len(outputs) else given
    count = len(given)

    def differentiated(*args):
        results = inexact(func(*args))
        return tuple(results[j] for j in carrying)

    wanting = [isinstance(x, Tensor) and x.requires_grad for x in inputs]

    def first(*args):
        xs, cotangents = args[:-count], args[-count:]
        derivative = pulled if top() is not None else engine_gradients
        return tuple(g for g in derivative(differentiated, xs, wanting, cotangents) if g is not None)

    return gradcheck(first, (*inputs, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
                     check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
                     masked=masked)


def spaced(tensor, wanted):
    """The tensor, with another element between any two in memory if ``wanted``."""
    return OPS["stack"]([tensor, tensor], -1).select(-1, 0).detach() if wanted else tensor


def engine_gradients(func, inputs, wanting, cotangents):
    """The gradients of the ``wanting`` inputs by the backward engine, recorded."""
    with enable_grad():
        live = [x.detach().requires_grad_() if w and not x.requires_grad else x for x, w in zip(inputs, wanting)]
        return grad(func(*live), [x for x, w in zip(live, wanting) if w], cotangents, create_graph=True,
                    allow_unused=True)


def pulled(func, inputs, wanting, cotangents):
    """The same by ``vjp``, for inputs that carry tangents."""
    from ..func.derivatives import Noted

    def call(*chosen):
        left = iter(chosen)
        return func(*(next(left) if w else x for x, w in zip(inputs, wanting)))

    return Noted("gradgradcheck", call, tuple(x for x, w in zip(inputs, wanting) if w)).pull(cotangents)


class Module(types.ModuleType):
    """This module, which is called as its function: an import of it puts it where the function was."""

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = Module
