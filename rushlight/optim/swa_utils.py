"""Averages of the parameters that training goes through: equal weights (Izmailov et al. 2018) or exponential ones."""
from __future__ import annotations

import copy
import itertools
import math

from .._src.autograd.mode import no_grad
from .._src.core.dtypes import int64
from .._src.core.native import Tensor
from .._src.core.op import OPS
from ..nn.modules.module import Module
from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
           "update_bn"]


def each(weight):
    """``(average, value, count) -> average``, moved towards the value by ``weight(count)``."""
    def average(averaged, current, count):
        return averaged + (current - averaged) * weight(count)

    return no_grad()(average)


def together(weight):
    """``(averages, values, count)``: lists, moved in place.  Integers, which have no place between, round."""
    def average(averages, values, count):
        part = weight(count)
        for mean, current in zip(averages, values):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(current.to(mean.dtype), part)
            else:
                mean.copy_(mean + (current - mean) * part)

    return no_grad()(average)


def fading(decay):
    """The weight of a new value where those before fade.  ValueError for a decay outside [0, 1]."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay}: it must be from 0 to 1")
    return lambda count: 1 - decay


def equal(count):
    """The weight of a new value as one of ``count + 1``."""
    return 1 / (float(count) + 1)


def get_ema_avg_fn(decay=0.999):
    """``(average, parameter, count) -> average`` with exponentially fading weights.  ValueError for a decay outside [0,
    1]."""
    return each(fading(decay))


def get_ema_multi_avg_fn(decay=0.999):
    """As ``get_ema_avg_fn``, for lists of tensors, in place."""
    return together(fading(decay))


def get_swa_avg_fn():
    """``(average, parameter, count) -> average`` with equal weights."""
    return each(equal)


def get_swa_multi_avg_fn():
    """As ``get_swa_avg_fn``, for lists of tensors, in place."""
    return together(equal)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: call ``update_parameters(model)`` after each optimizer step.

    ``avg_fn(average, parameter, count)`` gives the new average, ``multi_avg_fn(averages, parameters, count)`` changes
    lists in place (not both: AssertionError); by default the weights are equal.  With ``use_buffers`` buffers are
    averaged too, else they are copied.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> mean = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = model.weight.data.fill_(value)
    ...     mean.update_parameters(model)
    >>> mean.module.weight.item()
    2.0
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", OPS["_filled"](0, (), int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """Forward pass."""
        return self.module(*args, **kwargs)

    def _tensors(self, model):
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    def update_parameters(self, model):
        """Takes the model's parameters into the averages."""
        averages = [t.detach() for t in self._tensors(self.module)]
        current = [t.detach() for t in self._tensors(model)]
        if self.n_averaged.item() == 0:
            for mean, value in zip(averages, current):
                mean.copy_(value)
        elif self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, current, self.n_averaged)
        else:
            for mean, value in zip(averages, current):
                mean.copy_(self.avg_fn(mean, value, self.n_averaged))
        if not self.use_buffers:
            for mean, value in zip(self.module.buffers(), model.buffers()):
                mean.detach().copy_(value.detach())
        self.n_averaged += 1


def update_bn(loader, model, device=None):
    """Recompute the running statistics of batch norm layers from the batches of ``loader``, as averages of equal
    weight."""
    momenta = {m: m.momentum for m in model.modules() if hasattr(m, "running_mean")
               and hasattr(m, "reset_running_stats") and hasattr(m, "num_batches_tracked")}
    if not momenta:
        return
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    training = model.training
    model.train()
    with no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Anneals the learning rate to ``swa_lr`` within ``anneal_epochs`` steps ("cos" or "linear"), where it stays.
    ValueError for other strategies and negative lengths."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        count = len(optimizer.param_groups)
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * count
        if len(rates) != count:
            raise ValueError(
                f"swa_lr must have the same length as optimizer.param_groups: swa_lr has {len(rates)}, "
                f"optimizer.param_groups has {count}")
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = float(rate) if isinstance(rate, Tensor) else rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def share(self, step) -> float:
        """How far the rate has gone to its goal at a step."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self):
        step = self._step_count - 1 if self.anneal_epochs else max(1, self._step_count - 1)
        before, now = self.share(max(0, step - 1)), self.share(step)
        rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
