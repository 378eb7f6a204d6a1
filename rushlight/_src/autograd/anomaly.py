"""Anomaly detection: errors and NaN in the backward pass report the forward call."""
from __future__ import annotations

import traceback
import warnings
import weakref

from ..core.native import Tensor, state
from ..core.native.hooks import connect
from ..core.op import OPS
from .node import class_name

made_at: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # node: the lines of its forward call
running: list = []  # the node that began last


def watch(node, results):
    """Observe a node for the engine: its creation, its start (``results`` None both times), and its results."""
    if node not in made_at:
        made_at[node] = traceback.format_stack()[:-1]
    elif results is None:
        running[:] = [node]
    elif detect_anomaly.check_nan:
        for k, result in enumerate(results):
            if isinstance(result, Tensor) and result.dtype.is_inexact and bool(OPS["isnan"](result.detach()).any()):
                raise RuntimeError(f"Function '{class_name(node)}' returned nan values in its {k}th output.")


def explain():
    """Warn with the forward call of the node that failed."""
    for node in running:
        lines = made_at.get(node)
        where = "Traceback of forward call that caused the error:\n" + "".join(
            lines) if lines else "No forward pass information available."
        warnings.warn(f"Error detected in {class_name(node)}. {where}", stacklevel=4)
    running.clear()


class detect_anomaly:
    """A block in which every node remembers its forward call; ``check_nan`` makes nan gradients errors.

    RuntimeError from ``backward`` where a node gave nan, after a warning that shows the forward call.

    >>> import rushlight as torch
    >>> x = torch.zeros(1, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     (x.sqrt() * 0).sum().backward()
    Traceback (most recent call last):
    ...
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    check_nan = True

    def __init__(self, check_nan=True):
        self.wanted = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.", stacklevel=2)

    def __enter__(self):
        self.before = state.anomaly, detect_anomaly.check_nan
        set_mode(1, self.wanted)

    def __exit__(self, *exception):
        set_mode(*self.before)


class set_detect_anomaly:
    """Sets anomaly detection to ``mode``, at once and until the block (if any) ends."""

    def __init__(self, mode: bool, check_nan=True):
        self.before = state.anomaly, detect_anomaly.check_nan
        set_mode(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        set_mode(*self.before)


def set_mode(mode, check_nan):
    state.anomaly, detect_anomaly.check_nan = int(mode), check_nan


def is_anomaly_enabled() -> bool:
    """True if anomaly detection is on."""
    return state.anomaly != 0


def is_anomaly_check_nan_enabled() -> bool:
    """True if anomaly detection raises an error for NaN gradients."""
    return bool(detect_anomaly.check_nan)


connect("_src/autograd/anomaly.py", watch=watch)
