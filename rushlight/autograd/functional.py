"""Jacobians, Hessians, and multiplications of vectors by them, for functions of one or several tensors."""
from __future__ import annotations

from .._src.core.interpret import is_idle, recording
from .._src.core.native import Tensor, mine
from .._src.core.op import OPS
from .._src.transforms.vmap import vmap
from ..func.derivatives import Noted, jvp as push_forward, pull_back
from ..func.jacobians import basis, jacfwd, parts

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def as_tensors(value, argument, function) -> tuple:
    """One tensor or a tuple of tensors, as a tuple.  TypeError for anything else."""
    for element in value if isinstance(value, tuple) else (value,):
        if not isinstance(element, Tensor):
            raise TypeError(
                f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors, but got "
                f"{type(element)}.")
    return value if isinstance(value, tuple) else (value,)


def differentiable(inputs, function, create_graph) -> tuple:
    """The inputs as a tuple; with ``create_graph`` those that want no gradient as leaves that do, so that results have
    a history."""
    leaves = create_graph and is_idle()  # within a transform results depend on its tensors anyway
    return tuple(x.detach().requires_grad_() if leaves and not x.requires_grad and x.dtype.is_inexact else x
                 for x in as_tensors(inputs, "inputs", function))


def returned(value, function):
    """Return the checked result of the user's function."""
    as_tensors(value, "outputs of the user-provided function", function)
    return value


def like(given, values):
    """``values`` as one tensor where ``given`` was one."""
    return tuple(values) if isinstance(given, tuple) else values[0]


CONSTANT = {  # what is said of an output without a gradient where strict mode runs, by function
    "": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
        "differentiable manner from the input when running in strict mode.",
    "gradient": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                "input {} is independent of the input. This is not allowed in strict mode. You should ensure that "
                "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."}


class Run:
    """A function run in reverse mode for one of the functions below.  ``what``: whether its outputs are those of the
    user's function, or its "gradient"."""

    def __init__(self, name, func, inputs, strict, what=""):
        self.strict, self.of = strict, "hessian" if name in ("vhp", "hvp") else "jacobian"
        checked = lambda *xs: returned(func(*xs), name)
        self.noted = Noted(name, checked, inputs, leaves=True)
        self.outputs = self.noted.outputs
        if strict and None in self.noted.places:
            raise RuntimeError(CONSTANT[what].format(self.noted.places.index(None)))

    def pull(self, cotangents) -> tuple:
        found = self.noted.pull(cotangents)
        if self.strict and any(g is None for g in found):
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {found.index(None)}. This is not "
                "allowed in strict mode.")
        for k, g in enumerate(found):
            if self.strict and mine.grad and is_idle() and not g.requires_grad:
                raise RuntimeError(f"The {self.of} of the user-provided function is independent of input {k}. This is "
                                   "not allowed in strict mode when create_graph=True.")
        return tuple(self.noted.filled(found))

    def check_each(self):
        """RuntimeError for an output that does not depend on an input."""
        for k, (place, value) in enumerate(zip(self.noted.places, self.noted.values)):
            found = pull_back([place], [OPS["ones_like"](value)], self.noted.sources)
            if None in found:
                raise RuntimeError(f"Output {k} of the user-provided function is independent of input "
                                   f"{found.index(None)}. This is not allowed in strict mode.")
        return self

    def check_all(self):
        """RuntimeError for an input that no output depends on."""
        self.pull([OPS["ones_like"](value) for value in self.noted.values])
        return self


