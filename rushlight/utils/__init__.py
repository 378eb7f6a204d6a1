"""Helpers around tensors: data loading, checkpoints."""
from . import data


def set_module(obj, mod):
    """Says in which module an object is found."""
    if not isinstance(mod, str):
        raise TypeError(f"The mod argument should be a string, not {type(mod).__name__}")
    obj.__module__ = mod


def swap_tensors(t1, t2):
    """Swap the contents of two tensors; references to their Python objects stay valid.

    >>> import rushlight as torch
    >>> a, b = torch.ones(1), torch.zeros(2)
    >>> swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0.]), tensor([1.]))
    """
    from .._src.autograd.slow_paths import poison_accumulator
    from .._src.core.tensor import show
    for t in (t1, t2):
        if t._base is not None or t.grad_fn is not None:
            raise RuntimeError(
                "swap_tensors: Cannot swap a tensor that is a view, or a result of an operator: others depend on it")
    for t in (t1, t2):
        poison_accumulator(t)
    first, second = ((t.detach(), t.requires_grad, t.grad, dict(t.__dict__)) for t in (t1, t2))
    t1.__class__, t2.__class__ = type(t2), type(t1)
    for t, (data, wanted, gradient, attributes) in ((t1, second), (t2, first)):
        t.requires_grad, t.grad = False, None
        show(t, data)
        t.requires_grad, t.grad = wanted, gradient
        t.__dict__.clear()
        t.__dict__.update(attributes)
