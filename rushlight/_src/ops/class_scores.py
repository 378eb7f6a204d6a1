"""Checks of scores by class and their targets, and both as rows."""
from __future__ import annotations

from ..core.dtypes import int32, int64, uint8
from ..core.expectations import expect_elements

CLASS_DTYPES = (int64, uint8, int32)


def by_rows(x, target):
    """Reshape scores [n, c, *space] and targets [n, *space] to [rows, c] and [rows]; a single sample becomes one
    row."""
    if x.dim() == 1:
        return x.unsqueeze(0), target.reshape(1)
    if x.dim() == 2:
        return x, target
    count = target.numel() if has_no_classes(x) else -1
    return x.movedim(1, -1).reshape(count, x.size(1)), target.reshape(-1)


def has_no_classes(x):
    """True if scores [n, c, *space], or [c] of a single sample, are known to have no classes."""
    classes = x.shape[1 if len(x.shape) > 1 else 0]
    return type(classes) is int and classes == 0


def check_classes(x, target, weight):
    """Raise for inconsistent shapes.  The kernel that looks up classes finds those out of range."""
    shape, given = tuple(x.shape), tuple(target.shape)
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(shape) == 1 and given and target.numel() != 1:
        raise ValueError(f"Expected 0-dim or one-element target for a single sample, got {list(given)}")
    if len(shape) > 1:
        wanted = shape[:1] + shape[2:]
        if given and shape[0] != given[0]:
            raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({given[0]}).")
        if wanted != given:
            raise RuntimeError(f"Expected target size {list(wanted)}, got {list(given)}") if len(
                shape) > 2 else ValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size ({target.numel()}).")
    if target.dtype not in CLASS_DTYPES:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}")
    classes = shape[1] if len(shape) > 1 else shape[0]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}")


def check_margin_scores(input):
    """Raise unless there are scores of one sample, or of any number of them, for at least one class."""
    def error():
        return RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")

    if input.dim() > 2:
        raise error()
    expect_elements(input.shape[-1:], error)
