"""Splitting of a batch into microbatches, and merging of their results."""
from __future__ import annotations

import rushlight as torch

from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "split_args_kwargs_into_chunks", "merge_chunks"]

DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """Along which dimension a tensor is split."""

    def __init__(self, split_dim: int):
        self.split_dim = split_dim

    def __repr__(self):
        return f"{type(self).__module__}.TensorChunkSpec({self.split_dim})"

    __str__ = __repr__

    @staticmethod
    def from_tuple(chunk_dims: tuple):
        """The same in a tuple, of dimensions."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict):
        """The same in a dictionary, of dimensions."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Marks a value that every microbatch gets unchanged."""


class _CustomReducer:
    """Reduces values of microbatches to that of the batch: ``init_value``, then ``reduce_fn(accumulated, next)``."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    pass


sum_reducer = _CustomReducer(torch.tensor(0.0), lambda a, b: a + b)


def default_spec(value):
    return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(value, torch.Tensor) else _Replicate()


def is_spec(value) -> bool:
    return isinstance(value, (TensorChunkSpec, _CustomReducer, _Replicate)) or value in (TensorChunkSpec, _Replicate)


def pieces(value, spec, chunks: int) -> list:
    """Return one argument's share of each microbatch.  RuntimeError for a tensor with too few rows."""
    if isinstance(spec, TensorChunkSpec) and isinstance(value, torch.Tensor):
        if value.shape[spec.split_dim] < chunks:
            raise RuntimeError(f"Tensor size on chunking dimension is {value.shape[spec.split_dim]}, which is less "
                               f"than the number of chunks, {chunks}")
        return list(torch.tensor_split(value, chunks, spec.split_dim))
    if isinstance(spec, _Replicate) or not isinstance(value, torch.Tensor):
        return [value] * chunks
    raise TypeError(f"Unrecognized chunk spec: {spec}")


def split_values(values, specs, chunks: int) -> list:
    """Return nested values for each microbatch."""
    leaves, tree = tree_flatten(values)
    given = [default_spec(v) for v in leaves] if specs is None else tree_flatten(specs, is_leaf=is_spec)[0]
    if len(given) != len(leaves):
        raise ValueError(f"Argument chunk specs {specs} do not fit arguments: {len(given)} for {len(leaves)} values")
    columns = [pieces(v, s, chunks) for v, s in zip(leaves, given)]
    return [tree_unflatten([column[k] for column in columns], tree) for k in range(chunks)]


def split_args_kwargs_into_chunks(args: tuple, kwargs: dict | None, chunks: int, args_chunk_spec=None,
                                  kwargs_chunk_spec=None) -> tuple[list, list]:
    """Return (arguments, keywords) of each of ``chunks`` microbatches: tensors are split along their first dimension,
    or by TensorChunkSpecs at the positions of arguments; other values are repeated.

    >>> import rushlight as torch
    >>> split_args_kwargs_into_chunks((torch.arange(4), 2), {}, 2)
    ([(tensor([0, 1]), 2), (tensor([2, 3]), 2)], [{}, {}])
    """
    return split_values(args, args_chunk_spec, chunks), split_values(kwargs or {}, kwargs_chunk_spec, chunks)


def merge_chunks(chunks: list, chunk_spec):
    """Merge results of microbatches into the batch's: tensors are concatenated along the dimension of a TensorChunkSpec
    (default: the first), values with a reducer are reduced, and of equal values the first is taken."""
    if not chunks:
        raise ValueError("merge_chunks: there are no chunks")
    columns, tree = zip(*(tree_flatten(chunk) for chunk in chunks))
    specs = [default_spec(v)
             for v in columns[0]] if chunk_spec is None else tree_flatten(chunk_spec, is_leaf=is_spec)[0]
    if len(specs) != len(columns[0]):
        raise ValueError(f"chunk spec {chunk_spec} does not fit results: {len(specs)} for {len(columns[0])} values")
    return tree_unflatten([merged([c[k] for c in columns], spec) for k, spec in enumerate(specs)], tree[0])


def merged(values: list, spec):
    """Return one merged result of all microbatches."""
    if isinstance(spec, TensorChunkSpec):
        return torch.cat(values, spec.split_dim)
    if isinstance(spec, _CustomReducer):
        total = spec.init_value
        for value in values:
            total = spec.reduce_fn(total, value)
        return total
    return values[0]
