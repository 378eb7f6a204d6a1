"""Losses scaled up, so that small gradients do not vanish in float16."""
from __future__ import annotations

import enum
import warnings
from collections import defaultdict

from .._src.autograd.mode import no_grad
from .._src.core.dtypes import float16, float32, int32
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .autocast import is_autocast_available
from .scaling import _amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_


class OptState(enum.Enum):
    """How far an optimizer is within a step."""

    READY, UNSCALED, STEPPED = range(3)


READY, UNSCALED, STEPPED = OptState


def _refresh_per_optimizer_state() -> dict:
    """The state of an optimizer at the beginning of a step: a function with a name, since scalers are pickled."""
    return {"stage": READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, skips steps whose gradients overflowed, and finds the scale that just does not (Micikevicius et
    al. 2018).

    >>> import rushlight as torch
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(torch.ones(()))
    tensor(8.)
    """

    halves = False  # whether gradients of float16 may be unscaled

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        if enabled and not is_autocast_available(device):
            warnings.warn(f"torch.{device}.amp.GradScaler is enabled, but {device} is not available. Disabling.",
                          stacklevel=2)
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._enabled, self._device = enabled, device
        self._init_scale, self._scale = float(init_scale), None
        self._init_growth_tracker, self._growth_tracker = 0, None
        self._growth_factor, self._backoff_factor, self._growth_interval = (growth_factor, backoff_factor,
                                                                            growth_interval)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    # --- scaling ------------------------------------------------------------------------------------------------------
    def scale(self, outputs):
        """A tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            scale = self._tensor(outputs.device)
            return outputs * scale.to(outputs.device, outputs.dtype if outputs.dtype.is_half else scale.dtype)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, not {type(outputs).__name__}")

    def _tensor(self, device=None):
        if self._scale is None:
            self._lazy_init_scale_growth_tracker(device)
        return self._scale

    def _lazy_init_scale_growth_tracker(self, dev):
        """Makes the tensors of the scale and of the steps since it changed, on the device of what is scaled first."""
        self._scale = OPS["full"]((), self._init_scale, dtype=float32, device=dev)
        self._growth_tracker = OPS["full"]((), self._init_growth_tracker, dtype=int32, device=dev)

    def unscale_(self, optimizer):
        """Divides an optimizer's gradients by the scale, once a step: for what looks at them before it, such as
        clipping."""
        if not self._enabled:
            return
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] == UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] == STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        scale = self._tensor()
        found_inf = OPS["zeros"]((), dtype=float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, scale.double().reciprocal().float(), found_inf,
                                                             self.halves)
        state["stage"] = UNSCALED

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Multiplies an optimizer's gradients by ``inv_scale``: for each device that has some, ``found_inf`` there, 1
        where an element was infinite or NaN.  ValueError for gradients of float16, unless ``allow_fp16``."""
        lists, sparse = defaultdict(list), []
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        gradient = self._summed(p.grad, allow_fp16)
                        values = gradient._values() if gradient.is_sparse else gradient
                        lists[values.device].append(values)
                        sparse += [(p, gradient)] * gradient.is_sparse
            found = {device: found_inf if device == found_inf.device else found_inf.to(device) for device in lists}
            for device, values in lists.items():
                _amp_foreach_non_finite_check_and_unscale_(values, found[device], inv_scale.to(device))
            for p, gradient in sparse:  # an uncoalesced parameter returns a copy of its gradient
                p.grad = gradient
        return found

    @staticmethod
    def _summed(gradient, allow_fp16):
        """Return a gradient, coalesced if it is sparse and of float16: a sum of its elements may overflow."""
        if gradient.dtype is float16 and not allow_fp16:
            raise ValueError("Attempting to unscale FP16 gradients.")
        return gradient.coalesce() if gradient.is_sparse and gradient.dtype is float16 else gradient

    # --- steps --------------------------------------------------------------------------------------------------------
    def step(self, optimizer, *args, **kwargs):
        """``optimizer.step()``, unless gradients are infinite or nan; gradients are unscaled first if they were not.
        RuntimeError when called twice."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] == STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] == READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = STEPPED
        return result

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Sets the scale of the next step: backed off after an overflow, grown after ``growth_interval`` steps without
        one."""
        if not self._enabled:
            return
        scale = self._tensor()
        if new_scale is not None:
            with no_grad():
                scale.fill_(float(new_scale))
        else:
            found = [value.to(scale.device) for state in self._per_optimizer_states.values()
                     for value in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            _amp_update_scale_(scale, self._growth_tracker, sum(found), self._growth_factor, self._backoff_factor,
                               self._growth_interval)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    # --- settings and state -------------------------------------------------------------------------------------------
    def is_enabled(self) -> bool:
        """Whether this does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale as a number."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def state_dict(self) -> dict:
        """What ``load_state_dict`` takes; empty where this is disabled."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval,
                "_growth_tracker": self._get_growth_tracker()}

    def _get_growth_tracker(self) -> int:
        """How many steps there were since the scale changed."""
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def _get_scale_async(self):
        return self._scale

    def _found_inf_per_device(self, optimizer) -> dict:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def load_state_dict(self, state_dict):
        """Takes over scale and settings.  RuntimeError for an empty dict."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self):
        """Numbers in the place of tensors.  AssertionError within a step, where state is of optimizers by identity."""
        if not self._enabled:
            return self.__dict__.copy()
        if self._per_optimizer_states:
            raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                                 "the end after scaler.update().")
        return {**self.__dict__, "_init_scale": self.get_scale(), "_scale": None,
                "_init_growth_tracker": self._get_growth_tracker(), "_growth_tracker": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
