"""One stage of a model, and the values it keeps of each microbatch between forward and backward."""
from __future__ import annotations

import contextlib

import rushlight as torch

from ...nn.parallel.distributed import DistributedDataParallel
from .. import membership
from .messages import Messages

__all__ = ["PipelineStage", "build_stage"]


def listed(output) -> tuple:
    """Return a stage's output as a tuple.  TypeError for other values than a tensor or a flat tuple of tensors."""
    values = tuple(output) if isinstance(output, (tuple, list)) else (output,)
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"a stage gives a tensor or a tuple of tensors, not {type(value).__name__} among them")
    return values


class _PipelineStageBase:
    """A module that is stage ``stage_index`` of ``num_stages``.  ``group``: the processes that share the stages
    (default: all).

    ``dw_builder()`` is called after the backward pass of each microbatch, for a module that computes its weight
    gradients later, and returns the function that computes them; it runs at once, or when the schedule has backward
    passes of weights.  RuntimeError together with DistributedDataParallel or ``fully_shard``.
    """

    def __init__(self, submodule, stage_index: int, num_stages: int, device=None, group=None, dw_builder=None):
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        replicas = [type(m).__name__ for m in submodule.modules()
                    if isinstance(m, DistributedDataParallel) or hasattr(m, "set_requires_gradient_sync")]
        if dw_builder is not None and replicas:
            raise RuntimeError(f"dw_builder: no hook of {replicas[0]} sees gradients that it computes, which would not be "
                               "summed over processes")
        self.dw_builder = dw_builder
        self.submod, self.stage_index, self.num_stages, self.device, self.group = (submodule, stage_index, num_stages,
                                                                                  device, group)
        self.group_rank, self.group_size = membership.get_rank(group), membership.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages "
                               f"{num_stages}")
        self.stage_index_to_group_rank = {s: s % self.group_size for s in range(num_stages)}
        self.messages, self.neighbours = Messages(group, device), {}
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        return self.stage_index == self.num_stages - 1

    @property
    def has_backward(self) -> bool:
        return self.backward_wanted

    def clear_runtime_states(self):
        """Forget all microbatches."""
        self.backward_wanted = True
        self.inputs, self.outputs, self.arrived, self.gradients, self.pending, self.results = {}, {}, {}, {}, {}, {}

    # --- between stages -----------------------------------------------------------------------------------------------
    def place(self, stage: int):
        """(stage in this process or None, its rank)."""
        return self.neighbours.get(stage), self.stage_index_to_group_rank[stage]

    def tag(self, stage: int, batch: int, backward: bool) -> int:
        return (batch * self.num_stages + stage) * 2 + backward

    def give(self, stage: int, batch: int, tensors, backward: bool):
        """Hands tensors to another stage."""
        here, rank = self.place(stage)
        if here is None:
            self.messages.send(tensors, rank, self.tag(stage, batch, backward))
        elif backward:
            here.gradients[batch] = list(tensors)
        else:
            here.arrived[batch] = [t.detach().requires_grad_(t.requires_grad) for t in tensors]

    def take(self, stage: int, batch: int, backward: bool) -> list:
        """Return the tensors that another stage has passed on."""
        here, rank = self.place(stage)
        if here is not None:
            return (self.gradients if backward else self.arrived).pop(batch)
        return self.messages.receive(rank, self.tag(self.stage_index, batch, backward))

    # --- what it computes ---------------------------------------------------------------------------------------------
    def forward_one_chunk(self, batch: int, args=(), kwargs=None):
        """Return a microbatch's output: of ``args`` in the first stage, of the previous stage's output in others."""
        given = tuple(args) if self.is_first else tuple(self.take(self.stage_index - 1, batch, False))
        module = self.submod
        quiet = module.no_sync() if isinstance(module, DistributedDataParallel) else contextlib.nullcontext()
        with quiet:
            output = module(*given, **(kwargs or {}))
        if self.is_last:
            self.results[batch], values = output, ()
        else:
            values = listed(output)
            self.give(self.stage_index + 1, batch, values, False)
        self.inputs[batch], self.outputs[batch] = given, values
        return output

    def cotangents(self, batch: int, loss, scale: float):
        """Return (the roots of the backward pass, their cotangents): the loss in the last stage, else the outputs that
        require a gradient."""
        values = self.outputs.pop(batch)
        if self.is_last:
            return [loss], [torch.full_like(loss, scale)]
        found = self.take(self.stage_index + 1, batch, True)
        pairs = [(v, g) for v, g in zip(values, found) if v.requires_grad and g is not None]
        return [v for v, _ in pairs], [g for _, g in pairs]

    def hand_back(self, batch: int, gradients):
        """Gives gradients of inputs to the stage before."""
        if not self.is_first:
            self.give(self.stage_index - 1, batch, gradients, True)

    def backward_one_chunk(self, batch: int, loss=None, scale: float = 1.0, last: bool = True):
        """Compute gradients of weights and inputs; the previous stage gets those of inputs.  With ``last`` gradients of
        replicas are averaged."""
        self.differentiate(batch, loss, scale, last)
        if self.dw_builder is not None:
            self.dw_builder()()

    def differentiate(self, batch: int, loss, scale: float, last: bool):
        """Run the backward pass of a microbatch, and pass on the gradients of its inputs."""
        roots, given = self.cotangents(batch, loss, scale)
        inputs = self.inputs.pop(batch)
        with self.syncing(last, roots):
            if roots:
                torch.autograd.backward(roots, given)
        self.hand_back(batch, [t.grad if t.requires_grad else None for t in inputs] if not self.is_first else ())

    def backward_input_one_chunk(self, batch: int, loss=None, scale: float = 1.0):
        """Gradients of inputs alone; those of weights follow by ``backward_weight_one_chunk``."""
        if self.dw_builder is not None:
            self.differentiate(batch, loss, scale, False)
            self.pending[batch] = self.dw_builder()
            return
        roots, given = self.cotangents(batch, loss, scale)
        inputs = self.inputs.pop(batch)
        wanted = [] if self.is_first else [t for t in inputs if t.requires_grad]
        if roots and wanted:
            found = dict(zip(map(id, wanted), torch.autograd.grad(roots, wanted, given, retain_graph=True,
                                                                  allow_unused=True)))
            self.hand_back(batch, [found.get(id(t)) for t in inputs])
        elif not self.is_first:
            self.hand_back(batch, [None] * len(inputs))
        self.pending[batch] = roots, given

    def backward_weight_one_chunk(self, batch: int, last: bool = True):
        """Gradients of weights, after ``backward_input_one_chunk``."""
        if self.dw_builder is not None:
            self.pending.pop(batch)()
            return
        roots, given = self.pending.pop(batch)
        weights = [p for p in self.submod.parameters() if p.requires_grad]
        with self.syncing(last, roots):
            if roots and weights:
                torch.autograd.backward(roots, given, inputs=weights)

    @contextlib.contextmanager
    def syncing(self, last: bool, roots):
        """A block in which replicas of the stage reduce gradients, if it is the last microbatch's."""
        module = self.submod
        if isinstance(module, DistributedDataParallel) and last:
            module.reducer.prepare(roots)
        for one in module.modules():
            if hasattr(one, "set_requires_gradient_sync"):
                one.set_requires_gradient_sync(last, recurse=False)
        yield


