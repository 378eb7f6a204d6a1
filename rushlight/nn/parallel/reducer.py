"""Gradients of a model, gathered in buckets that are averaged over a group while the backward pass goes on."""
from __future__ import annotations

import functools

from ..._src.autograd.backward import Engine
from ..._src.autograd.mode import no_grad
from ..._src.capture.asking import is_collecting, is_compiling
from ..._src.core.native import Tensor, mine
from ..._src.core.native.engine import runs
from ..._src.core.native.objects import ACCUMULATE
from ..._src.core.op import OPS
from ..._src.flat import int32, tensor
from ...distributed.optim.apply_optimizer_in_backward import has_own_optimizers, remove_hooks, step
from ...distributed.reduction import RedOpType
from .captured import named

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
    """Parameters of one dtype whose gradients are reduced together, their offsets in the vector, and the number still
    awaited.  ``given``: the gradients of this pass; ``results``: destinations of their averages."""

    def __init__(self, index: int, parameters: list):
        self.index, self.parameters, self.buffer, self.future = index, parameters, None, None
        self.reset()
        self.ends = []
        total = 0
        for p in parameters:
            self.ends.append((total, total + p.numel()))
            total += p.numel()
        self.total = total

    def reset(self):
        self.waiting, self.future = len(self.parameters), None
        self.given, self.results = [None] * len(self.parameters), None

    def room(self) -> Tensor:
        if self.buffer is None:
            self.buffer = OPS["zeros"]((self.total,), dtype=self.parameters[0].dtype, device=self.parameters[0].device)
        return self.buffer

    def part(self, place: int) -> Tensor:
        begin, end = self.ends[place]
        return self.room()[begin:end].view(self.parameters[place].shape)


def buckets_of(parameters: list, cap: int) -> list:
    """Parameters in the order in which gradients come, in buckets of one dtype and device and of up to ``cap`` bytes
    (the first: at most FIRST_BUCKET)."""
    made, open_ = [], {}
    for p in parameters:
        held = open_.setdefault((p.dtype, p.device), [])
        held.append(p)
        if sum(q.numel() * q.itemsize for q in held) >= (min(FIRST_BUCKET, cap) if not made else cap):
            made.append(open_.pop((p.dtype, p.device)))
    return [Bucket(k, ps) for k, ps in enumerate([*made, *(held for held in open_.values() if held)])]


