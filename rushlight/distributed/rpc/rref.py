"""References to values that another worker keeps.

The owner (``kept.py``) counts references of other workers to each value, and releases it when there is none.  A worker
that sends a reference on has the owner count it before it goes.
"""
from __future__ import annotations

import types

from ...futures import Future
from ..autograd import backward
from .calls import rpc_async, rpc_sync, sent
from .kept import called_at, count_at, counted, keep, new_name, type_at, value_at
from .messages import packed
from .workers import UNSET, Agent, current


class RRef:
    """A reference to a value, which its owner keeps: this worker, for ``RRef(value)``."""

    __class_getitem__ = classmethod(types.GenericAlias)  # RRef[int], as annotations say

    def __init__(self, value, type_hint=None):
        agent = current()
        self.agent, self.worker, self.name, self.creation = agent, agent.info, new_name(agent), None
        keep(agent, self.name).set_result(value)
        counted(self.name, 1)

    @classmethod
    def _named(cls, agent: Agent, worker, name):
        made = cls.__new__(cls)
        made.agent, made.worker, made.name, made.creation = agent, worker, name, None
        return made

    def count(self, by: int):
        if self.is_owner():
            counted(self.name, by)
        else:
            self.ask(counted, self.name, by).wait()

    def ask(self, function, *args, timeout=UNSET) -> Future:
        """Have the owner run a function of this module."""
        message = packed((self.agent.info.id, None, "call", function, args, {}, None))
        return self.agent.ask(self.worker, message, timeout, True)

    def __reduce__(self):
        self.count(1)  # of the one that arrives
        return arrived, (self.worker.id, self.name)

    def __del__(self):
        agent = getattr(self, "agent", None)
        if agent is None or agent.closed or getattr(self, "worker", None) is None:
            return
        if self.is_owner():
            count_at(agent, self.name, -1)
        else:
            agent.deadlines.add(0, lambda: let_go(agent, self.worker, self.name))

    def is_owner(self) -> bool:
        return self.worker.id == self.agent.info.id

    def owner(self):
        """The worker that keeps the value."""
        return self.worker

    def owner_name(self) -> str:
        return self.worker.name

    def confirmed_by_owner(self) -> bool:
        """Returns True if the owner is known to have the value."""
        return self.is_owner() or self.creation is None or self.creation.done()

    def local_value(self):
        """The value, in its owner.  RuntimeError elsewhere."""
        if not self.is_owner():
            raise RuntimeError(
                f"For {self}, can't call localValue() on user {self.agent.info}. Call it on owner {self.worker}")
        return keep(self.agent, self.name).wait()

    def to_here(self, timeout=UNSET):
        """Returns a copy of the value; in the owner itself, the value.  Raises its function's error; RuntimeError after
        the timeout."""
        if self.is_owner():
            return self.local_value()
        return sent(self.worker, "call", value_at, (self.name,), None, timeout, own=True).wait()

    def _get_type(self, timeout=UNSET, blocking=True):
        if self.is_owner():
            return type(self.local_value())
        found = self.ask(type_at, self.name, timeout=timeout)
        return found.wait() if blocking else found

    def rpc_sync(self, timeout=UNSET):
        """Return a proxy of the value's methods; each runs in the owner, and returns its result."""
        return Proxy(self, rpc_sync, timeout)

    def rpc_async(self, timeout=UNSET):
        """``rpc_sync`` whose methods give Futures."""
        return Proxy(self, rpc_async, timeout)

    def remote(self, timeout=UNSET):
        """``rpc_sync`` whose methods give references."""
        return Proxy(self, remote, timeout)

    def backward(self, dist_autograd_ctx_id=-1, retain_graph=False):
        """``backward`` of the value, a tensor of one element, in its owner."""
        if not self.is_owner():
            self.ask(backward_at, self.name, dist_autograd_ctx_id, retain_graph).wait()
        elif dist_autograd_ctx_id == -1:
            self.local_value().backward(retain_graph=retain_graph)
        else:
            backward(dist_autograd_ctx_id, [self.local_value()], retain_graph)

    def __repr__(self):
        kind = "OwnerRRef" if self.is_owner() else "UserRRef"
        return f"{kind}(RRefId = GloballyUniqueId(created_on={self.name[0]}, local_id={self.name[1]}))"


def backward_at(name, context, retain_graph):
    if context == -1:
        value_at(name).backward(retain_graph=retain_graph)
    else:
        backward(context, [value_at(name)], retain_graph)


def let_go(agent: Agent, worker, name):
    """Notify an owner that a reference is gone, without waiting."""
    if not agent.closed:
        agent.ask(worker, packed((agent.info.id, None, "call", counted, (name, -1), {}, None)), own=True)


def arrived(owner: int, name):
    """Return the reference that a message contains; it was counted before it was sent."""
    agent = current()
    return RRef._named(agent, agent.workers[owner], name)


class Proxy:
    """A value's methods as calls to its owner."""

    def __init__(self, rref, call, timeout):
        self.rref, self.call, self.timeout = rref, call, timeout

    def __getattr__(self, method):
        def called(*args, **kwargs):
            return self.call(self.rref.worker, called_at, (self.rref.name, method, args, kwargs), timeout=self.timeout)
        return called


def remote(to, func, args=None, kwargs=None, timeout=UNSET) -> RRef:
    """Has another worker call a function and keep its result; returns a reference to that, at once."""
    agent = current()
    worker, name = agent.worker(to), new_name(agent)
    made = RRef._named(agent, worker, name)
    made.creation = sent(worker, "remote", func, args, kwargs, timeout, name)
    return made
