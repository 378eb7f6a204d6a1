"""Learning rates that change with time."""
from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter

from .._src.core.advice import warn
from .._src.core.native import Tensor
from .optimizer import Optimizer


def warn_of_epoch():
    """Schedules count steps themselves."""
    warn("The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible: write "
         "`scheduler.step()`.")


HOW = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate has examples"


def kept(value):
    """A rate as it is now: of a tensor, which may be written, a copy."""
    return value.clone() if isinstance(value, Tensor) else value


def put(group, name, value):
    """Sets a parameter of a group; one that is a tensor stays that tensor, and is written."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[name] = kept(value)


def each(optimizer, name, value) -> list:
    """A value for each group: as listed, or the same for all.  ValueError for a list of another length."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [kept(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}.")
    return [kept(v) for v in value]


def described(function):
    """Return a function's state: the attributes of a callable object, nothing of a plain function."""
    return None if function is None or isinstance(function, types.FunctionType) else function.__dict__.copy()


class LRScheduler:
    """Sets each group's learning rate from the step count; subclasses define ``get_lr``."""

    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", kept(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError("param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer")
        self.base_lrs = [kept(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_known = vars(optimizer).get("step")
        self._initial_step()

    def _initial_step(self):
        """The step of the constructor, which leaves the rates of an optimizer that is resumed as they are."""
        self._step_count, self._is_initial = 0, True
        self.step()
        self._is_initial = False

    def get_last_lr(self):
        """The learning rates last set."""
        return self._last_lr

    def get_lr(self):
        """The rate of each group at step ``last_epoch``: subclasses define it, and ``step`` calls it."""
        raise NotImplementedError

    def step(self, epoch=None):
        """Goes to the next step (or to ``epoch``) and sets the learning rates."""
        if self._step_count == 1 and vars(self.optimizer).get("step") is not self._step_known:
            warn("`optimizer.step()` has been overridden since the scheduler was made, which cannot tell whether it "
                 f"was called before `lr_scheduler.step()`; {HOW}.")
        elif self._step_count == 1 and not self.optimizer._opt_called:
            warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the schedule "
                 f"is skipped. Call them the other way round; {HOW}.")
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        self._rush_set(values)

    def _rush_set(self, values):
        for group, lr in zip(self.optimizer.param_groups, values):
            put(group, "lr", lr)
        self._last_lr = self._rush_lrs()

    def _rush_lrs(self):
        return [kept(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k not in UNSAVED}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


UNSAVED = ("optimizer", "_step_known")
_LRScheduler = LRScheduler


class LambdaLR(LRScheduler):
    """The first rate times a function of the step: one for all groups, or a list with one for each."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]

    def state_dict(self):
        out = {k: v for k, v in self.__dict__.items() if k not in (*UNSAVED, "lr_lambdas")}
        out["lr_lambdas"] = [described(f) for f in self.lr_lambdas]
        return out

    def load_state_dict(self, state_dict):
        state_dict = dict(state_dict)
        for f, saved in zip(self.lr_lambdas, state_dict.pop("lr_lambdas")):
            if saved is not None:
                f.__dict__.update(saved)
        self.__dict__.update(state_dict)


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the step."""

    def get_lr(self):
        lrs = self._rush_lrs()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, lrs)] if not self._is_initial else lrs


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        lrs = self._rush_lrs()
        return lrs if self.last_epoch == 0 or self.last_epoch % self.step_size else [lr * self.gamma for lr in lrs]

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at the steps ``milestones``; one that is named twice counts twice."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._rush_lrs()]

    def _get_closed_form_lr(self):
        return [base * self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)
                for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times ``factor`` for the first ``total_iters`` steps."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        change = (self.factor if self.last_epoch == 0 else 1.0 / self.factor if self.last_epoch == self.total_iters
                  else 1.0)
        return [lr * change for lr in self._rush_lrs()]

    def _get_closed_form_lr(self):
        return [base * (1.0 if self.last_epoch >= self.total_iters else self.factor) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From start_factor to end_factor in ``total_iters`` steps."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._rush_lrs()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rush_lrs()
        change = self.end_factor - self.start_factor
        return [lr * (1.0 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change))
                for lr in self._rush_lrs()]

    def _get_closed_form_lr(self):
        return [base * (self.start_factor + (self.end_factor - self.start_factor)
                        * min(self.total_iters, self.last_epoch) / self.total_iters) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rush_lrs() if self._is_initial else [lr * self.gamma for lr in self._rush_lrs()]

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """To zero in ``total_iters`` steps, as a power of the time left."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rush_lrs()
        change = ((1.0 - self.last_epoch / self.total_iters)
                  / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power
        return [lr * change for lr in self._rush_lrs()]

    def _get_closed_form_lr(self):
        return [base * (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
                for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Down to ``eta_min`` along half a cosine in ``T_max`` steps (Loshchilov & Hutter 2016)."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t, end, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._rush_lrs()
        if self._step_count == 1 and t > 0:
            return self._get_closed_form_lr()
        if (t - 1 - end) % (2 * end) == 0:
            return [lr + (base - low) * (1 - math.cos(math.pi / end)) / 2
                    for base, lr in zip(self.base_lrs, self._rush_lrs())]
        change = (1 + math.cos(math.pi * t / end)) / (1 + math.cos(math.pi * (t - 1) / end))
        return [change * (lr - low) + low for lr in self._rush_lrs()]

    def _get_closed_form_lr(self):
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
                for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of growing length, each from the first rate (Loshchilov & Hutter 2016)."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
                for base in self.base_lrs]

    def step(self, epoch=None):
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        self._step_count += 1
        self._rush_set(self.get_lr())


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` and down again, momentum the other way (Smith & Topin 2017)."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85,
                 max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False, last_epoch=-1):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        self.total_steps = total_steps or epochs * steps_per_epoch
        if self.total_steps <= 0 or not 0 <= pct_start <= 1:
            raise ValueError(
                f"Expected positive total_steps and pct_start between 0 and 1, but got {self.total_steps} and "
                f"{pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        up = float(pct_start * self.total_steps) - 1
        if three_phase:
            down = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                                     (down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                                     (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            self._schedule_phases = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                                     (self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum and "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        highest, *momentums = (each(optimizer, *one) for one in (("max_lr", max_lr), ("base_momentum", base_momentum),
                                                                 ("max_momentum", max_momentum)))
        if last_epoch == -1:
            for group, high, calm, brisk in zip(optimizer.param_groups, highest, *momentums):
                group["initial_lr"] = high / div_factor
                group["max_lr"], group["min_lr"] = high, group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    self._rush_put_momentum(group, brisk)
                    group["max_momentum"], group["base_momentum"] = brisk, calm
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _rush_put_momentum(group, value):
        if "betas" in group:
            group["betas"] = (kept(value), *group["betas"][1:])
        else:
            put(group, "momentum", value)

    @staticmethod
    def _annealing_cos(start, end, pct):
        """From start to end along half a cosine."""
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start, end, pct):
        """From start to end along a line."""
        return (end - start) * pct + start

    def _anneal_func(self, start, end, pct):
        """Interpolation of the schedule between two values; states of old releases hold the function itself."""
        known = getattr(self, "anneal_func", None)
        if known is None:
            known = self._annealing_linear if self._anneal_func_type == "linear" else self._annealing_cos
        return known(start, end, pct)

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The total number of steps is {self.total_steps}")
        out = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for k, (end, lr_from, lr_to, m_from, m_to) in enumerate(self._schedule_phases):
                if step <= end or k == len(self._schedule_phases) - 1:
                    share = (step - start) / (end - start)
                    out.append(self._anneal_func(group[lr_from], group[lr_to], share))
                    if self.cycle_momentum:
                        self._rush_put_momentum(group, self._anneal_func(group[m_from], group[m_to], share))
                    break
                start = end
        return out


class CyclicLR(LRScheduler):
    """Between two rates in triangles (Smith 2017)."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0,
                 scale_fn=None, scale_mode="cycle", cycle_momentum=True,
                 base_momentum=0.8, max_momentum=0.9, last_epoch=-1):
        base_lrs = each(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs):
                put(group, "lr", lr)
        self.max_lrs = each(optimizer, "max_lr", max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / float(step_size_up + down)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        self._init_scale_fn()
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            self.base_momentums, self.max_momentums = each(optimizer, "base_momentum",
                                                           base_momentum), each(optimizer, "max_momentum", max_momentum)
            if last_epoch == -1:
                for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums):
                    OneCycleLR._rush_put_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs  # whatever another scheduler noted as the first rates

    def _init_scale_fn(self):
        """Finds the function that scales heights: the user's, or that of the mode."""
        self._scale_fn_ref = self._scale_fn_custom
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
            gamma = self.gamma
            self._scale_fn_ref = {"triangular": lambda x: 1.0, "triangular2": lambda x: 1 / (2.0 ** (x - 1)),
                                  "exp_range": lambda x: gamma**x}[self.mode]

    def scale_fn(self, x):
        """How much of the height a cycle (or step) gets."""
        return self._scale_fn_ref(x)

    def state_dict(self):
        out = super().state_dict()
        del out["_scale_fn_ref"]
        return {**out, "_scale_fn_custom": described(self._scale_fn_custom)}

    def load_state_dict(self, state_dict):
        """Takes over a state; the attributes of a callable object that scales heights, too."""
        state_dict = dict(state_dict)
        custom = state_dict.pop("_scale_fn_custom", None)
        super().load_state_dict(state_dict)
        if custom is not None:
            self._scale_fn_custom.__dict__.update(custom)
        self._init_scale_fn()

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = share * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                OneCycleLR._rush_put_momentum(group, high - (high - low) * height)
        return [base + (high - base) * height for base, high in zip(self.base_lrs, self.max_lrs)]


