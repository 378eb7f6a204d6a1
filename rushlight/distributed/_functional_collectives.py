"""Collectives as functions: not here."""
from ..compat.absent import absent

globals().update(absent("torch.distributed._functional_collectives", "this build runs in one process", "all_to_all_single_autograd all_to_all_single wait_tensor all_reduce all_gather_tensor all_gather_tensor_autograd reduce_scatter_tensor reduce_scatter_tensor_autograd broadcast AsyncCollectiveTensor"))
