"""Calls to other workers, and how they run there."""
from __future__ import annotations

import functools

from ...futures import Future
from .. import autograd
from .kept import count_at, keep
from .messages import Failure, packed, unpacked
from .workers import UNSET, Agent, WorkerInfo, current


def run(agent: Agent, message: bytes):
    """Run a received call, in the autograd context of its caller; return (True if it answers later, the result or its
    Future, the function that records the tensors of the answer)."""
    received = []
    call = unpacked(message, lambda tensors, told: received.append((tensors, told)))
    caller, context, kind, function, args, kwargs, name = call
    if context is not None:
        for tensors, told in received:
            autograd.arrived(agent, context, caller, tensors, told)
    record = autograd.recorder(agent, context, caller)
    with autograd.inside(context):
        if kind == "remote":
            return False, hold(agent, name, function, args, kwargs), None
        found = function(*args, **kwargs)
    later = getattr(function, "answers_later", False)
    if later and not isinstance(found, Future):
        raise RuntimeError(f"Functions decorated with @rpc.functions.async_execution must return a "
                           f"torch.futures.Future object, but got {type(found)}")
    return later, found, record


def hold(agent: Agent, name, function, args, kwargs):
    """Run a function whose value stays here, under a name; an error is kept in its place."""
    future = keep(agent, name)
    count_at(agent, name, 1)  # the caller's reference
    try:
        found = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - raised when the value is read
        future.set_exception(Failure(error, agent.info).error())
        return
    if getattr(function, "answers_later", False):
        found.add_done_callback(lambda done: follow(future, done))
    else:
        future.set_result(found)


def follow(future, done):
    try:
        future.set_result(done.value())
    except Exception as error:  # noqa: BLE001 - raised when the value is read
        future.set_exception(error)


def sent(to, kind: str, function, args, kwargs, timeout, name=None, own: bool = False) -> Future:
    agent = current()
    worker = agent.worker(to)
    if not callable(function):
        raise TypeError("function should be callable.")
    context = autograd.context_here(agent)
    message = packed((agent.info.id, context, kind, function, tuple(args or ()), dict(kwargs or {}), name),
                     autograd.recorder(agent, context, worker.id))
    receive = functools.partial(autograd.arrived, agent, context, worker.id) if context is not None else None
    return agent.ask(worker, message, timeout, own, receive)


def rpc_async(to, func, args=None, kwargs=None, timeout=UNSET) -> Future:
    """Has another worker call a function; returns a Future of the result.

    ``to``: its name, number or WorkerInfo; ``timeout``: seconds (0: no limit).  Waiting for the Future raises the
    function's error, with its traceback as text, and RuntimeError after the timeout.
    """
    return sent(to, "call", func, args, kwargs, timeout)


def rpc_sync(to, func, args=None, kwargs=None, timeout=UNSET):
    """Return the result of a function in another worker; errors as ``rpc_async``."""
    return rpc_async(to, func, args, kwargs, timeout).wait()


def get_worker_info(worker_name=None) -> WorkerInfo:
    """The worker of a name; without one, this one."""
    agent = current()
    return agent.info if worker_name is None else agent.worker(worker_name)


__all__ = ["get_worker_info", "rpc_async", "rpc_sync", "run"]