class Reducer:
    """Averages the gradients of parameters over a group.  ``prepare`` begins a pass; hooks of parameters and the end of
    the backward pass do the rest.

    ``view``: gradients are parts of the buckets' vectors.  ``seeks``: parameters that a pass does not reach are looked
      for, and count as done.  ``is_static``: they are those that the first pass did not reach (``never``).  ``owed``:
      the parameters whose gradients have arrived and are not averaged, as in ``no_sync``; ``absent``: those that
      neither this pass nor one since the last average has reached.  ``steps``: whether some have optimizers that step
      with averages.  ``passes``: what compiled programs have averaged
      in backward passes that are under way, by their numbers.
    """

    def __init__(self, parameters, group, cap: int, view: bool, seeks: bool, names: dict):
        self.group, self.view, self.seeks, self.names, self.where = group, view, seeks, names, parameters[0].device
        self.buckets = buckets_of(list(reversed(parameters)), cap)
        self.place = {id(p): (b, k) for b in self.buckets for k, p in enumerate(b.parameters)}
        self.hook, self.state, self.active, self.launched = None, None, False, 0
        self.unused, self.reached, self.absent, self.divisor = set(), set(), set(), None
        self.is_static, self.never = False, None
        self.owed, self.many, self.passes, self.name = set(), group.size() > 1, {}, named(self)
        self.steps = any(map(has_own_optimizers, parameters))
        if self.steps:
            remove_hooks(parameters)  # averages come later than gradients
        self.handles = [p.register_post_accumulate_grad_hook(functools.partial(Reducer.ready, self))
                        for p in parameters]

    def leave(self):
        """The wrapper is gone: parameters are free, but for a pass whose backward may still come."""
        if not self.active or self.reached:
            for handle in self.handles:
                handle.remove()

    # --- a pass -------------------------------------------------------------------------------------------------------
    def within(self) -> bool:
        """True if a compiled program may average all gradients itself: no code reads buckets or missing gradients,
        and only this pass has gradients to average."""
        return (self.hook is None and self.divisor is None and not self.view and not self.seeks and not self.owed
                and self.many and not self.steps)

    def told(self, index: int):
        """Called when a compiled program averages a bucket in the current backward pass: its gradients are the
        complete ones of parameters that nothing else reaches.  The rest, and ``owed``, is averaged after the pass."""
        run = mine.run
        if run is None:
            return  # the backward pass is within a program, which has all of it
        if run.epoch not in self.passes:
            under_way = {one.epoch for one in runs.active}
            self.passes = {epoch: keys for epoch, keys in self.passes.items() if epoch in under_way}
            self.passes[run.epoch] = set()
            Engine.queue_callback(functools.partial(self.settle, run.epoch))
        wanted = {id(p) for p in self.buckets[index].parameters}
        self.passes[run.epoch].update(
            id(node.variable) for node in run.node.edges if node is not None and node.kind == ACCUMULATE
            and id(node.variable) in wanted and node.pending == 1 and node.buffer is None)

    def settle(self, epoch: int):
        """Ends a pass in which programs have averaged gradients: others are averaged with them, which stay as they
        are."""
        del self.passes[epoch]
        if not self.owed:
            return
        for bucket in self.buckets:
            given = [p.grad for p in bucket.parameters if p.grad is not None]
            if given:
                with no_grad():
                    self.group.all_reduce(given, RedOpType.AVG)
        self.owed = set()

    def whole(self, parameter) -> bool:
        """Whether the gradient that has come is what a compiled program has averaged."""
        if is_compiling():
            return is_collecting(self.name)
        return mine.run is not None and id(parameter) in self.passes.get(mine.run.epoch, ())

    def prepare(self, outputs):
        """Awaits a gradient of each parameter.  RuntimeError where the pass before has not had one of each."""
        if self.active and self.reached:
            self.unfinished()
        if self.is_static:
            self.unused = self.never or set()
        else:
            self.unused = self.not_reached(outputs) if self.seeks else set()
        for bucket in self.buckets:
            bucket.reset()
        self.absent = set()
        self.active, self.launched, self.reached, self.queued = True, 0, set(), False

    def prepare_for_backward(self, outputs):
        """Begins a pass over tensors, for callers that ran the forward pass under ``no_sync``."""
        self.prepare([outputs] if isinstance(outputs, Tensor) else outputs)

    def _rebuild_buckets(self) -> bool:
        """Return False: buckets stay in the order in which gradients are expected."""
        return False

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
        if self.whole(parameter):
            return
        if not self.active:
            self.owed.add(id(parameter))
            return
        if not self.queued:
            self.queued = True
            Engine.queue_callback(self.finish)
            self.skip(self.unused)
        if id(parameter) in self.reached:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by using a parameter in several "
                "reentrant backward passes, or by a graph that was said to be static "
                f"and is not: parameter {self.names[id(parameter)]}")
        self.arrived(id(parameter), parameter.grad)

    def skip(self, keys):
        """Averages parameters that this pass does not reach with the gradients that earlier passes left.  These stay
        as they are if no process has used the parameter since, so that they travel as copies."""
        for key in keys:
            bucket, place = self.place[key]
            found = bucket.parameters[place].grad
            if key not in self.owed or found is None:
                self.absent.add(key)
                found = found if found is None else found.detach().clone()
            self.arrived(key, found)

    def arrived(self, key: int, gradient):
        """Notes a gradient (None: there is none); averages buckets that are whole, in their order."""
        self.reached.add(key)
        bucket, place = self.place[key]
        bucket.given[place] = gradient
        bucket.waiting -= 1
        while self.launched < len(self.buckets) and self.buckets[self.launched].waiting == 0:
            with no_grad():
                self.launch(self.buckets[self.launched])
            self.launched += 1

    def launch(self, bucket):
        """Start averaging a bucket: in place if no code reads it as a vector."""
        if self.hook is not None:
            self.gathered(bucket)
            last = bucket.index == len(self.buckets) - 1
            handed = GradBucket(bucket.index, last, bucket.parameters, bucket.room())
            bucket.future = self.hook(self.state, handed)
            return
        given = [OPS["zeros"](p.shape, dtype=p.dtype, device=p.device) if gradient is None else gradient
                 for gradient, p in zip(bucket.given, bucket.parameters)]
        bucket.results = list(map(bucket.part, range(len(given)))) if self.view else given
        size = self.divisor or self.group.size()
        if size != self.group.size():
            for gradient in given:
                gradient.div_(size)
        elif size == 1 and not self.view:
            return
        average = RedOpType.AVG if size == self.group.size() else RedOpType.SUM
        bucket.future = self.group.all_reduce(bucket.results, average, True, given)

    def gathered(self, bucket):
        """Puts the gradients of a bucket into its vector."""
        for place, gradient in enumerate(bucket.given):
            part = bucket.part(place)
            if gradient is None:
                part.zero_()
            elif not same_memory(gradient, part):
                part.copy_(gradient)

    def finish(self):
        """Waits for all buckets, and hands the averages to the parameters."""
        if self.is_static and self.never is None:
            self.unused = self.never = set(self.place) - self.reached
            self.skip(self.never)
        if self.launched < len(self.buckets):
            return  # if any, the next pass gets the error
        used = self.used_somewhere()
        for bucket in self.buckets:
            if bucket.future is not None:
                found = bucket.future.wait()
                if self.hook is not None:
                    self.replaced(bucket, found[0] if isinstance(found, (list, tuple)) else found)
            self.hand_out(bucket, used)
            if self.steps:
                self.step(bucket, used)
            bucket.reset()
        self.active, self.owed = False, set()

    def replaced(self, bucket, found):
        """Return a bucket after its hook."""
        with no_grad():
            if found._rush_storage is not bucket.buffer._rush_storage:
                bucket.buffer.copy_(found.detach().reshape(-1))
        bucket.results = list(map(bucket.part, range(len(bucket.parameters))))

    def used_somewhere(self) -> set:
        """The parameters that some process of the group has used."""
        if not self.seeks or self.group.size() == 1:
            return set(self.place) - self.absent
        keys = list(self.place)
        flags = flags_of(keys, self.absent, self.where)
        self.group.all_reduce([flags])
        return {key for key, count in zip(keys, flags.tolist()) if count}

    def hand_out(self, bucket, used):
        with no_grad():
            for parameter, found in zip(bucket.parameters, bucket.results):
                if id(parameter) not in used:
                    continue  # no process has used it: its gradient stays as it is
                if parameter.grad is None:
                    parameter.grad = found if self.view or self.hook is None else found.clone()
                elif same_memory(parameter.grad, found):
                    continue
                elif self.view:
                    parameter.grad = found
                else:
                    parameter.grad.copy_(found)

    @staticmethod
    def step(bucket, used):
        """Steps with the optimizers of parameters that have their own."""
        for parameter in bucket.parameters:
            if has_own_optimizers(parameter) and id(parameter) in used:
                step(parameter)

    def shadow(self):
        """Takes part in what processes with inputs left do, with gradients of zero."""
        for bucket in self.buckets:
            bucket.reset()
            with no_grad():
                self.launch(bucket)
        if self.seeks and self.group.size() > 1:
            self.group.all_reduce([flags_of(list(self.place), set(self.place), self.where)])
        for bucket in self.buckets:
            if bucket.future is not None:
                bucket.future.wait()
            bucket.reset()


def same_memory(a, b) -> bool:
    """True if two gradients of one parameter share memory."""
    return a._rush_storage is b._rush_storage and a._rush_offset == b._rush_offset


def flags_of(keys, unused, where):
    return tensor([int(key not in unused) for key in keys], dtype=int32, device=where)
