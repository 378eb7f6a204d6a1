"""Calls of functions in other processes (docs/distributed.md)."""
from __future__ import annotations

import datetime
import enum
import functools

from ..stores import PrefixStore
from ..worlds import here
from . import functions  # noqa: F401
from .calls import get_worker_info, rpc_async, rpc_sync, run  # noqa: F401
from .rref import RRef, remote  # noqa: F401
from .workers import DEFAULT_TIMEOUT, UNSET, Agent, WorkerInfo, current  # noqa: F401

PyRRef = RRef


class BackendType(enum.Enum):
    """The transport of calls: connections between processes."""

    TENSORPIPE = 0


class TensorPipeRpcBackendOptions:
    """``num_worker_threads``: the number of concurrent calls from others; ``rpc_timeout``: time limit of a call in
    seconds (0: none); ``init_method``: the address of the rendezvous."""

    def __init__(self, *, num_worker_threads=16, rpc_timeout=DEFAULT_TIMEOUT, init_method="env://", device_maps=None,
                 devices=None, _transports=None, _channels=None):
        if device_maps or devices:
            raise ValueError("calls carry tensors of the CPU: device_maps and devices must be empty")
        if num_worker_threads < 1:
            raise ValueError(f"num_worker_threads must be positive, not {num_worker_threads}")
        self.num_worker_threads, self.rpc_timeout, self.init_method = num_worker_threads, rpc_timeout, init_method


RpcBackendOptions = TensorPipeRpcBackendOptions


def is_available() -> bool:
    return True


def init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None):
    """Makes this process a worker ``name`` that others may call, once all ``world_size`` workers are here.

    RuntimeError if it is one already, or if a name is taken.
    """
    from ..membership import rendezvous
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    if not isinstance(options, TensorPipeRpcBackendOptions):
        raise TypeError(f"rpc_backend_options must be a TensorPipeRpcBackendOptions, not {type(options).__name__}")
    if backend not in (None, BackendType.TENSORPIPE):
        raise RuntimeError(f"there is no backend {backend}: calls go by BackendType.TENSORPIPE")
    if here().rpc is not None:
        raise RuntimeError("RPC is already initialized")
    store, rank, world_size = next(iter(rendezvous(options.init_method, rank, -1 if world_size is None else world_size,
                                                   timeout=datetime.timedelta(seconds=300))))
    here().rpc = Agent(here(), PrefixStore("rpc", store), store, name, rank, world_size, options, run)


def shutdown(graceful=True, timeout=0):
    """Ends this worker; with ``graceful`` once all workers have called this and no call is running.

    ``timeout``: seconds to wait for them (0: 300).  RuntimeError if this is not a worker.
    """
    agent = current()
    try:
        if graceful:
            agent.wait_for_all(timeout or 300)
    finally:
        here().rpc = None
        agent.close()


def get_rpc_timeout() -> float:
    """Returns the default time limit of a call in seconds."""
    return current().options.rpc_timeout


def _set_rpc_timeout(seconds: float):
    current().options.rpc_timeout = seconds


def _is_current_rpc_agent_set() -> bool:
    return here().rpc is not None


def _require_initialized(function):
    """Decorates a function that needs ``init_rpc``: RuntimeError before."""
    @functools.wraps(function)
    def checked(*args, **kwargs):
        current()
        return function(*args, **kwargs)
    return checked