def undo(scheduler):
    """Takes back the step that a scheduler, or those it is made of, took when it was made."""
    parts = getattr(scheduler, "_schedulers", None)
    for part in parts or ():
        undo(part)
    if parts is None:
        scheduler.last_epoch -= 1


class SequentialLR(LRScheduler):
    """Schedulers one after the other, changing at milestones."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) < 1 or len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                "milestone points")
        self._schedulers, self._milestones, self.last_epoch, self.optimizer = list(schedulers), list(
            milestones), last_epoch + 1, optimizer
        for group in optimizer.param_groups:
            put(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            undo(scheduler)
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self):
        self.last_epoch += 1
        at = bisect_right(self._milestones, self.last_epoch)
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            self._schedulers[at]._update_lr(0)
        else:
            self._schedulers[at].step()
        self._last_lr = self._schedulers[at].get_last_lr()

    def state_dict(self):
        out = {k: v for k, v in self.__dict__.items() if k not in (*UNSAVED, "_schedulers")}
        out["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return out

    def load_state_dict(self, state_dict):
        state_dict = dict(state_dict)
        for scheduler, saved in zip(self._schedulers, state_dict.pop("_schedulers")):
            scheduler.load_state_dict(saved)
        self.__dict__.update(state_dict)


class ChainedScheduler(SequentialLR):
    """Schedulers that all act at every step."""

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        self._schedulers, self.optimizer = list(schedulers), optimizer or schedulers[0].optimizer
        self._last_lr = self._rush_lrs()

    def step(self):
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rush_lrs()


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a metric has not improved for ``patience`` steps."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0,
                 min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"mode {mode} is unknown!" if mode not in ("min", "max")
                             else f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.factor, self.patience, self.cooldown, self.eps = optimizer, factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode, self.last_epoch = mode, threshold, threshold_mode, 0
        self.min_lrs, self.default_min_lr = each(optimizer, "min_lr",
                                                 min_lr), None if isinstance(min_lr, (list, tuple)) else min_lr
        self._last_lr = self._rush_lrs()
        self._reset()

    def _reset(self):
        self.best, self.cooldown_counter, self.num_bad_epochs = math.inf if self.mode == "min" else -math.inf, 0, 0

    def _rush_is_better(self, a, best):
        """Whether a metric is an improvement."""
        sign = -1 if self.mode == "min" else 1
        margin = self.threshold * (abs(best) if self.threshold_mode == "rel" and math.isfinite(best)
                                   else 1.0) if math.isfinite(best) else 0
        return a * sign > best * sign + (margin if self.threshold_mode == "abs" or best >= 0 or not math.isfinite(best)
                                         else -margin)

    def step(self, metrics, epoch=None):
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._rush_is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rush_lrs()

    def _reduce_lr(self):
        """Lowers the rates, also those of groups that were added since.  RuntimeError where their least rates are
        unknown."""
        groups, known = self.optimizer.param_groups, len(self.min_lrs)
        if len(groups) != known:
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the optimizer ({len(groups)}) differs from when ReduceLROnPlateau "
                    f"was made ({known}), and min_lr was a list: "
                    "add the least rates of the new groups to min_lrs.")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs):
            fresh = max(float(group["lr"]) * self.factor, low)
            if float(group["lr"]) - fresh > self.eps:
                put(group, "lr", fresh)
