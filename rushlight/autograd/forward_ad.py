"""Forward-mode differentiation of tensors: dual numbers within a ``dual_level`` block."""
from __future__ import annotations

from collections import namedtuple
from contextlib import ContextDecorator

from .._src.core.interpret import active
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.transforms.forward import Dual, Forward, carrying
from .._src.core.later import later

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", "primal tangent")
_levels: list = []  # the active one, if any


def enter_dual_level() -> int:
    """Begins a forward level, whose number is returned.  RuntimeError within another one: forward levels do not
    nest."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment. Use torch.func.jvp, which nests.")
    level = Forward().__enter__()
    level.takes_contexts = True
    _levels.append(level)
    return 0


def exit_dual_level(*, level=None):
    """End the forward level; its dual tensors become their primals."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level but no level exists: call enter_dual_level() first.")
    if level not in (None, 0):
        raise RuntimeError(
            f"Trying to exit a forward AD level that was not the last one that was created: {level} is not 0.")
    _levels.pop().__exit__(None, None, None)


class dual_level:
    """A block in which ``make_dual`` makes tensors that carry tangents.

    >>> with dual_level():
    ...     unpack_dual(torch.sin(make_dual(torch.zeros(2), torch.ones(2)))).tangent
    tensor([1., 1.])
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exception):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """A tensor that carries a tangent of the same shape.  Floating or complex dtype; RuntimeError outside of a
    level."""
    if not _levels or level is not None and level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to _make_dual: expected 0, got {level}")
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor) or not value.dtype.is_inexact:
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: "
                f"{getattr(value, 'dtype', type(value).__name__)}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
            "not supported. Tensor is "
            f"of size {list(tensor.shape)} while the given forward gradient is of size {list(tangent.shape)}.")
    current = _levels[-1]
    running = active()
    if any(getattr(v, "level", None) in running[running.index(current) + 1:] for v in (tensor, tangent)):
        raise RuntimeError(
            "make_dual() got a tensor of a transform that began within the forward level: enter dual_level() inside "
            "of the function that is transformed")
    if current.owns(tangent) and tangent.current().tangent is not None:
        raise RuntimeError("Setting a forward grad that itself has a forward gradient at the same level 0 is not "
                           "supported.")
    primal, tangent = (v.current().value if current.owns(v) else v for v in (tensor, tangent))
    # what is written later goes into both, element by element; a tensor of a transform has memory only below it
    if tangent._rush_storage is not None and layout_of(tangent) != layout_of(primal):
        tangent = OPS["empty_strided"](tuple(primal.shape), primal._rush_meta.strides,
                                       dtype=tangent.dtype).copy_(tangent)
    return Dual(current, primal, tangent)


def layout_of(tensor) -> tuple:
    """Return the memory layout of elements and the storage size: equal for tensors with equal views."""
    room = None if tensor._rush_storage is None else tensor._rush_storage.nbytes // tensor.itemsize
    return tensor._rush_meta.strides, tensor._rush_meta.turned, tensor._rush_offset, room


def unpack_dual(tensor, *, level=None) -> UnpackedDualTensor:
    """The primal and the tangent (None where it has none) of a tensor.

    >>> unpack_dual(torch.ones(1))
    UnpackedDualTensor(primal=tensor([1.]), tangent=None)
    """
    if level is not None and level < 0:
        return UnpackedDualTensor(tensor, None)
    if _levels and level not in (None, 0):
        raise RuntimeError(f"Invalid level given to _fw_primal: expected 0, got {level}")
    if _levels and _levels[-1].owns(tensor):
        tensor.current()
        return UnpackedDualTensor(tensor.value, tensor.tangent)
    return UnpackedDualTensor(tensor.value if isinstance(tensor, Dual) else tensor, None)


class _set_fwd_grad_enabled(ContextDecorator):
    """Sets whether results carry tangents on, at once and until the block (if any) ends."""

    def __init__(self, mode: bool):
        self.before, carrying.on = carrying.on, bool(mode)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        carrying.on = self.before


def _is_fwd_grad_enabled() -> bool:
    """Whether results carry the tangents of arguments on."""
    return carrying.on


elsewhere = later(__name__)


def __getattr__(name):
    # the number of the active level, -1 where there is none
    return len(_levels) - 1 if name == "_current_level" else elsewhere(name)
