"""Functions of ``GradScaler`` under PyTorch's names: they unscale gradients, and update the scale, in place."""
from __future__ import annotations

from .._src.autograd.mode import no_grad
from .._src.core.native import Tensor
from .._src.core.op import OPS


def check_single(name: str, argument: str, tensor):
    """RuntimeError for a tensor of another number of elements than one."""
    if tensor.numel() != 1:
        raise RuntimeError(f"{name}: expected {argument} to be a tensor of 1 element, got the shape "
                           f"{list(tensor.shape)}")


@no_grad()
def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies each tensor of a list by ``inv_scale``, in place; ``found_inf`` becomes 1 where an element of one was
    infinite or NaN, and keeps its value otherwise.

    TypeError where ``self`` is no list of tensors; RuntimeError where ``found_inf`` or ``inv_scale`` has more elements
    than one.
    """
    name = "_amp_foreach_non_finite_check_and_unscale_"
    if not isinstance(self, (list, tuple)) or not all(isinstance(t, Tensor) for t in self):
        raise TypeError(f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(self).__name__}")
    check_single(name, "found_inf", found_inf)
    check_single(name, "inv_scale", inv_scale)
    if not self:
        return
    is_found = ~OPS["stack"]([tensor.isfinite().all() for tensor in self]).all()
    if hasattr(is_found, "full_tensor"):  # gradients that are shared out among processes
        is_found = is_found.full_tensor()
    found_inf.masked_fill_(is_found, 1.0)
    factor = inv_scale.reshape(())
    for tensor in self:
        tensor.mul_(factor)


@no_grad()
def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """The scale of the next step, in place: times ``scale_backoff_factor`` where ``found_inf`` is not 0, and times
    ``scale_growth_factor``, if that is finite, once ``growth_tracker`` has counted ``growth_interval`` steps without.

    RuntimeError where a tensor has more elements than one.
    """
    for argument, tensor in (("self", self), ("growth_tracker", growth_tracker), ("found_inf", found_inf)):
        check_single("_amp_update_scale_", argument, tensor)
    is_found = found_inf.reshape(()) != 0
    scale, steps = self.reshape(()), growth_tracker.reshape(()) + 1
    grown, is_due = scale * scale_growth_factor, steps == growth_interval
    kept = OPS["where"](is_due & grown.isfinite(), grown, scale)
    self.copy_(OPS["where"](is_found, scale * scale_backoff_factor, kept).reshape(self.shape))
    growth_tracker.copy_(steps.masked_fill(is_found | is_due, 0).reshape(growth_tracker.shape))
    return self
