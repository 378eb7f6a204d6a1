"""PyTorch's package ``functorch``, whose functions live in ``torch.func``."""
import functools as _functools

from .._src.core.later import later
from .. import func as _func
from .._src.core.advice import warn as _warn
from ..func import functional_call, linearize, stack_module_state

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "make_fx", "stack_module_state", "vjp", "vmap"]


def _older(name):
    """A function of ``torch.func`` by its path here, which says that it is deprecated."""
    found, new = getattr(_func, name), "torch.vmap" if name == "vmap" else f"torch.func.{name}"

    def call(*args, **kwargs):
        _warn(f"`functorch.{name}` is deprecated as of PyTorch 2.0. Please use `{new}` instead", FutureWarning)
        return found(*args, **kwargs)
    return _functools.wraps(found)(call)


globals().update({_name: _older(_name) for _name in ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
                                                     "jacrev", "jvp", "vjp", "vmap")})
__getattr__ = later(__name__, {"._functorch.make_functional": ("FunctionalModule", "FunctionalModuleWithBuffers",
                                                               "combine_state_for_ensemble", "make_functional",
                                                                "make_functional_with_buffers"),
                               ".fx.experimental.proxy_tensor": ("make_fx",)})
