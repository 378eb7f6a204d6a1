"""Gradients of a model, gathered in buckets that are averaged over a group while the backward pass goes on."""
from __future__ import annotations

import functools

from ..._src.autograd.backward import Engine
from ..._src.autograd.mode import no_grad
from ..._src.core.native import Tensor
from ..._src.core.op import OPS
from ..._src.flat import int32, tensor

MEGABYTE = 1 << 20
FIRST_BUCKET = MEGABYTE  # bytes of the bucket that is complete first


class GradBucket:
    """The gradients that a hook is handed at once, as a vector: those of some parameters, one after the other."""

    def __init__(self, index: int, last: bool, parameters: list, buffer: Tensor):
        self._index, self._last, self._parameters, self._buffer = index, last, parameters, buffer

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        """Whether no bucket comes after it in this backward pass."""
        return self._last

    def buffer(self) -> Tensor:
        return self._buffer

    def set_buffer(self, buffer: Tensor):
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Each parameter's part of the vector, in its shape."""
        parts = self._buffer.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters)]

    def parameters(self) -> list[Tensor]:
        return list(self._parameters)


class Bucket:
    """Parameters of one dtype whose gradients travel together, where each lies in the vector, and how many are still
    awaited."""

    def __init__(self, index: int, parameters: list):
        self.index, self.parameters, self.buffer, self.waiting, self.future = index, parameters, None, len(
            parameters), None
        self.ends = []
        total = 0
        for p in parameters:
            self.ends.append((total, total + p.numel()))
            total += p.numel()
        self.total = total

    def reset(self):
        self.waiting, self.future = len(self.parameters), None

    def room(self) -> Tensor:
        if self.buffer is None:
            self.buffer = OPS["zeros"]((self.total,), dtype=self.parameters[0].dtype)
        return self.buffer

    def part(self, place: int) -> Tensor:
        begin, end = self.ends[place]
        return self.room()[begin:end].view(self.parameters[place].shape)


def buckets_of(parameters: list, cap: int) -> list:
    """Parameters in the order in which gradients come, in buckets of one dtype and of up to ``cap`` bytes (the first:
    at most FIRST_BUCKET)."""
    made, open_ = [], {}
    for p in parameters:
        held = open_.setdefault(p.dtype, [])
        held.append(p)
        if sum(q.numel() * q.itemsize for q in held) >= (min(FIRST_BUCKET, cap) if not made else cap):
            made.append(open_.pop(p.dtype))
    return [Bucket(k, ps) for k, ps in enumerate([*made, *(held for held in open_.values() if held)])]


