"""PyTorch's package ``functorch.experimental``."""
from ...func import functionalize, hessian, jacfwd, jvp
from . import control_flow

__all__ = ["control_flow", "functionalize", "hessian", "jacfwd", "jvp"]
