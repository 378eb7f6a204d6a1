"""Operators on nested tensors that differ in several sizes: elementwise ones act on the vector of elements, others on
each example."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.composed import member, rulebook
from .._src.core.native import Op, Tensor
from .._src.core.op import OPS, bind
from .._src.core.overriding import DisableTorchFunctionSubclass
from .._src.core.tensor import wrapped
from .._src.transforms.elementwise import is_elementwise
from .examples import joined
from .products import multiply_examples
from .rules import DIMENSIONS, PLAIN, call, is_dense, like
from .uneven import Uneven, unsupported

RULES, rule = rulebook()


def answer(func, args, kwargs):
    """The result of a call with nested arguments."""
    if func in RULES:
        return RULES[func](*args, **kwargs)
    if not isinstance(func, Op):
        if member(func) in PLAIN:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        raise unsupported(member(func))
    shown = [getattr(a, "elements", a) for a in args], {k: getattr(a, "elements", a) for k, a in kwargs.items()}
    if is_elementwise(OPS.get(func.name.rstrip("_"), func), *shown):
        return act_on_elements(func, args, kwargs)
    return act_on_examples(func, args, kwargs)


def act_on_elements(func, args, kwargs):
    """An elementwise operator, of nested tensors of the same sizes and of numbers."""
    operands = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    x = next(a for a in operands if isinstance(a, Uneven))
    if any(is_dense(a) and not a.is_nested for a in operands):
        first, *others = ("nested" if a.is_nested else "non-nested" for a in operands)
        raise RuntimeError(f"{func.name}: Expected both self and other to be nested, but got a {first} self and "
                           f"{''.join(others[:1])} other")
    nested = [a for a in operands if a.is_nested]
    if any(getattr(a, "sizes", None) != x.sizes for a in nested):
        raise RuntimeError(f"{func.name}: expected nested tensors of the same sizes, got "
                           f"{[a._nested_tensor_size().tolist() for a in nested]}")
    out = func(*(getattr(a, "elements", a) for a in args), **{k: getattr(a, "elements", a) for k, a in kwargs.items()})
    return args[0] if func.name.endswith("_") else x.around(out)


def act_on_examples(func, args, kwargs):
    """Any other operator: on example after example, by dimensions counted without the batch's."""
    given = dict(bind(func, args, kwargs))
    values = {name: value for name, value in given.items() if isinstance(value, Tensor) and value.is_nested}
    if not values:
        raise unsupported(func.name)
    x = next(iter(values.values()))
    dims = {name: given[name] for name in DIMENSIONS if given.get(name) is not None}
    if "keepdim" in given and not dims:
        if isinstance(x, Uneven):
            return call(func, {**given, **{name: value.elements for name, value in values.items()}})
        raise unsupported(func.name)
    if len({len(value) for value in values.values()}) > 1:
        raise RuntimeError(f"{func.name}: expected nested tensors of as many examples, got "
                           f"{[len(value) for value in values.values()]}")
    given.update({name: within(func, x, dim) for name, dim in dims.items()})
    if not len(x):
        return x
    parts = [call(func, {**given, **dict(zip(values, examples))})
             for examples in zip(*(value.unbind() for value in values.values()))]
    if isinstance(parts[0], Tensor):
        return joined(parts, convert.strided)
    return like(parts[0], [joined(list(found), convert.strided) for found in zip(*parts)])


def within(func, x, dim):
    """Dimensions of the nested tensor as those of its examples.  RuntimeError for the batch's."""
    found = [wrapped(d, x.dim()) - 1 for d in ((dim,) if isinstance(dim, int) else dim)]
    if -1 in found:
        raise RuntimeError(f"{func.name}(): not supported for nested tensors on dim=0, whose examples differ; use "
                           "unbind()")
    return found[0] if isinstance(dim, int) else tuple(found)


@rule("detach")
def detach(input):
    """The same examples without a history."""
    return input.around(input.elements.detach())


@rule("unbind")
def unbind(input, dim=0):
    """The examples, as a tuple of views."""
    return input.unbind(dim)


@rule("select")
def select(input, dim, index):
    """An example, or one place of another dimension in each."""
    return input[index] if not wrapped(dim, input.dim()) else act_on_examples(OPS["select"], (input, dim, index), {})


@rule("contiguous")
def contiguous(input, memory_format=None):
    """The same examples, stored back to back."""
    return input.contiguous(memory_format)


@rule("matmul")
def matmul(input, other):
    """The products of two batches, example by example."""
    return joined(multiply_examples("matmul", input, other), convert.strided)


@rule("bmm")
def bmm(input, mat2):
    """Return the batched matmul of two batches."""
    return joined(multiply_examples("bmm", input, mat2), convert.strided)


Uneven.answers = staticmethod(answer)
