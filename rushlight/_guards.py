"""Owners of fake tensors, under PyTorch's private name."""
from __future__ import annotations

from ._src.core.pytree import tree_leaves

__all__ = ["active_fake_mode", "detect_fake_mode"]


def active_fake_modes() -> list:
    """Return the active FakeTensorModes, the innermost first."""
    from ._subclasses.fake_tensor import FakeTensorMode
    from .utils._python_dispatch import _get_current_dispatch_mode_stack
    return [mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, FakeTensorMode)]


def active_fake_mode():
    """Return the innermost active FakeTensorMode, None where there is none."""
    return next(iter(active_fake_modes()), None)


def detect_fake_mode(inputs=None):
    """The FakeTensorMode that is active, or that of tensors among ``inputs``; None where there is none.  AssertionError
    for several."""
    from ._subclasses.fake_tensor import FakeTensor
    found = active_fake_modes()
    found += [leaf.fake_mode for leaf in tree_leaves(inputs) if isinstance(leaf, FakeTensor)]
    for mode in found[1:]:
        assert mode is found[0], "the tensors, or a tensor and the active mode, belong to several FakeTensorModes"
    return found[0] if found else None
