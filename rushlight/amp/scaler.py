"""Losses scaled up, so that small gradients do not vanish in float16."""
from __future__ import annotations

import enum
import warnings
from collections import defaultdict

from .._src.autograd.mode import no_grad
from .._src.core.dtypes import float16
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .autocast import is_autocast_available


class OptState(enum.Enum):
    """How far an optimizer is within a step."""

    READY, UNSCALED, STEPPED = range(3)


READY, UNSCALED, STEPPED = OptState


def ready() -> OptState:
    """Where every optimizer begins: a function with a name, since scalers are pickled."""
    return READY


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
        self._init_scale, self._scale, self._growth_tracker = float(init_scale), None, 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (growth_factor, backoff_factor,
                                                                            growth_interval)
        self._forget()

    def _forget(self):
        self._stages, self._found = defaultdict(ready), {}

    # --- scaling ------------------------------------------------------------------------------------------------------
    def scale(self, outputs):
        """A tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._tensor().to(outputs.dtype if outputs.dtype.is_half else self._tensor().dtype)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, not {type(outputs).__name__}")

    def _tensor(self):
        if self._scale is None:
            import rushlight
            self._scale = rushlight.tensor(self._init_scale)
        return self._scale

    def unscale_(self, optimizer):
        """Divides an optimizer's gradients by the scale, once a step: for what looks at them before it, such as
        clipping."""
        if not self._enabled:
            return
        stage = self._stages[id(optimizer)]
        if stage == UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage == STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse, flags = self._tensor().double().reciprocal().float(), []
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        if p.grad.dtype is float16 and not self.halves:
                            raise ValueError("Attempting to unscale FP16 gradients.")
                        flags.append(p.grad.mul_(inverse).isfinite().all())
        self._found[id(optimizer)] = bool(flags) and not OPS["stack"](flags).all()  # one number to wait for
        self._stages[id(optimizer)] = UNSCALED

    # --- steps --------------------------------------------------------------------------------------------------------
    def step(self, optimizer, *args, **kwargs):
        """``optimizer.step()``, unless gradients are infinite or nan; gradients are unscaled first if they were not.
        RuntimeError when called twice."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages[id(optimizer)]
        if stage == STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = STEPPED
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Sets the scale of the next step: backed off after an overflow, grown after ``growth_interval`` steps without
        one."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._tensor().fill_(float(new_scale))
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._tensor().mul_(self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._tensor().mul_(self._growth_factor)
                self._growth_tracker = 0
        self._forget()

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
                "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict):
        """Takes over scale and settings.  RuntimeError for an empty dict."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        self._tensor().fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
