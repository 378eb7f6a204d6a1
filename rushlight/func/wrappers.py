"""Queries about tensors inside of a transform: their level, and the tensor they wrap."""
from __future__ import annotations

from .._src.autograd.reverse import Tracked
from .._src.core.interpret import active
from .._src.transforms.batch import Batched
from .._src.transforms.forward import Dual
from .._src.transforms.functional import Mutable
from .._src.transforms.level import ENDED, Level, Wrapped


def is_functorch_wrapped_tensor(tensor) -> bool:
    """Whether a tensor belongs to a level of a transform."""
    return isinstance(tensor, Wrapped)


def is_batchedtensor(tensor) -> bool:
    """Whether a tensor is mapped over by ``vmap``."""
    return isinstance(tensor, Batched)


def is_gradtrackingtensor(tensor) -> bool:
    """Whether a tensor belongs to a level of a derivative, reverse or forward."""
    return isinstance(tensor, (Tracked, Dual))


def is_functionaltensor(tensor) -> bool:
    """Whether a tensor belongs to a level of ``functionalize``."""
    return isinstance(tensor, Mutable)


def is_dead_tensor_wrapper(tensor) -> bool:
    """Whether a tensor belongs to a level that has ended."""
    return isinstance(tensor, Wrapped) and tensor.level not in active()


def maybe_get_level(tensor) -> int:
    """The number of a tensor's level, counted from 1; -1 for a tensor of none, -2 where it has ended."""
    if not isinstance(tensor, Wrapped):
        return -1
    return ENDED if is_dead_tensor_wrapper(tensor) else tensor.level.number


def dlevel(tensor) -> int:
    """The number of the derivative that a tensor belongs to; 0 for any other tensor, -1 where it has ended."""
    if not is_gradtrackingtensor(tensor):
        return 0
    return -1 if is_dead_tensor_wrapper(tensor) else tensor.level.number


def maybe_get_bdim(tensor) -> int:
    """The dimension that is mapped over, which is always the first; -1 for other tensors."""
    return 0 if isinstance(tensor, Batched) else -1


def maybe_current_level():
    """The number of the innermost level that runs; None outside of transforms."""
    return sum(isinstance(one, Level) for one in active()) or None


def get_unwrapped(tensor):
    """Return the tensor that a level's tensor wraps.  RuntimeError for a tensor of no level."""
    if not isinstance(tensor, Wrapped):
        raise RuntimeError("No wrappers present!")
    return tensor.current().value


def unwrap_if_dead(tensor):
    """Return the wrapped tensor if its level has ended, else the tensor itself."""
    return tensor.value if is_dead_tensor_wrapper(tensor) else tensor


def debug_unwrap(tensor, *, recurse=True):
    """Return the tensor that a transform's tensor wraps, for debugging: below its level, or below all levels
    (``recurse``).

    >>> seen = []
    >>> _ = torch.vmap(lambda x: (seen.append(debug_unwrap(x)), x)[1])(torch.ones(2))
    >>> seen
    [tensor([1., 1.])]
    """
    while isinstance(tensor, Wrapped):
        tensor = tensor.current().value
        if not recurse:
            break
    return tensor
