"""``torch.autograd.grad_mode``: what is recorded, by the name of PyTorch's file."""
import contextlib
import threading

from .._src.autograd.mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from .._src.core.native import Tensor, counter


class _unsafe_preserve_version_counter:
    """A block in which writes to these tensors are not counted: what was saved of them is taken for what it was."""

    def __init__(self, tensors):
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)

    def __enter__(self):
        self.versions = [counter(t).version for t in self.tensors]

    def __exit__(self, *exception):
        for tensor, version in zip(self.tensors, self.versions):
            counter(tensor).version = version


class _Threads(threading.local):
    """The calling thread's ``set_multithreading_enabled``."""

    several = True


_mine = _Threads()


def _is_multithreading_enabled() -> bool:
    return _mine.several


class set_multithreading_enabled(contextlib.ContextDecorator):
    """Set whether a backward pass may use other threads than the caller's, immediately and until the block (if any)
    ends.

    Backward passes stay in that thread with either: the choice is kept for programs that ask for it.
    """

    def __init__(self, mode: bool):
        self.mode, self.previous = bool(mode), _mine.several
        _mine.several = self.mode

    def _recreate_cm(self):
        return type(self)(self.mode)

    def __enter__(self):
        _mine.several = self.mode

    def __exit__(self, *exception):
        _mine.several = self.previous
