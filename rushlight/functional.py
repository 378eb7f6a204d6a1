"""``torch.functional``: functions of the top level by the name of PyTorch's file."""
from . import (atleast_1d, atleast_2d, atleast_3d, block_diag, broadcast_shapes, broadcast_tensors, cartesian_prod,
               cdist, chain_matmul, einsum, lu,  # noqa: F401
               meshgrid, norm, split, stft, tensordot, unique, unique_consecutive, unravel_index)
