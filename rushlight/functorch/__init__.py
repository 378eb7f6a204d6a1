"""PyTorch's package ``functorch``, whose functions live in ``torch.func``."""
from ..func import functional_call, functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "make_fx", "stack_module_state", "vjp", "vmap"]


def __getattr__(name):
    from importlib import import_module

    if name == "make_fx":
        return import_module("..fx.experimental.proxy_tensor", __name__).make_fx
    if name == "compile":
        return import_module(".compile", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
