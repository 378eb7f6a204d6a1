"""Pipeline schedules: microbatches of a batch through the stages of a model, forward and backward."""
from __future__ import annotations

import logging

import rushlight as torch

from . import orders
from .microbatch import merge_chunks, split_args_kwargs_into_chunks

__all__ = ["get_schedule_class", "PipelineScheduleSingle", "PipelineScheduleMulti", "Schedule1F1B", "ScheduleGPipe",
           "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble",
           "ScheduleDualPipeV"]


class _PipelineSchedule:
    """Base of schedules.  ``stages``: those of this process; ``n_microbatches``: the number of microbatches of a batch;
    ``loss_fn(output, target)`` is computed by the last stage; ``scale_grads``: True if gradients are those of the mean
    of the microbatches' losses (else of the sum)."""

    place = staticmethod(orders.looped)
    _backward_requires_autograd = True

    def __init__(self, stages, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True):
        if not stages:
            raise ValueError("a schedule takes at least one stage")
        self._stages, self._n_microbatches, self._loss_fn, self.scale_grads = (list(stages), n_microbatches, loss_fn,
                                                                              scale_grads)
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        first = self._stages[0]
        self.rank, self.pp_group_size, self._num_stages = first.group_rank, first.group_size, first.num_stages
        ranks = dict(enumerate(self.place(self.pp_group_size, self._num_stages)))
        here = {stage.stage_index: stage for stage in self._stages}
        for stage in self._stages:
            if ranks[stage.stage_index] != self.rank:
                raise ValueError(f"{type(self).__name__}: stage {stage.stage_index} of {self._num_stages} belongs to "
                                 f"rank {ranks[stage.stage_index]}, not to {self.rank}")
            stage.stage_index_to_group_rank, stage.neighbours = ranks, here
        if sorted(here) != [s for s, r in ranks.items() if r == self.rank]:
            raise ValueError(f"{type(self).__name__}: rank {self.rank} has stages {sorted(here)}, where "
                             f"{[s for s, r in ranks.items() if r == self.rank]} are its own")

    def order(self) -> list:
        """Return the actions of this rank."""
        raise NotImplementedError

    @property
    def _has_backward(self) -> bool:
        return self._loss_fn is not None

    def step(self, *args, target=None, losses: list | None = None, return_outputs: bool = True,
             loss_kwargs: dict | None = None, **kwargs):
        """Runs one batch forward and, with a loss, backward.  The process of the first stage passes ``args``; that of
        the last one passes ``target``, gets losses of microbatches in the list ``losses``, and the batch's output (if
        ``return_outputs``); others get None."""
        if self._has_backward and self._backward_requires_autograd and not torch.is_grad_enabled():
            raise RuntimeError("step() requires gradients to be enabled for backward computation; use eval() for "
                               "forward alone")
        return self.run(self.order(), args, kwargs, target, losses, return_outputs, loss_kwargs or {})

    def eval(self, *args, target=None, losses: list | None = None, return_outputs: bool = True,
             loss_kwargs: dict | None = None, **kwargs):
        """One batch forward, without gradients."""
        with torch.no_grad():
            forward = [a for a in self.order() if a.kind == "F"]
            return self.run(forward, args, kwargs, target, losses, return_outputs, loss_kwargs or {})

    def run(self, actions, args, kwargs, target, losses, return_outputs, loss_kwargs):
        count = self._n_microbatches
        stages = {stage.stage_index: stage for stage in self._stages}
        last = stages.get(self._num_stages - 1)
        for stage in self._stages:
            stage.clear_runtime_states()
        given, named = ([()] * count, [{}] * count) if not args and not kwargs else split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec)
        targets = None if target is None else torch.tensor_split(target, count)
        found: dict = {}
        left = {stage: sum(a.stage == stage and a.kind in "BW" for a in actions) for stage in stages}
        for kind, index, batch in actions:
            stage = stages[index]
            if kind == "F":
                output = stage.forward_one_chunk(batch, given[batch], named[batch])
                if stage is last and self._loss_fn is not None:
                    found[batch] = self.loss(output, targets, batch, loss_kwargs)
                continue
            left[index] -= kind in "BW"
            scale = 1.0 / count if self.scale_grads else 1.0
            if kind == "B":
                stage.backward_one_chunk(batch, found.get(batch), scale, not left[index])
            elif kind == "I":
                stage.backward_input_one_chunk(batch, found.get(batch), scale)
            else:
                stage.backward_weight_one_chunk(batch, not left[index])
        for stage in self._stages:
            stage.messages.finish()
        return self.ended(last, found, losses, return_outputs)

    def loss(self, output, targets, batch, loss_kwargs):
        if targets is None:
            raise RuntimeError("the process of the last stage must give target= where there is a loss_fn")
        return self._loss_fn(output, targets[batch], **loss_kwargs)

    def ended(self, last, found, losses, return_outputs):
        """Return the result of a step, and store losses in the caller's list."""
        if losses is not None and last is not None and self._loss_fn is not None:
            losses[:] = [found[b].detach() for b in range(self._n_microbatches)]
        results = None
        if last is not None and return_outputs:
            outputs = [last.results[b] for b in range(self._n_microbatches)]
            results = merge_chunks(outputs, self._output_merge_spec)
        for stage in self._stages:
            stage.clear_runtime_states()
        return results


