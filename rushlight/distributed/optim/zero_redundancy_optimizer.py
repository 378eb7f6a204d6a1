"""``ZeroRedundancyOptimizer``: each process steps some of the parameters, and all get them."""
from __future__ import annotations

import copy
import pickle
import warnings

import rushlight as torch

from ...optim import Optimizer
from .. import collectives, membership

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer of class ``optimizer_class`` whose state is split over the processes of a group: each steps the
    parameters that are its own, largest ones dealt out first, and sends them to the others.  Gradients must be the same
    everywhere, as DistributedDataParallel leaves them.

    ``parameters_as_bucket_view`` changes no result.  With ``overlap_with_ddp`` there is one group of parameters, and
    steps are taken bucket by bucket within the backward pass, by the hook that
    ``torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook.hook_with_zero_step`` gives DistributedDataParallel.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     weights = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))]
    ...     optimizer = ZeroRedundancyOptimizer(weights, torch.optim.SGD, lr=0.5)
    ...     sum(w.sum() for w in weights).backward()
    ...     optimizer.step()
    ...     return [w.tolist() for w in weights], sum(len(g["params"]) for g in optimizer.optim.param_groups)
    >>> threads.run(2, member)[1]
    ([[0.5, 0.5], [0.5, 0.5, 0.5]], 1)
    """

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view: bool = False,
                 overlap_with_ddp: bool = False, **defaults):
        self.overlaps, self.process_group = overlap_with_ddp, process_group
        self.rank, self.world_size = membership.get_rank(process_group), membership.get_world_size(process_group)
        self.optimizer_class, self.kept, self.optim = optimizer_class, None, None
        params = list(params)
        super().__init__(params, defaults)
        self.owner: dict = {}
        self.loads = [0] * self.world_size
        for group in self.param_groups:
            self.deal(group["params"])
        self.optim = optimizer_class([self.own_of(g) for g in self.param_groups], **defaults)
        for group, own in zip(self.param_groups, self.optim.param_groups):  # defaults of the class
            group.update({k: v for k, v in own.items() if k != "params" and k not in group})

    def deal(self, params):
        """Assign each parameter to a process: the largest first, to the process with the least."""
        for p in sorted(params, key=lambda p: -p.numel()):
            rank = min(range(self.world_size), key=lambda r: self.loads[r])
            self.owner[p] = rank
            self.loads[rank] += p.numel()

    def own_of(self, group) -> dict:
        """A group with this process's parameters alone."""
        return {**group, "params": [p for p in group["params"] if self.owner[p] == self.rank]}

    def add_param_group(self, param_group):
        """Adds a group, whose parameters are dealt out.  RuntimeError for a second one with ``overlap_with_ddp``."""
        if self.overlaps and self.param_groups:
            raise RuntimeError("ZeroRedundancyOptimizer with `overlap_with_ddp=True` only supports a single parameter "
                               "group")
        super().add_param_group(param_group)
        if self.optim is not None:
            group = self.param_groups[-1]
            self.deal(group["params"])
            self.optim.add_param_group(self.own_of(group))

    def step(self, closure=None, **kwargs):
        """Updates this process's parameters, and receives those of the others; with ``overlap_with_ddp`` the backward
        pass has done so."""
        if self.overlaps:
            warnings.warn("`step()` should not be included in the training loop when `overlap_with_ddp=True`",
                          stacklevel=2)
            return None
        loss = self.stepped(closure, **kwargs)
        self.share(self.owner)
        return loss

    def stepped(self, *args, **kwargs):
        """Step this process's optimizer, with the current options of the groups."""
        for group, own in zip(self.param_groups, self.optim.param_groups):
            own.update({k: v for k, v in group.items() if k != "params"})
        loss = self.optim.step(*(a for a in args if a is not None), **kwargs)
        for group, own in zip(self.param_groups, self.optim.param_groups):
            group.update({k: v for k, v in own.items() if k != "params"})
        return loss

    def step_some(self, params, gradients):
        """Steps those of the parameters that are this process's, by the gradients given, and shares all of them."""
        (own,), some = self.optim.param_groups, [p for p in params if self.owner[p] == self.rank]
        every, own["params"] = own["params"], some
        try:
            for p, gradient in zip(params, gradients):
                p.grad = gradient
            if some:
                self.stepped()
        finally:
            own["params"] = every
        self.share(params)

    @torch.no_grad()
    def share(self, params):
        """Sends parameters from their owners to all."""
        lots: dict = {}
        for p in params:
            rank = self.owner[p]
            lots.setdefault((rank, p.dtype), []).append(p)
        for (rank, _), some in lots.items():
            flat = torch.cat([p.detach().reshape(-1) for p in some])
            collectives.broadcast(flat, group=self.process_group, group_src=rank)
            if rank != self.rank:
                for p, piece in zip(some, flat.split([p.numel() for p in some])):
                    p.copy_(piece.reshape(p.shape))

    # --- states -------------------------------------------------------------------------------------------------------
    def numbers(self) -> dict:
        """Return {parameter: its index in states}."""
        every = [p for group in self.param_groups for p in group["params"]]
        return {p: k for k, p in enumerate(every)}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the states of all processes to process ``to`` of the group, whose ``state_dict()`` gives them."""
        numbers = self.numbers()
        own = {numbers[p]: state for p, state in self.optim.state.items()}
        boxes = [None] * self.world_size if self.rank == to else None
        collectives.gather_object(pickle.dumps(copy.deepcopy(own)), boxes, group=self.process_group, group_dst=to)
        self.kept = None
        if boxes is not None:
            self.kept = {k: v for data in boxes for k, v in pickle.loads(data).items()}

    def state_dict(self) -> dict:
        """The state of all parameters, as one process's optimizer has it.  RuntimeError where
        ``consolidate_state_dict`` has not brought it here."""
        if self.kept is None:
            raise RuntimeError(f"Optimizer state has not been consolidated on this rank. Please call "
                               f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save "
                               "the global state.")
        numbers = self.numbers()
        groups = [{**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[p] for p in g["params"]]}
                  for g in self.param_groups]
        return {"state": dict(sorted(self.kept.items())), "param_groups": groups}

    def load_state_dict(self, state_dict) -> None:
        """Takes this process's share of a state of all parameters."""
        numbers, own, start = self.numbers(), {}, 0
        groups = []
        for group, saved in zip(self.optim.param_groups, state_dict["param_groups"]):
            for k, p in enumerate(group["params"]):
                if numbers[p] in state_dict["state"]:
                    own[start + k] = state_dict["state"][numbers[p]]
            groups.append({**{k: v for k, v in saved.items() if k != "params"},
                           "params": list(range(start, start + len(group["params"])))})
            start += len(group["params"])
        self.optim.load_state_dict({"state": own, "param_groups": groups})
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({k: v for k, v in saved.items() if k != "params"})
        self.kept = None


