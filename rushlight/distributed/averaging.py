"""Processes that take local steps and average their parameters periodically (Lin et al. 2018, "Don't Use Large
Mini-Batches, Use Local SGD"; Zhou et al. 2020 for several levels of groups)."""
from __future__ import annotations

import abc
import os
import warnings

from .._src.autograd.mode import no_grad
from ..futures import Future
from ..nn.parameter import Parameter
from ..optim import Optimizer
from .hooks import _allreduce_fut
from .membership import chosen, new_group
from .reduction import RedOpType

__all__ = ["ModelAverager", "PeriodicModelAverager", "HierarchicalModelAverager", "PostLocalSGDOptimizer",
           "PostLocalSGDState", "post_localSGD_hook", "average_parameters", "get_params_to_average",
           "average_parameters_or_parameter_groups"]
USELESS = ("is 1, no need to use model averaging because the communication cost of all-reducing parameters will be no "
           "less than the cost of all-reducing gradients by DistributedDataParallel in the backward pass. Therefore, "
           "only DistributedDataParallel should be used for this case.")


def average_parameters(params, process_group):
    """Writes the mean over a group (None: of all processes) into tensors, which are given in the same order
    everywhere.  ValueError for none."""
    group, tensors = chosen(process_group), [p.detach() for p in params]
    if group is None:
        return
    if not tensors:
        raise ValueError("average_parameters: expected a non-empty list of Tensors")
    with no_grad():
        for kind in dict.fromkeys(t.dtype for t in tensors):
            group.all_reduce([t for t in tensors if t.dtype is kind], RedOpType.AVG)


def get_params_to_average(params) -> list:
    """Return the parameters that have a gradient, from parameters or an optimizer's groups of them.
    NotImplementedError for other values."""
    found = []
    for each in params:
        if not isinstance(each, (Parameter, dict)):
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
        found += [p for p in (each["params"] if isinstance(each, dict) else [each]) if p.grad is not None]
    return found


def average_parameters_or_parameter_groups(params, process_group):
    """``average_parameters`` of those that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)


def neighbours(group, size: int):
    """Return this process's group among groups of ``size`` adjacent ranks of a group, whose processes all call this.
    ValueError if that does not divide the group's size."""
    whole = group.size()
    if size < 1 or whole % size:
        raise ValueError(f"The world size ({whole}) must be divisible by 'group_size={size}'" if 0 < size <= whole else
                         f"The arg 'group_size' ({size}) must be positive and not exceed the world size ({whole})")
    first = group.rank() // size * size
    return new_group(group.ranks[first:first + size], use_local_synchronization=True)


def checked_warmup(steps: int) -> int:
    """The number of steps; ValueError for a negative one."""
    if steps < 0:
        raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
    return steps