def checked_vector(v, wanted, name, what, several) -> tuple:
    """The vector of a product, ones for the one-element default; ``several``: whether a tuple is wanted."""
    if v is None:
        if len(wanted) != 1 or wanted[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {what} a single Tensor with a single element: {name} needs v "
                "here.")
        return (OPS["ones_like"](wanted[0]),)
    v = as_tensors(v, "v", name)
    if len(v) != 1 and not several:
        raise RuntimeError(f"The given v should contain a single Tensor. {name} got {len(v)}.")
    if len(v) != len(wanted):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(wanted)} but got {len(v)}.")
    for k, (one, x) in enumerate(zip(v, wanted)):
        if tuple(one.shape) != tuple(x.shape):
            raise RuntimeError(
                f"{f'Entry {k} in ' if several else ''}v has invalid size: should be {x.shape} but got {one.shape}.")
    return v


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T J): the product of a vector with the Jacobian J of ``func``.

    >>> vjp(torch.sin, torch.zeros(2), torch.ones(2))[1]
    tensor([1., 1.])
    """
    with recording(create_graph):
        run = Run("vjp", func, differentiable(inputs, "vjp", create_graph), strict)
        v = checked_vector(v, run.noted.values, "vjp", "user-provided function returns", isinstance(run.outputs, tuple))
        return run.outputs, like(inputs, run.pull(v))


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), J v): the product of the Jacobian J of ``func`` with a vector.

    >>> jvp(torch.sin, torch.zeros(2), torch.ones(2))[1]
    tensor([1., 1.])
    """
    with recording(create_graph):
        given = differentiable(inputs, "jvp", create_graph)
        v = checked_vector(v, given, "jvp", "input to the user-provided function is", isinstance(inputs, tuple))
        if strict:
            Run("jvp", func, given, strict).check_all()
        return push_forward(lambda *xs: returned(func(*xs), "jvp"), given, v)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of ``func``: for each output (a tuple if there are several) and each input a tensor of both shapes.

    ``vectorize``: all rows at once (by vmap) rather than one by one; ``strategy``: "reverse-mode", or "forward-mode",
      which
    is always vectorized.

    >>> jacobian(torch.sin, torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return blocks("jacobian", func, inputs, create_graph, strict, vectorize, strategy)


def blocks(name, func, inputs, create_graph, strict, vectorize, strategy, what=""):
    """The derivatives of each output by each input, for ``jacobian`` and for ``hessian``."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f"Expected strategy to be either 'forward-mode' or 'reverse-mode', got {strategy!r}. Hint: forward-mode "
            "suits functions with more "
            "outputs than inputs.")
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `create_graph=True` and `strategy=\"forward-mode\"` are not "
            "supported together (yet). "
            "Please either set `create_graph=False` or `strategy=\"reverse-mode\"`.")
    if strict and (vectorize or strategy == "forward-mode"):
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorize=True` are not supported together. "
            "Please either set "
            "`strict=False` or `vectorize=False`.")
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `strategy=\"forward-mode\"` needs `vectorize=True`.")
    given = differentiable(inputs, name, create_graph)
    with recording(create_graph):
        if strategy == "forward-mode":
            found = jacfwd(func, tuple(range(len(given))))(*given)
            return found if isinstance(inputs, tuple) else first_of_each(found)
        run = Run(name, func, given, strict, what)
        if strict and not what:
            run.check_each()
        values = run.noted.values
        units = basis(values)
        pull = lambda *rows: run.pull(rows)
        if not values or not sum(o.numel() for o in values):
            stacks = [OPS["zeros"]((0, *x.shape), dtype=x.dtype) for x in given]
        elif vectorize:
            stacks = vmap(pull)(*units)
        else:
            rows = [pull(*(u[k] for u in units)) for k in range(units[0].shape[0])]
            stacks = [OPS["stack"](list(column)) for column in zip(*rows)]
        columns = [parts(s, values) for s in stacks]
        found = [like(inputs, [c[k] for c in columns]) for k in range(len(values))]
        return like(run.outputs, found)


def _construct_standard_basis_for(tensors, tensor_numels) -> tuple:
    """``basis`` as libraries that batch Jacobians by themselves ask for it: [elements of all, elements of one] for each
    tensor."""
    return tuple(OPS["reshape"](unit, (-1, count)) for unit, count in zip(basis(tensors), tensor_numels))


def first_of_each(found):
    """The blocks for the one input, where the function returned a tuple or one tensor."""
    return tuple(f[0] for f in found) if isinstance(found[0], tuple) else found[0]


def scalar(func, name):
    """The function, whose output must be one tensor with one element."""
    def call(*args):
        output = returned(func(*args), name)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if output.numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        return output.reshape(())
    return call


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of ``func``, which returns one number: for each pair of inputs a tensor of both shapes.

    >>> hessian(lambda x: (x ** 3).sum(), torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    given = differentiable(inputs, "hessian", create_graph)
    call = scalar(func, "hessian")
    if strict:
        Run("hessian", call, given, strict)

    def gradient(*xs):
        with recording(1):
            return jacobian(call, xs if isinstance(inputs, tuple) else xs[0], create_graph=True)

    return blocks("hessian", gradient, like(inputs, given), create_graph, strict, vectorize, outer_jacobian_strategy,
                  what="gradient")


def gradient_of(func, name, count):
    """The gradient of a function that returns one number, as a function that returns a tuple."""
    call = scalar(func, name)

    def gradient(*xs):
        noted = Noted(name, call, xs, leaves=True)
        return tuple(noted.filled(noted.pull([OPS["ones_like"](noted.values[0])])))

    return gradient


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T H): the product of a vector with the Hessian H of ``func``, which returns one number.

    >>> vhp(lambda x: (x ** 3).sum(), torch.ones(2), torch.ones(2))[1]
    tensor([6., 6.])
    """
    return hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), H v): the product of the Hessian H of ``func``, which returns one number, with a vector.

    >>> hvp(lambda x: (x ** 3).sum(), torch.ones(2), torch.ones(2))[1]
    tensor([6., 6.])
    """
    return hessian_product("hvp", func, inputs, v, create_graph, strict)


def hessian_product(name, func, inputs, v, create_graph, strict):
    given = differentiable(inputs, name, create_graph)
    with recording(create_graph):
        v = checked_vector(v, given, name, "input to the user-provided function is", isinstance(inputs, tuple))
        value = scalar(func, name)(*given)
        if strict:
            with recording(0):
                Run(name, scalar(func, name), given, strict).check_all()
        run = Run(name, gradient_of(func, name, len(given)), given, strict, "gradient")
        return value, like(inputs, run.pull(v))


def _as_tuple(inp, arg_name=None, fn_name=None):
    """(whether it was a tuple, the tuple).  TypeError for what is neither a tensor nor a tuple of them."""
    return (isinstance(inp, tuple), as_tensors(inp, arg_name, fn_name) if arg_name is not None or fn_name is not None
            else inp if isinstance(inp, tuple) else (inp,))


def _tuple_postprocess(res, to_unpack):
    """Results as single tensors where the arguments were: ``to_unpack`` says so of all, or of each."""
    if isinstance(to_unpack, tuple):
        return tuple(value if several else value[0] for value, several in zip(res, to_unpack))
    return res if to_unpack else res[0]


def _grad_preprocess(inputs, create_graph: bool, need_graph: bool) -> tuple:
    """Return differentiable inputs: views with ``create_graph``, so that gradients reach the originals, else copies
    without history."""
    return tuple(x.view_as(x) if create_graph else x.detach().requires_grad_(need_graph) for x in inputs)


def _grad_postprocess(inputs, create_graph: bool):
    """Results, without history unless ``create_graph``."""
    if isinstance(inputs, tuple):
        return tuple(_grad_postprocess(x, create_graph) for x in inputs)
    return inputs if create_graph else inputs.detach()