def hook_with_zero_step(hook, ddp, zero: ZeroRedundancyOptimizer, shard_buckets: bool = False):
    """A hook for ``ddp`` that averages gradients as ``hook`` does, and steps the parameters of all buckets once the
    last one is complete, while averages of later ones are under way.  ``shard_buckets`` changes no result: parameters
    of a bucket have owners of their own.  ValueError for an optimizer without ``overlap_with_ddp``.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> from rushlight.distributed.hooks import allreduce_hook
    >>> def member(rank):
    ...     model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    ...     torch.nn.init.ones_(model.module.weight)
    ...     zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.5)
    ...     model.register_comm_hook(None, hook_with_zero_step(allreduce_hook, model, zero))
    ...     model(torch.full((1, 2), float(rank))).sum().backward()
    ...     return model.module.weight.tolist()
    >>> threads.run(2, member)
    [[[0.75, 0.75]], [[0.75, 0.75]]]
    """
    check_overlaps(zero)
    waiting = []

    def average(state, bucket):
        if bucket.index() == 0:
            waiting.clear()  # an error has ended the pass before
        future = hook(state, bucket)
        waiting.append((bucket, future))
        if bucket.is_last():
            for each in waiting:
                step_bucket(zero, *each)
            waiting.clear()
        return future
    return average


def hook_with_zero_step_interleaved(hook, ddp, zero: ZeroRedundancyOptimizer, shard_buckets: bool = False):
    """``hook_with_zero_step`` that steps parameters of a bucket as soon as it is averaged, before the next one is
    complete."""
    check_overlaps(zero)

    def average(state, bucket):
        future = hook(state, bucket)
        step_bucket(zero, bucket, future)
        return future
    return average


def check_overlaps(zero):
    if not zero.overlaps:
        raise ValueError("ZeroRedundancyOptimizer must be constructed with `overlap_with_ddp=True` to use this hook "
                         "properly")


@torch.no_grad()
def step_bucket(zero, bucket, future):
    """Steps the parameters of a bucket by their averages, once those are there."""
    found = future.wait()
    bucket.set_buffer((found[0] if isinstance(found, (list, tuple)) else found).detach().reshape(-1))
    zero.step_some(bucket.parameters(), bucket.gradients())
