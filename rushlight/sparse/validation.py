"""Whether indices and values make a sparse tensor: RuntimeError, naming what does not hold."""
from __future__ import annotations

from math import prod

from .._src.core.dtypes import int32, int64
from .._src.core.tensor import Tensor
from .invariants import check_sparse_tensor_invariants

ROWS = ("crow_indices", "col_indices", "row")
COLUMNS = ("ccol_indices", "row_indices", "column")


def require(holds, text: str):
    """RuntimeError with the text unless something holds."""
    if not bool(holds):
        raise RuntimeError(text)


def wanted(check_invariants) -> bool:
    """Whether a tensor is checked as it is made: as its maker says, else as ``check_sparse_tensor_invariants``."""
    return check_sparse_tensor_invariants.is_enabled() if check_invariants is None else bool(check_invariants)


def checked_indices(**indices):
    """Check integer tensors of one index dtype."""
    for name, tensor in indices.items():
        require(isinstance(tensor, Tensor) and tensor.dtype in (int32, int64),
                f"{name} must be an int32 or int64 tensor, but got {getattr(tensor, 'dtype', type(tensor))}")
    require(len({t.dtype for t in indices.values()}) == 1, f"{' and '.join(indices)} must have the same dtype, but got "
            f"{[str(t.dtype) for t in indices.values()]}")


def check_pins(check_pinning, **parts):
    """Raise RuntimeError, if checks are on, if some parts are pinned and others are not."""
    found = {name: part.is_pinned() for name, part in parts.items()} if check_pinning else {}
    require(len(set(found.values())) <= 1,
            f"memory pinning of {', '.join(parts)} must match, but got is_pinned {found}")


def coo(indices, values, size, is_coalesced=None, check_pinning=None):
    """Checks what a COO tensor is made of: ``indices`` [sparse dimensions, n], ``values`` [n, *dense], ``size``."""
    check_pins(check_pinning, indices=indices, values=values)
    checked_indices(indices=indices)
    require(indices.dim() == 2, f"indices must be sparse_dim x nnz, but got: {tuple(indices.shape)}")
    sparse, count = indices.shape
    require(values.dim() >= 1 and values.shape[0] == count,
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: "
            f"{values.shape[0] if values.dim() else 'none'}")
    require(len(size) == sparse + values.dim() - 1, "number of dimensions must be sparse_dim "
            f"({sparse}) + dense_dim ({values.dim() - 1}), but got {len(size)}")
    require(tuple(size[sparse:]) == tuple(values.shape[1:]), f"values has incorrect size, expected "
            f"{[count, *size[sparse:]]}, got {list(values.shape)}")
    if not count:
        return
    lowest, highest = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (low, high) in enumerate(zip(lowest, highest)):
        require(low >= 0, f"found negative index {low} for dim {dim}")
        require(high < size[dim], f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found "
                f"index {high}")
    if is_coalesced:
        at = indices.new_zeros((count,)).to(int64)
        for dim in range(sparse):
            at = at * size[dim] + indices[dim]
        require((at[1:] > at[:-1]).all(), "cannot set is_coalesced to true if indices correspond to uncoalesced COO "
                "tensor")


def compressed(compressed_indices, plain_indices, values, size, layout, check_pinning=None):
    """Checks what a tensor by rows, columns or blocks is made of; leading dimensions are a batch."""
    check_pins(check_pinning, compressed_indices=compressed_indices, plain_indices=plain_indices, values=values)
    kind = layout.name.rpartition("_")[2]
    runs, places, what = ROWS if kind in ("csr", "bsr") else COLUMNS
    block = 2 if kind in ("bsr", "bsc") else 0
    checked_indices(**{runs: compressed_indices, places: plain_indices})
    batch = compressed_indices.dim() - 1
    require(batch >= 0 and plain_indices.dim() == batch + 1, f"{runs} and {places} must have as many dimensions, one "
            f"and the batch, but got {compressed_indices.dim()} and {plain_indices.dim()}")
    dense = len(size) - batch - 2
    require(dense >= 0 and values.dim() == batch + 1 + block + dense, f"tensor dimensionality must be sum of batch, "
            f"base, and dense dimensionalities: got size of {len(size)} dimensions, batch {batch} and values of "
            f"{values.dim()} dimensions")
    lead, count = tuple(compressed_indices.shape[:-1]), plain_indices.shape[-1]
    require(tuple(plain_indices.shape[:-1]) == lead == tuple(size[:batch]) == tuple(values.shape[:batch]),
            f"all batch dimensions of {runs}, {places}, values and size must be equal, but got {lead}, "
            f"{tuple(plain_indices.shape[:-1])}, {tuple(values.shape[:batch])} and {tuple(size[:batch])}")
    require(values.shape[batch] == count, f"{places} and values must have the same number of specified elements, but "
            f"got {count} and {values.shape[batch]}")
    require(tuple(values.shape[batch + 1 + block:]) == tuple(size[batch + 2:]), "values and size must agree in dense "
            f"dimensions, but got {tuple(values.shape[batch + 1 + block:])} and {tuple(size[batch + 2:])}")
    blocks = tuple(values.shape[batch + 1:batch + 3]) if block else (1, 1)
    require(all(b and s % b == 0 for s, b in zip(size[batch:batch + 2], blocks)),
            f"tensor shape {tuple(size)} must be divisible with blocksize {blocks}")
    counts = [s // b for s, b in zip(size[batch:batch + 2], blocks)]
    within, across = counts if runs == "crow_indices" else counts[::-1]
    require(compressed_indices.shape[-1] == within + 1, f"{runs}.shape[-1] must be equal to the number of {what}s + 1 "
            f"(={within + 1}), but got {compressed_indices.shape[-1]}")
    check_runs(compressed_indices.reshape(prod(lead), -1).tolist(), plain_indices.reshape(prod(lead), -1).tolist(),
               across, (runs, places))


def check_runs(starts, at, across, names):
    """Checks starts and places of each example of a batch: rising starts, and rising places within each run."""
    runs, places = names
    for own, found in zip(starts, at):
        require(own[0] == 0, f"`{runs}[..., 0] == 0` is not satisfied.")
        require(own[-1] == len(found), f"`{runs}[..., -1] == nnz` is not satisfied.")
        for first, last in zip(own, own[1:]):
            require(0 <= last - first <= across, f"`0 <= {runs}[..., 1:] - {runs}[..., :-1] <= {across}` is not "
                    "satisfied.")
            run = found[first:last]
            require(all(0 <= k < across for k in run), f"`0 <= {places} < {across}` is not satisfied.")
            require(all(a < b for a, b in zip(run, run[1:])), f"`{places}[..., {runs}[..., i - 1]:{runs}[..., i]] for "
                    "all i are sorted and distinct along the last dimension values` is not satisfied.")


def by_layout(name: str):
    """``compressed`` for one layout."""
    from .._src.core import convert
    layout = getattr(convert, name)

    def check(compressed_indices, plain_indices, values, size, check_pinning=None):
        compressed(compressed_indices, plain_indices, values, size, layout)

    check.__doc__ = f"Checks what a tensor of the layout torch.{name} is made of."
    return check


_validate_sparse_coo_tensor_args, _validate_sparse_compressed_tensor_args = coo, compressed
_validate_sparse_csr_tensor_args, _validate_sparse_csc_tensor_args = by_layout("sparse_csr"), by_layout("sparse_csc")
_validate_sparse_bsr_tensor_args, _validate_sparse_bsc_tensor_args = by_layout("sparse_bsr"), by_layout("sparse_bsc")
