"""A function as a part of its own in captured graphs."""
from __future__ import annotations

__all__ = ["wrap"]


def wrap(func, *args, **kwargs):
    """``func(*args, **kwargs)``; in compiled code one node, whose program backends get as a module of its own.

    Within a graph ``func`` has no effects, and gives a tree of tensors.

    >>> import rushlight as torch
    >>> from rushlight._higher_order_ops.wrap import wrap
    >>> seen = []
    >>> f = torch.compile(lambda x: wrap(torch.sin, x) + 1, backend=lambda module, inputs: seen.append(module) or module.forward)
    >>> f(torch.zeros(2)), [node.name for node in seen[0].graph.nodes if node.op == "call_function"]
    (tensor([1., 1.]), ['wrap', 'getitem', 'add'])
    """
    return func(*args, **kwargs)
