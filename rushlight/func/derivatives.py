"""Derivatives of functions: reverse (grad, vjp) and forward (jvp, linearize)."""
from __future__ import annotations

import functools

from .._src.autograd.reverse import Reverse, pull_back
from .._src.autograd.saved import hooked
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.core.pytree import tree_flatten, tree_map, tree_unflatten
from .._src.transforms.forward import Dual, Forward, carrying_tangents


HOOKS_REFUSED = ("torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks: use "
                 "torch.autograd.grad, whose backward steps keep what the hooks give")


def unwrapped(level, tree):
    """A tree with values of a level as what they stand for below."""
    return tree_map(lambda leaf: leaf.current().value if level.owns(leaf) else leaf, tree)


def auxiliary(level, tree):
    """The second output of a function, which holds tensors only, as what they stand for below.  RuntimeError
    otherwise."""
    for leaf in tree_flatten(tree)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return unwrapped(level, tree)


def with_aux(name, results):
    """The output of a function that returns (output, aux)."""
    if not isinstance(results, tuple) or len(results) != 2:
        what = f"a tuple with length {len(results)}" if isinstance(results, tuple) else f"a {type(results).__name__}"
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True, got {what}")
    return results


def checked_tensors(name, leaves, what, error=RuntimeError):
    """Raise ``error`` where one of ``leaves`` is no tensor."""
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise error(f"{name}: Expected {what} to be a Tensor or a nest of Tensors, got unsupported type "
                        f"{type(leaf)}")


def checked_outputs(name, results, leaves, what):
    """Raise RuntimeError where a function returned nothing, or something that is no tensor."""
    if results is None or not leaves:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {results})")
    checked_tensors(name, leaves, what)


def checked_primals(name, what, leaves):
    """Raise RuntimeError where the arguments of ``jvp`` hold something that is no tensor, or nothing."""
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: Expected {what} to only contain Tensors, got unsupported type {type(leaf)}")
    if not leaves:
        raise RuntimeError(f"{name}: Expected {what} to contain at least one Tensor.")


# --- reverse ----------------------------------------------------------------------------------------------------------
class Noted:
    """A function that was run in reverse mode: what it returned, and how to carry cotangents back.  ``leaves``: it may
    call ``requires_grad_()``."""

    def __init__(self, name, func, primals, has_aux=False, leaves=False):
        self.leaves, self.spec = tree_flatten(primals)
        checked_tensors(name, self.leaves, "primals", ValueError)
        with Reverse() as level, hooked(HOOKS_REFUSED):
            level.leaves = leaves
            inputs = [level.leaf(leaf) for leaf in self.leaves]
            results = func(*tree_unflatten(inputs, self.spec))
            results, aux = with_aux(name, results) if has_aux else (results, None)
            outputs, self.out_spec = tree_flatten(results)
            if leaves:  # torch.autograd.functional allows functions without outputs
                checked_tensors(name, outputs, "f(*primals)")
            else:
                checked_outputs(name, results, outputs, "f(*primals)")
            outputs = [level.refreshed(o) for o in outputs]
            self.aux = auxiliary(level, aux) if has_aux else None
        self.places = [o.place if level.owns(o) else None for o in outputs]
        self.values = [o.value if level.owns(o) else o for o in outputs]
        self.sources = [i.place for i in inputs]

    @property
    def outputs(self):
        return tree_unflatten(self.values, self.out_spec)

    def pull(self, cotangents) -> list:
        """The cotangents of the leaves of the primals: None for those that the outputs do not depend on."""
        return pull_back(self.places, cotangents, self.sources)

    def filled(self, found):
        """Cotangents nested as the primals, zeros for None."""
        return tree_unflatten([OPS["zeros_like"](leaf) if g is None else g for g, leaf in zip(found, self.leaves)],
                              self.spec)


def vjp(func, *primals, has_aux=False):
    """The value of ``func`` and its derivative as a function: from cotangents of the outputs to those of the inputs.

    Returns (outputs, pull), with ``has_aux`` (outputs, pull, aux); ``pull`` returns a tuple, one entry for each primal.

    >>> y, pull = vjp(torch.sin, torch.zeros(2))
    >>> pull(torch.ones(2))
    (tensor([1., 1.]),)
    """
    noted = Noted("vjp(f, *primals)", func, primals, has_aux)

    def pull(cotangents, retain_graph=True, create_graph=None):
        flat, spec = tree_flatten(cotangents)
        if spec != noted.out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                "function. cotangents: "
                f"{spec}, primal output: {noted.out_spec}")
        for c, v in zip(flat, noted.values):
            if not v.dtype.is_inexact:
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{v.dtype}")
            if tuple(c.shape) != tuple(v.shape):
                raise RuntimeError(
                    f"Mismatch in shape: grad_output has a shape of {list(c.shape)} and output has a shape of "
                    f"{list(v.shape)}.")
        return noted.filled(noted.pull(flat))

    return (noted.outputs, pull, noted.aux) if has_aux else (noted.outputs, pull)


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns the gradient of ``func`` with respect to the arguments ``argnums``, and its value.

    ``func`` returns a tensor with one element; with ``has_aux`` (tensor, aux), and the result is (gradient, (value,
    aux)).

    >>> grad_and_value(lambda x: x * x)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    name = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def derived(*args, **kwargs):
        def call(given):
            results = func(*replaced(args, argnums, given), **kwargs)
            output, aux = with_aux(name, results) if has_aux else (results, None)
            checked_scalar(output)
            return (output, aux) if has_aux else output

        noted = Noted(name, call, (selected(args, argnums),), has_aux)
        for leaf in noted.leaves:
            if not leaf.dtype.is_inexact:
                raise RuntimeError(f"only Tensors of floating point dtype can require gradients, not {leaf.dtype}")
        gradients, = noted.filled(noted.pull([OPS["ones_like"](noted.values[0])]))
        return gradients, (noted.values[0], noted.aux) if has_aux else noted.values[0]

    return derived


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of ``func`` with respect to the arguments ``argnums`` (a number or a tuple).

    ``func`` returns a tensor with one element; with ``has_aux`` (tensor, aux), and the result is (gradient, aux).

    >>> grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args, **kwargs):
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return derived


