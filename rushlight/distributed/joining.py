"""Join: processes with different numbers of batches; one without further batches joins the others' collectives."""
from __future__ import annotations

from .membership import chosen


class JoinHook:
    """Hooks that a process without batches runs: ``main_hook`` while others continue, ``post_hook`` at the end."""

    def main_hook(self):
        """Takes part in the collectives of one round."""

    def post_hook(self, is_last_joiner: bool):
        """Comes after the last round; ``is_last_joiner``: whether this process was among the last with batches."""


class Joinable:
    """A participant of a ``Join`` block: a model whose forward pass calls ``Join.notify_join_context(self)``."""

    joining = None

    def join_hook(self, **kwargs) -> JoinHook:
        raise NotImplementedError

    @property
    def join_device(self):
        raise NotImplementedError

    @property
    def join_process_group(self):
        raise NotImplementedError


class Join:
    """A block in which the processes of a group may have different numbers of batches.

    ``throw_on_early_termination``: once a process has no more, all raise RuntimeError.  Further keywords go to the
      ``join_hook`` of each joinable.
    """

    def __init__(self, joinables, enable: bool = True, throw_on_early_termination: bool = False, **kwargs):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self.joinables, self.enabled, self.throws = list(joinables), enable, throw_on_early_termination
        self.hooks = [joinable.join_hook(**kwargs) for joinable in self.joinables]
        self.group = chosen(self.joinables[0].join_process_group)
        self.active, self.syncs = list(range(self.group.size())), True

    def __enter__(self):
        if self.enabled:
            for joinable, hook in zip(self.joinables, self.hooks):
                joinable.joining, hook.context = self, self
        return self

    def __exit__(self, kind, error, traceback):
        if not self.enabled:
            return
        try:
            if kind is None:
                self.follow()
        finally:
            for joinable in self.joinables:
                joinable.joining = None

    def told(self, here: bool, syncs: bool):
        """Communicate which processes still have batches, and if their gradients are averaged this time."""
        flags = self.group.gather_bytes(bytes([here, syncs]))
        self.active, self.syncs = [rank for rank, flag in enumerate(flags) if flag[0]], any(flag[1] for flag in flags)
        if self.throws and len(self.active) < len(flags):
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")

    def notify(self, joinable):
        if joinable is self.joinables[0]:
            self.told(True, getattr(joinable, "require_backward_grad_sync", True))
            for hook in self.hooks:
                if hasattr(hook, "round"):
                    hook.round()

    @staticmethod
    def notify_join_context(joinable):
        """Announce one more batch of a process: called in a joinable's forward pass."""
        context = getattr(joinable, "joining", None)
        if context is not None:
            context.notify(joinable)

    def follow(self):
        """Take part in rounds of others until no process has batches."""
        last = True
        while True:
            self.told(False, False)
            if not self.active:
                break
            last = False
            for hook in self.hooks:
                hook.main_hook()
        for hook in self.hooks:
            hook.post_hook(last)


class ModelJoinHook(JoinHook):
    """Takes part in DistributedDataParallel without batches: buffers come from a process that has batches, gradients
    are zero, and at the end the model is that of the last process."""

    def __init__(self, model, by_all: bool):
        self.model, self.by_all, self.context = model, by_all, None

    def round(self):
        """Set the divisor of gradients, if they are averaged over the processes with batches, and the buffers' root."""
        self.model.reducer.divisor = None if self.by_all else len(self.context.active)
        self.model.buffer_root = self.context.active[0]

    def main_hook(self):
        self.round()
        model = self.model
        if self.context.syncs:
            if model.will_sync_module_buffers():
                model._rush_send_out(model._rush_shared_buffers())
            model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool):
        model = self.model
        model.reducer.divisor, model.buffer_root = None, 0
        group = self.context.group
        last = [rank for rank, flag in enumerate(group.gather_bytes(bytes([is_last_joiner]))) if flag[0]]
        model.buffer_root = last[0]
        model._rush_send_out([*model.module.parameters(), *model._rush_shared_buffers()])
        model.buffer_root = 0