class ModelAverager(abc.ABC):
    """Averages parameters over a group; ``step`` counts the calls."""

    def __init__(self, process_group=None):
        self.process_group, self.step = chosen(process_group), 0

    @abc.abstractmethod
    def average_parameters(self, params):
        """Averages parameters, or an optimizer's groups of them, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages after ``warmup_steps``, every ``period`` steps.

    ValueError for a period below 1, and for a negative number of steps.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     weight = torch.nn.Parameter(torch.full((1,), 2.0 * rank))
    ...     averager = PeriodicModelAverager(2, warmup_steps=1)
    ...     weight.grad, seen = torch.zeros(1), []
    ...     for _ in range(3):
    ...         averager.average_parameters([weight])
    ...         seen.append(weight.item())
    ...     return seen
    >>> threads.run(2, member)
    [[0.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        self.warmup_steps = checked_warmup(warmup_steps)
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(f"When period {USELESS}", stacklevel=2)
        self.period = period

    def average_parameters(self, params):
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


class HierarchicalModelAverager(ModelAverager):
    """Averages over groups of several sizes: ``period_group_size_dict`` is {number of steps: number of adjacent
    processes}; the last group is that of all.

    At a step that several periods divide, the last of them counts.  All processes must construct it, since it makes
    groups.  ValueError for no periods, one below 1, and if the last group is not that of all.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     weight = torch.nn.Parameter(torch.full((1,), float(rank)))
    ...     averager = HierarchicalModelAverager({1: 2, 2: 4})
    ...     weight.grad, averager.step = torch.zeros(1), 1
    ...     averager.average_parameters([weight])
    ...     pairs = weight.item()
    ...     averager.average_parameters([weight])
    ...     return pairs, weight.item()
    >>> threads.run(4, member)
    [(0.5, 1.5), (0.5, 1.5), (2.5, 1.5), (2.5, 1.5)]
    """

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        if self._periods[0] < 1:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if self._periods[-1] == 1:
            warnings.warn(f"When the maximum period in arg ``period_group_size_dict`` {USELESS}", stacklevel=2)
        sizes, whole = list(period_group_size_dict.values()), self.process_group.size()
        if sizes[-1] != whole:
            raise ValueError(f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to the size "
                             f"of arg ``process_group`` {whole}.")
        self.period_process_group_dict = {
            period: self.process_group if size == whole else neighbours(self.process_group, size)
            for period, size in period_group_size_dict.items()}
        self.warmup_steps = checked_warmup(warmup_steps)

    def _find_process_group(self):
        """The group for this step, or None."""
        return next((self.period_process_group_dict[period] for period in reversed(self._periods)
                     if self.step % period == 0), None)

    def average_parameters(self, params):
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                average_parameters_or_parameter_groups(params, group)
        self.step += 1


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer that calls an averager after each step.  Its ``state_dict`` includes the averager's ``step``.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     weight = torch.nn.Parameter(torch.zeros(1))
    ...     optimizer = PostLocalSGDOptimizer(torch.optim.SGD([weight], lr=1.0), PeriodicModelAverager(2))
    ...     for _ in range(2):
    ...         weight.grad = torch.full((1,), float(rank))
    ...         optimizer.step()
    ...     return weight.item(), optimizer.state_dict()["step"]
    >>> threads.run(2, member)
    [(-0.5, 2), (-1.5, 2)]
    """

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    state = property(lambda self: self.optim.state)

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict:
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Loads a ``state_dict``; without a "step", the averager counts from 0, with a warning."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn("Loaded state dict does not contain a step counter for an averager. Setting step counter to "
                          "0.", stacklevel=2)
        self.averager.step = state_dict.get("step", 0)

    def step(self):
        """A step of this process alone; then parameters are averaged if it is time."""
        self.optim.step()
        self.averager.average_parameters(self.param_groups)

    def zero_grad(self, set_to_none: bool = True):
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        self.optim.add_param_group(param_group)


class PostLocalSGDState:
    """State of ``post_localSGD_hook``: gradients are averaged over ``process_group`` in the first
    ``start_localSGD_iter`` iterations, and over ``subgroup`` (None: the processes of this host) after that, or not at
    all without ``post_local_gradient_allreduce``."""

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0

    def maybe_increase_iter(self, bucket):
        """Counts a pass once its last bucket is there."""
        self.iter += bucket.is_last()

    def nearby(self):
        """Return the group of ``subgroup``; that of this host is made by all processes at the first call."""
        if self.subgroup is None:
            self.subgroup = neighbours(chosen(self.process_group), machine_size())
        return self.subgroup


def machine_size() -> int:
    """Return the number of processes per host that the launcher set; without a launcher, the world size."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", chosen().size()))


def post_localSGD_hook(state: PostLocalSGDState, bucket) -> Future:
    """A hook of DistributedDataParallel (``PostLocalSGDState``), for use with an averager of parameters."""
    early = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if early:
        return _allreduce_fut(state.process_group, bucket.buffer())
    if state.post_local_gradient_allreduce:
        return _allreduce_fut(state.nearby(), bucket.buffer())
    found = Future()
    found.set_result(bucket.buffer())
    return found