class PipelineStage(_PipelineStageBase):
    """A module that is a stage: its inputs are the outputs of the stage before, tensors or tuples of tensors.

    ``input_args`` and ``output_args`` (examples of both) are accepted; messages carry their sizes.  ``stage_index``:
    from 0; ``num_stages``: the total number of stages; ``group``: the processes that share them.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     stage = PipelineStage(torch.nn.Linear(2, 2), rank, 2, torch.device("cpu"))
    ...     schedule = torch.distributed.pipelining.ScheduleGPipe(stage, 2, loss_fn=lambda y, target: y.sum())
    ...     losses = []
    ...     out = schedule.step(torch.ones(4, 2)) if rank == 0 else schedule.step(target=torch.ones(4), losses=losses)
    ...     return out is None, len(losses), stage.submod.weight.grad is not None
    >>> threads.run(2, member)
    [(True, 0, True), (False, 2, True)]
    """

    def __init__(self, submodule, stage_index: int, num_stages: int, device, input_args=None, output_args=None,
                 output_grads=None, input_grads=None, group=None, dw_builder=None, get_mesh=None):
        super().__init__(submodule, stage_index, num_stages, device, group, dw_builder)


class _PipelineStage(_PipelineStageBase):
    """A stage that ``pipeline`` cut."""

    def __init__(self, stage_module, stage_index: int, pipe_info, device, group=None):
        super().__init__(stage_module, stage_index, pipe_info.num_stages, device, group)
        self.pipe_info = pipe_info


def build_stage(stage_module, stage_index: int, pipe_info, device, group=None):
    """A stage of a Pipe, whose ``info()`` is ``pipe_info``."""
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)