def checked_scalar(output):
    if not isinstance(output, Tensor):
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got {type(output)}")
    if output.dim():
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with {output.dim()} "
            "dims. Maybe you wanted "
            "to use the vjp or jacrev APIs instead?")


def numbered(argnums, count):
    """Argument numbers counted from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    listed = argnums if isinstance(argnums, tuple) else (argnums,)
    if not listed:
        raise RuntimeError("argnums must be non-empty: name at least one argument to differentiate")
    out = []
    for k in listed:
        if not isinstance(k, int):
            raise RuntimeError(f"argnum must be int, got: {type(k)}")
        if not -count <= k < count:
            raise RuntimeError(f"Got argnum={k}, but only {count} positional inputs")
        out.append(k % count)
    if len(set(out)) < len(out):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return out


def chosen(args, argnums) -> tuple:
    """The arguments to differentiate."""
    return tuple(args[k] for k in numbered(argnums, len(args)))


def selected(args, argnums):
    """The arguments to differentiate: one, or a tuple where ``argnums`` is one."""
    found = chosen(args, argnums)
    return found if isinstance(argnums, tuple) else found[0]


def slice_argnums(args, argnums, as_tuple=True):
    """Return the arguments to differentiate, one alone as a tuple too unless ``as_tuple`` is False."""
    return chosen(args, argnums) if as_tuple else selected(args, argnums)


def replaced(args, argnums, new):
    """The arguments with those that were ``selected`` replaced."""
    out = list(args)
    for k, value in zip(numbered(argnums, len(args)), new if isinstance(argnums, tuple) else (new,)):
        out[k] = value
    return out


# --- forward ----------------------------------------------------------------------------------------------------------
def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of ``func`` at ``primals`` and its derivative in the direction ``tangents`` (nested as the primals
    are).

    Returns (outputs, output tangents), with ``has_aux`` (outputs, output tangents, aux).  ``strict``: an output that
    does not depend on the inputs is an error.

    >>> jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    leaves, spec = tree_flatten(primals)
    moved, moved_spec = tree_flatten(tangents)
    if spec != moved_spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            "tuple of 3 tensors, "
            f"tangents also must be. Got primals with structure {spec} and tangents with structure {moved_spec}")
    checked_primals(name, "primals", leaves)
    checked_primals(name, "tangents", moved)
    for leaf, tangent in zip(leaves, moved):
        if tuple(leaf.shape) != tuple(tangent.shape):
            raise RuntimeError(
                f"{name}: a tangent has the shape {list(tangent.shape)}, but its primal has {list(leaf.shape)}")
    with carrying_tangents(True), Forward() as level:
        inputs = [Dual(level, leaf, t) for leaf, t in zip(leaves, moved)]
        results = func(*tree_unflatten(inputs, spec))
        results, aux = with_aux(name, results) if has_aux else (results, None)
        outputs, out_spec = tree_flatten(results)
        checked_outputs(name, results, outputs, "f(*primals)")
        outputs = [level.refreshed(o) for o in outputs]
        aux = auxiliary(level, aux) if has_aux else None
    if strict and any(not level.owns(o) or o.tangent is None for o in outputs):
        raise RuntimeError(
            f"{name}: The output of f is independent of the inputs. This is not allowed with strict=True.")
    for leaf, value in zip(leaves, inputs):
        if value.writes:
            leaf.copy_(value.value)
    values = [o.value if level.owns(o) else o for o in outputs]
    pushed = [o.tangent if level.owns(o) and o.tangent is not None else OPS["zeros_like"](v)
              for o, v in zip(outputs, values)]
    found = tree_unflatten(values, out_spec), tree_unflatten(pushed, out_spec)
    return (*found, aux) if has_aux else found


def linearize(func, *primals):
    """The value of ``func`` and its derivative as a function: from tangents of the inputs to those of the outputs.

    The function runs once: the derivative is read off the pull back, whose transpose it is.

    >>> y, push = linearize(torch.sin, torch.zeros(2))
    >>> push(torch.ones(2))
    tensor([1., 1.])
    """
    outputs, pull = vjp(func, *primals)
    zeros = tree_map(OPS["zeros_like"], outputs)
    _, transpose = vjp(pull, zeros)

    def push(*tangents):
        if tree_flatten(tangents)[1] != tree_flatten(primals)[1]:
            raise RuntimeError("linearize: expected the tangents to be nested as the primals are")
        for tangent, primal in zip(tree_flatten(tangents)[0], tree_flatten(primals)[0]):
            if tuple(tangent.shape) != tuple(primal.shape) or tangent.dtype is not primal.dtype:
                raise RuntimeError(
                    f"linearize: a tangent is {tangent.dtype} {list(tangent.shape)}, but its primal is {primal.dtype} "
                    f"{list(primal.shape)}")
        return transpose(tangents)[0]

    return outputs, push
