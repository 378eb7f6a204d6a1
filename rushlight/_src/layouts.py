"""Conversions from strided tensors to other layouts, whose package is imported at the first use."""
from __future__ import annotations

from .core.later import entered
from .core.native import Tensor
from .core.overriding import observed

sparse_coo_tensor = observed(entered("sparse.tensor", "sparse_coo_tensor"))
Tensor.to_sparse, Tensor.sparse_mask = entered("sparse.tensor", "to_sparse"), entered("sparse.tensor", "masked")
sparse_compressed_tensor, sparse_csr_tensor, sparse_csc_tensor, sparse_bsr_tensor, sparse_bsc_tensor = (
    observed(entered("sparse.compressed", f"sparse_{kind}_tensor")) for kind in ("compressed", "csr", "csc", "bsr",
                                                                                 "bsc"))
Tensor.to_sparse_csr, Tensor.to_sparse_csc, Tensor.to_sparse_bsr, Tensor.to_sparse_bsc = (
    entered("sparse.compressed", f"to_sparse_{kind}") for kind in ("csr", "csc", "bsr", "bsc"))


def to_dense(self, dtype=None, *, masked_grad=None):
    """The tensor itself, which is dense."""
    return self if dtype is None else self.to(dtype)


def to_sparse_coo(self):
    """Nonzero elements as a COO tensor."""
    return self.to_sparse()


Tensor.to_dense, Tensor.to_sparse_coo = to_dense, to_sparse_coo
