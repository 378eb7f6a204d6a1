"""A choice that data make."""
from __future__ import annotations

from .._src.core import interpret
from .._src.core.expr import Expr
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from .._src.transforms.batch import Batch, differs
from .._src.transforms.level import Level

__all__ = ["cond"]


def cond(pred, true_fn, false_fn, operands=()):
    """``true_fn(*operands)`` where ``pred`` (a bool, or a tensor of one element) holds, else ``false_fn(*operands)``.

    In compiled code both functions become programs, one of which runs: no break.  They have no effects, and give trees
    of tensors of the same shapes and dtypes; what is differentiated is what ran.  Under ``vmap``, where each example
    has its own ``pred``, both run.  RuntimeError for other arguments.

    >>> import rushlight as torch
    >>> f = torch.compile(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)), fullgraph=True)
    >>> f(torch.zeros(2))
    tensor([1., 1.])
    """
    if not isinstance(pred, (bool, Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(
            f"Expected pred to be bool or single-element tensor, but got {pred}: reduce it with any() or all().")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(isinstance(leaf, (Tensor, int, Expr))
                                                          for leaf in tree_leaves(operands)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}.")
    return choose(pred, true_fn, false_fn, operands)


def choose(pred, true_fn, false_fn, operands):
    """``cond`` of checked arguments; operands may be floats, too."""
    if differs(pred):
        return selected(pred, true_fn(*operands), false_fn(*operands))
    recorder, level = recording() if isinstance(pred, Tensor) else (None, None)
    if level is not None:
        return beneath(level, lambda pred, *operands, functions: cond(pred, *functions, operands), (true_fn, false_fn),
                       tuple(operands), pred)
    if recorder is not None:
        return recorder.choose(pred, (true_fn, false_fn), operands)
    return unshared((true_fn if pred else false_fn)(*operands), operands)


def recording() -> tuple:
    """(the innermost mode that traces programs with their branches, the innermost transform within it), each or None.
    """
    level = None
    for interpreter in reversed(interpret.active()):
        mode = getattr(interpreter, "mode", None)
        if hasattr(mode, "choose"):
            return mode, level
        if level is None and isinstance(interpreter, Level):
            level = interpreter
    return None, None


def beneath(level, call, functions, operands, *first, test=None):
    """``call(*first, *operands, functions=functions)`` on what the values of a transform stand for below it, of
    functions that the transform is applied to; ``test`` among them gives a loop's condition.  NotImplementedError
    where the transform takes derivatives, and for loops over many examples, which end at different times."""
    if not hasattr(level, "lowered") or test is not None and isinstance(level, Batch):
        raise NotImplementedError(
            f"make_fx does not trace a {'cond' if test is None else 'while_loop'} inside of {level.name}: "
            "transform the graph that it gives")
    leaves, spec = tree_flatten(operands)
    specs = []

    def opened(value):
        return value.value if level.owns(value) else value

    def lowered(function):
        def run(*values):
            with level:
                inputs = [level.kind(level, value) if isinstance(value, Tensor) else value for value in values]
                results, nested = tree_flatten(function(*tree_unflatten(inputs, spec)))
                if any(getattr(value, "writes", 0) for value in inputs):
                    raise RuntimeError(
                        "a function of cond or while_loop writes into its operands. Let it give new tensors")
                results = [level.refreshed(value) for value in results]
            if function is test:
                return opened(*results)
            specs.append(nested)
            return tuple(map(level.lowered, results))

        return run

    first, leaves = [[level.refreshed(value) for value in values] for values in (first, leaves)]
    with level.below():
        first = map(opened, first)
        values = [level.lowered(leaf) for leaf in leaves]
        found = call(*first, *values, functions=[lowered(function) for function in functions])
    return tree_unflatten([level.kind(level, leaf) for leaf in found], specs[-1])


def selected(pred, yes, no):
    """Of two trees of tensors, nested alike, for each example of a vmap the one that it chooses.  RuntimeError where
    they are not alike."""
    first, spec = tree_flatten(yes)
    second, other = tree_flatten(no)
    if spec != other:
        raise RuntimeError(f"Expected true_fn and false_fn to give trees nested alike, but got {spec} and {other}.")
    return tree_unflatten([OPS["where"](pred, a, b) for a, b in zip(first, second)], spec)


def unshared(results, given):
    """A tree with copies of those tensors that share memory with ``given``: what functions give is new, whichever of
    them ran."""
    storages = {id(leaf._rush_storage) for leaf in tree_leaves(given) if isinstance(leaf, Tensor)}
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) and id(leaf._rush_storage) in storages
                    else leaf,
                    results)


cond_op = cond  # what PyTorch calls the operator behind the function
