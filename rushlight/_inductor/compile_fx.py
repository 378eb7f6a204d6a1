"""``compile_fx(graph_module, example_inputs)``: a graph module compiled to native code."""
from __future__ import annotations

import inspect

from .._src.core.native import Tensor
from .._src.core.op import make
from .._src.core.pytree import tree_flatten, tree_unflatten
from ..func.modules import functional_call

__all__ = ["compile_fx"]


def compile_fx(model_, example_inputs_, **_):
    """A function that computes what a graph module computes, as one compiled program for each kind of inputs.

    What the module's parameters hold is read at every call.

    >>> import rushlight as torch
    >>> from rushlight._inductor.compile_fx import compile_fx
    >>> def doubled(module, inputs):
    ...     for node in module.graph.find_nodes(op="call_function", target=torch.sin):
    ...         node.target = torch.cos
    ...     module.recompile()
    ...     return compile_fx(module, inputs)
    >>> torch.compile(lambda x: torch.sin(x), backend=doubled)(torch.zeros(2))
    tensor([1., 1.])
    """
    shape = []

    def body(*values):
        state = dict(zip(lifted, values[count:]))
        results, nesting = tree_flatten(functional_call(model_, state, values[:count]) if state
                                        else model_(*values[:count]))
        shape[:] = nesting, [None if isinstance(r, Tensor) else (r,) for r in results]
        return tuple(r for r in results if isinstance(r, Tensor))

    if reads(model_):
        return model_
    count, lifted = len(example_inputs_), state_of(model_)

    names = [f"x{k}" for k in range(count + len(lifted))]
    numbers = sum(1 << k for k, x in enumerate(example_inputs_) if not isinstance(x, Tensor))
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names])
    operator = make("compiled", body, None, signature, numbers, derived=model_)

    def run(*inputs):
        results = iter(operator(*inputs, *state_of(model_).values()))
        nesting, constants = shape
        return tree_unflatten([next(results) if known is None else known[0] for known in constants], nesting)

    return run


def reads(model) -> bool:
    """Whether a graph module reads numbers in tensors, by which Python goes on or raises: such a one runs operator by
    operator."""
    nodes = model.graph.nodes if hasattr(model, "graph") else ()
    return any(node.op == "call_method" and node.target in READING
               or getattr(node.target, "_opname", None) in READING or getattr(node.target, "effect", False)
               for node in nodes)


READING = ("item", "tolist", "_local_scalar_dense")  # methods, or operators of torch.ops.aten


def state_of(model) -> dict:
    """The parameters and buffers of a module, by name."""
    if not hasattr(model, "named_parameters"):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
