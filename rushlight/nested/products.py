"""Matmuls of nested tensors, example by example."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.op import OPS


def multiply_examples(name: str, a, b) -> list:
    """Return the matmuls of the examples of two batches; one may be dense.  RuntimeError for batches of different
    lengths, and for arguments that PyTorch rejects in ``bmm`` and for the strided layout."""
    is_strided = all(x.is_nested and x.layout is convert.strided for x in (a, b))
    check_ranks(name, a, b, is_strided)
    if len(a) != len(b):
        if name == "matmul" and not (a.is_nested and b.is_nested):
            kinds = ["nested" if x.is_nested else "non-nested" for x in (a, b)]
            raise RuntimeError(f"matmul: Expected both to be nested, but got a {kinds[0]} self and {kinds[1]} other: "
                               f"of {len(a)} and {len(b)} examples")
        which = "batch2 tensor" if name == "bmm" else "2nd input tensor"
        raise RuntimeError(f"{name}: Expected size for the 1st dimension of {which} to be: {len(a)} but got: {len(b)}.")
    parts = []
    for k, (x, y) in enumerate(zip(a.unbind(), b.unbind())):
        sizes = "x".join(map(str, x.shape)), "x".join(map(str, y.shape))
        if is_strided and x.shape[:-2] != y.shape[:-2]:
            raise RuntimeError("matmul: For nested tensors, batch dimensions must have the same sizes, but those of "
                               f"example {k} are {list(x.shape[:-2])} and {list(y.shape[:-2])}")
        if min(x.dim(), y.dim()) > 1 and x.shape[-1] != y.shape[-2]:
            text = (f"{k}-th nested matrices in batch cannot be multiplied" if name == "bmm"
                    else f"Nested tensors cannot be matrix multiplied: example {k}")
            raise RuntimeError(f"{name}: {text} ({' and '.join(sizes)})")
        parts.append(OPS["matmul"](x, y))
    return parts


def check_ranks(name: str, a, b, is_strided: bool):
    """RuntimeError for batches that are not of matrices."""
    for number, x in (("1", a), ("2", b)):
        if name == "bmm" and x.dim() != 3:
            raise RuntimeError(f"bmm: batch{number} must be a 3D tensor, got {x.dim()} dimensions")
        if is_strided and x.dim() < 3:
            which = {"1": "1st", "2": "2nd"}[number]
            raise RuntimeError("matmul: For nested tensors, only inputs with >= 3 dims are currently supported. "
                               f"{which} input has rank: {x.dim()}")
