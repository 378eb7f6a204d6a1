"""PyTorch's package ``functorch``, whose functions live in ``torch.func``."""
from .._src.core.later import later
from ..func import (functional_call, functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize,
                    stack_module_state, vjp, vmap)

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "make_fx", "stack_module_state", "vjp", "vmap"]

__getattr__ = later(__name__, {"._functorch.make_functional": ("FunctionalModule", "FunctionalModuleWithBuffers",
                                                               "combine_state_for_ensemble", "make_functional",
                                                                "make_functional_with_buffers"),
                               ".fx.experimental.proxy_tensor": ("make_fx",)})