class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule with one stage a process."""

    def __init__(self, stage, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True):
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)
        if n_microbatches < self._num_stages and isinstance(self, Schedule1F1B):
            raise ValueError(f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number "
                             f"of stages ({self._num_stages}).")
        self._stage = stage


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forward, then all backward."""

    def order(self):
        index, count = self._stage.stage_index, self._n_microbatches
        return [*(orders.Action("F", index, b) for b in range(count)),
                *(orders.Action("B", index, b) for b in range(count))][:2 * count if self._has_backward else count]


class Schedule1F1B(PipelineScheduleSingle):
    """Alternately one forward and one backward pass, so that no stage keeps more microbatches than stages follow it."""

    def order(self):
        found = orders.one_forward_one_backward(self._stage.stage_index, self._num_stages, self._n_microbatches)
        return found if self._has_backward else [a for a in found if a.kind == "F"]


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule with several stages a process.  ``backward_requires_autograd=False``: ``step()`` may be called with
    gradients disabled, for a custom backward."""

    def __init__(self, stages, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, use_full_backward=None, scale_grads: bool = True,
                 backward_requires_autograd: bool = True):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)
        self._backward_requires_autograd = backward_requires_autograd
        if use_full_backward is not None:
            logging.getLogger(__name__).warning("Deprecation warning: 'use_full_backward' is no longer supported. "
                                                "Simply stop passing it, and everything should still work fine.")

    def actions(self) -> list:
        raise NotImplementedError

    def order(self):
        return [a for a in self.actions() if self._has_backward or a.kind == "F"]

    @property
    def indices(self) -> list[int]:
        return [stage.stage_index for stage in self._stages]


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through each of a rank's stages, then backward."""

    def __init__(self, stages, n_microbatches: int, loss_fn=None, output_merge_spec=None, scale_grads: bool = True,
                 backward_requires_autograd: bool = True, defer_pp_recv: bool = False):
        super().__init__(stages, n_microbatches, loss_fn, output_merge_spec=output_merge_spec, scale_grads=scale_grads,
                         backward_requires_autograd=backward_requires_autograd)

    def actions(self):
        return orders.all_forward_first(self.indices, self._n_microbatches)


class _Interleaved(PipelineScheduleMulti):
    halves = False

    def __init__(self, stages, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True, backward_requires_autograd: bool = True,
                 defer_pp_recv: bool = False):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads=scale_grads, backward_requires_autograd=backward_requires_autograd)
        self.check()

    def check(self):
        rounds = max(1, self._n_microbatches // self.pp_group_size)
        if self._n_microbatches % rounds:
            raise ValueError(f"{type(self).__name__} requires the number of microbatches to be a multiple of the "
                             f"number of rounds ({rounds}), but got {self._n_microbatches}.")

    def actions(self):
        return orders.interleaved(self.rank, self.pp_group_size, self.indices, self._n_microbatches, self.halves)


class ScheduleInterleaved1F1B(_Interleaved):
    """One forward and one backward in turns, over several stages of each process."""


class ScheduleInterleavedZeroBubble(_Interleaved):
    """The same, with backward passes in two parts: the part that other stages wait for goes first.  The second part
    runs over the stage's graph again."""

    halves = True


class ScheduleZBVZeroBubble(_Interleaved):
    """Two stages a process, one on the way out and one on the way back, with backward passes in two halves."""

    place = staticmethod(orders.in_a_v)

    def check(self):
        if len(self._stages) != 2:
            raise ValueError("ZBV requires exactly 2 stages per rank, but got "
                             f"{len(self._stages)} stages on rank {self.rank}.")

    def actions(self):
        return orders.back_and_forth(self.rank, self.pp_group_size, self._n_microbatches)


class ScheduleDualPipeV(PipelineScheduleMulti):
    """Two stages a process, one on the way out and one on the way back; forward passes of one alternate with backward
    passes of the other.  ValueError for fewer microbatches than stages."""

    place = staticmethod(orders.in_a_v)

    def __init__(self, stages, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True, backward_requires_autograd: bool = True,
                 defer_pp_recv: bool = False):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads=scale_grads, backward_requires_autograd=backward_requires_autograd)
        if len(self._stages) != 2:
            raise ValueError(f"DualPipeV requires exactly 2 stages per rank, but got {len(self._stages)}.")
        if n_microbatches < self._num_stages:
            raise ValueError("DualPipeV requires at least as many microbatches as stages, but got "
                             f"{n_microbatches} microbatches and {self._num_stages} stages.")

    def actions(self):
        return orders.both_ways(self.rank, self.pp_group_size, self._n_microbatches)


def get_schedule_class(schedule_name: str):
    """A schedule by its name, with or without ``Schedule``, in any case.  ValueError for others.

    >>> get_schedule_class("gpipe").__name__
    'ScheduleGPipe'
    """
    known = {name.removeprefix("Schedule").lower(): value for name, value in globals().items()
             if name.startswith("Schedule")}
    known |= {"pipelineschedulesingle": PipelineScheduleSingle, "pipelineschedulemulti": PipelineScheduleMulti}
    found = known.get(schedule_name.lower()) or known.get(schedule_name.lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are "
                         f"{[c.__name__ for c in known.values()]}")
    return found