class Reducer:
    """Averages the gradients of parameters over a group.  ``prepare`` begins a pass; hooks of parameters and the end of
    the backward pass do the rest.

    ``view``: gradients are parts of the buckets' vectors.  ``seeks``: parameters that a pass does not reach are looked
      for, and count as done.
    """

    def __init__(self, parameters, group, cap: int, view: bool, seeks: bool, names: dict):
        self.group, self.view, self.seeks, self.names = group, view, seeks, names
        self.buckets = buckets_of(list(reversed(parameters)), cap)
        self.place = {id(p): (b, k) for b in self.buckets for k, p in enumerate(b.parameters)}
        self.hook, self.state, self.active, self.launched = None, None, False, 0
        self.unused, self.reached, self.divisor = set(), set(), None
        self.handles = [p.register_post_accumulate_grad_hook(functools.partial(Reducer.ready, self))
                        for p in parameters]

    # --- a pass -------------------------------------------------------------------------------------------------------
    def prepare(self, outputs):
        """Awaits a gradient of each parameter.  RuntimeError where the pass before has not had one of each."""
        if self.active and self.reached:
            self.unfinished()
        self.unused = self.not_reached(outputs) if self.seeks else set()
        for bucket in self.buckets:
            bucket.reset()
        self.active, self.launched, self.reached, self.queued = True, 0, set(), False

    def unfinished(self):
        missing = [self.names[id(p)] for b in self.buckets for p in b.parameters if id(p) not in self.reached
                   and id(p) not in self.unused]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error "
            "indicates that your module has parameters that were not used in "
            "producing loss. You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`. Parameters which did not receive grad for rank "
            f"{self.group.rank()}: {', '.join(missing[:20])}")

    def not_reached(self, outputs) -> set:
        """The parameters on which no output depends."""
        found, seen, stack = set(), set(), [t.grad_fn for t in outputs if t.grad_fn is not None]
        found.update(id(t) for t in outputs if t.grad_fn is None)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None:
                found.add(id(variable))
            stack.extend(following for following, _ in node.next_functions if following is not None)
        return {key for key in self.place if key not in found}

    def ready(self, parameter):
        """A parameter's gradient is complete."""
        if not self.active:
            return
        if not self.queued:
            self.queued = True
            Engine.queue_callback(self.finish)
            for key in self.unused:
                self.arrived(key, None)
        if id(parameter) in self.reached:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by using a parameter in several "
                "reentrant backward passes, or by a graph that was said to be static "
                f"and is not: parameter {self.names[id(parameter)]}")
        self.arrived(id(parameter), parameter)

    def arrived(self, key: int, parameter):
        """Puts a gradient (zeros for None) into its bucket; averages buckets that are whole, in their order."""
        self.reached.add(key)
        bucket, place = self.place[key]
        target = bucket.part(place)
        with no_grad():
            if parameter is None:
                target.zero_()
            elif parameter.grad._storage is not target._storage or parameter.grad._offset != target._offset:
                target.copy_(parameter.grad)
        bucket.waiting -= 1
        while self.launched < len(self.buckets) and self.buckets[self.launched].waiting == 0:
            self.launch(self.buckets[self.launched])
            self.launched += 1

    def launch(self, bucket):
        size = self.divisor or self.group.size()
        if self.hook is not None:
            last = bucket.index == len(self.buckets) - 1
            handed = GradBucket(bucket.index, last, bucket.parameters, bucket.room())
            bucket.future = self.hook(self.state, handed)
        elif size == self.group.size():
            from ...distributed.reduction import RedOpType
            bucket.future = self.group.all_reduce([bucket.room()], RedOpType.AVG,
                                                  True).get_future() if size > 1 else None
        else:
            bucket.room().div_(size)
            bucket.future = self.group.all_reduce([bucket.room()], async_op=True).get_future()

    def finish(self):
        """Waits for all buckets, and hands the averages to the parameters."""
        if self.launched < len(self.buckets):
            return  # the next pass, or nobody, is told
        used = self.used_somewhere()
        for bucket in self.buckets:
            if bucket.future is not None:
                found = bucket.future.wait()
                found = found[0] if isinstance(found, (list, tuple)) else found
                with no_grad():
                    if found._storage is not bucket.buffer._storage:
                        bucket.buffer.copy_(found.detach().reshape(-1))
            self.hand_out(bucket, used)
        self.active = False

    def used_somewhere(self) -> set:
        """The parameters that some process of the group has used."""
        if not self.seeks or self.group.size() == 1:
            return set(self.place) - self.unused
        keys = list(self.place)
        flags = flags_of(keys, self.unused)
        self.group.all_reduce([flags])
        return {key for key, count in zip(keys, flags.tolist()) if count}

    def hand_out(self, bucket, used):
        with no_grad():
            for place, parameter in enumerate(bucket.parameters):
                if id(parameter) not in used:
                    continue  # no process has used it: its gradient stays as it is
                found = bucket.part(place)
                if self.view or parameter.grad is None:
                    if parameter.grad is None or parameter.grad._storage is not found._storage:
                        parameter.grad = found if self.view else found.clone()
                elif parameter.grad._storage is not found._storage:
                    parameter.grad.copy_(found)

    def shadow(self):
        """Takes part in what processes with inputs left do, with gradients of zero."""
        for bucket in self.buckets:
            bucket.room().zero_()
            self.launch(bucket)
        if self.seeks and self.group.size() > 1:
            self.group.all_reduce([flags_of(list(self.place), set(self.place))])
        for bucket in self.buckets:
            if bucket.future is not None:
                bucket.future.wait()


def flags_of(keys, unused):
    return tensor([int(key not in unused) for key in keys], dtype=int32)
