"""PyTorch's package ``functorch.experimental``."""
from ...func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_
from ..._src.transforms.vmap import chunk_vmap
from . import control_flow

__all__ = ["chunk_vmap", "control_flow", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
