"""Names that other optimizers import from ``torch.optim.optimizer``."""
from __future__ import annotations

import functools

from .._src.autograd.mode import set_grad_enabled
from .._src.capture.asking import is_compiling
from .._src.core.dtypes import Defaults, float32, float64
from .._src.core.native import Tensor
from .._src.ops.complex_numbers import view_as_real
from .._src.ops.pieces import stack

_params_doc = "params (iterable): tensors, pairs (name, tensor), or dicts of groups, to be optimized"
_foreach_doc = "foreach (bool, optional): accepted; one kernel updates a parameter either way (default: None)"
_fused_doc = "fused (bool, optional): accepted; one kernel updates a parameter either way (default: None)"
_capturable_doc = "capturable (bool, optional): for graphs of devices, of which there are none here (default: False)"
_differentiable_doc = "differentiable (bool, optional): whether gradients go through the step (default: False)"
_maximize_doc = "maximize (bool, optional): to go up instead of down (default: False)"


def _use_grad_for_differentiable(func):
    """A ``step`` that records gradients where its optimizer is differentiable, and only there."""
    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with set_grad_enabled(bool(self.defaults["differentiable"])):
            return func(self, *args, **kwargs)

    return step


def _get_value(x):
    """A tensor's number, but while a function is compiled the tensor."""
    return x.item() if isinstance(x, Tensor) and not is_compiling() else x


def _stack_if_compiling(x):
    return stack(x) if is_compiling() else x


def _to_scalar(x):
    """A tensor of one element without dimensions; numbers as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _view_as_real(params, *state_and_grads) -> None:
    """Complex tensors of the lists become pairs of real numbers, in place."""
    for k, p in enumerate(params):
        if p.is_complex():
            for values in (params, *state_and_grads):
                values[k] = view_as_real(values[k])


def _get_scalar_dtype(is_fused=None):
    """The dtype of counters."""
    return float64 if Defaults.floating is float64 and not is_fused else float32


def _default_to_fused_or_foreach(params, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return the default (fused, foreach): on the CPU PyTorch chooses neither."""
    fused = use_fused and not differentiable and all(p is None or p.is_floating_point() for p in params)
    return fused, False


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator that leaves functions as they are: compiled programs take all of them."""
    return lambda func: func


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices on which ``capturable`` has a meaning; none is here."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]
