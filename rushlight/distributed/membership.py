"""The group of one process: who is in it, and how it comes about."""
from __future__ import annotations

import datetime
import os
from urllib.parse import urlparse

from .._src.core.errors import OneProcessError
from .stores import DEFAULT_TIMEOUT, FileStore, HashStore, PrefixStore, Store, TCPStore

default_pg_timeout = DEFAULT_TIMEOUT
BACKENDS = ("gloo", "mpi", "nccl", "ucc", "xccl", "fake", "undefined")
HERE = ("gloo", "fake")
HANDLERS = {}  # scheme of an address -> function (url, rank=, world_size=) that gives (store, rank, world size) triples


def refuse_more(size: int):
    if size > 1:
        raise OneProcessError(f"a group of {size} processes", "world_size=1", "tensors do not travel between processes yet; one process uses all processors of the machine")


class Backend(str):
    """The name of what carries messages: ``"gloo"``."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = list(BACKENDS)

    def __new__(cls, name: str):
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {type(name).__name__}")
        return str.__new__(cls, name.lower())


class ProcessGroup:
    """Processes that exchange tensors: this one."""

    def __init__(self, backend: Backend, store: Store, name: str, desc: str = "undefined"):
        self._backend, self._store, self.group_name, self.group_desc = backend, store, name, desc

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    def name(self) -> str:
        return str(self._backend)

    def get_group_store(self):
        return self._store

    def set_timeout(self, timeout: datetime.timedelta):
        self._store.set_timeout(timeout)

    def shutdown(self):
        """Nothing is open."""

    abort = shutdown


class GroupMember:
    """What a process is handed for a group to which it does not belong."""

    NON_GROUP_MEMBER = -100


class Groups(type):
    """``group.WORLD`` is the group of now."""

    @property
    def WORLD(cls):
        return World.default

    @WORLD.setter
    def WORLD(cls, value):
        World.default = value


class group(metaclass=Groups):
    """The groups that have names."""

    NON_GROUP_MEMBER = GroupMember.NON_GROUP_MEMBER


class World:
    """What this process belongs to."""

    default: ProcessGroup | None = None
    groups: list = []
    count = 0


def chosen(given=None) -> ProcessGroup | None:
    """The group that is meant; None for one to which this process does not belong.  ValueError before ``init_process_group``."""
    if given is GroupMember.NON_GROUP_MEMBER:
        return None
    found = World.default if given is None else given
    if found is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return found


def backend_of(text: str | None) -> Backend:
    """The backend for tensors of the CPU in ``"gloo"`` or ``"cpu:gloo,cuda:nccl"``.  RuntimeError for one that is not here, AssertionError for an unknown one."""
    named = dict(part.split(":", 1) for part in text.split(",")) if text and ":" in text else {"cpu": text or "gloo"}
    name = Backend(named.get("cpu") or next(iter(named.values())))
    assert name in Backend.backend_list, f"Unknown backend type {name}"
    if name not in HERE:
        raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
    return name


def from_environment(name: str) -> int | str:
    if name not in os.environ:
        raise ValueError(f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set")
    return os.environ[name]


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs):
    """(store, rank, world size) for an address: env://, file://path, tcp://host:port or one of a registered scheme.  RuntimeError for others."""
    parsed = urlparse(url)
    if parsed.scheme in HANDLERS:
        yield from HANDLERS[parsed.scheme](url, rank=rank, world_size=world_size, **kwargs)
        return
    query = dict(part.split("=", 1) for part in parsed.query.split("&") if part)
    rank, world_size = int(query.get("rank", rank)), int(query.get("world_size", world_size))
    if parsed.scheme == "env":
        rank = int(from_environment("RANK")) if rank == -1 else rank
        world_size = int(from_environment("WORLD_SIZE")) if world_size == -1 else world_size
        host, port = from_environment("MASTER_ADDR"), int(from_environment("MASTER_PORT"))
    elif parsed.scheme in ("tcp", "file"):
        host, port = parsed.hostname, parsed.port
        for name, value in (("rank", rank), ("world_size", world_size)):
            if value == -1:
                raise ValueError(f"Error initializing torch.distributed using {parsed.scheme}:// rendezvous: {name} parameter missing")
    else:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    refuse_more(world_size)
    yield FileStore(parsed.path, world_size) if parsed.scheme == "file" else TCPStore(host, port, world_size, rank == 0), rank, world_size


def register_rendezvous_handler(scheme: str, handler):
    """Has ``handler`` answer for addresses of a scheme.  RuntimeError where there is one already."""
    if scheme in HANDLERS:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    HANDLERS[scheme] = handler


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="", pg_options=None, device_id=None, _ranks=None):
    """Makes this process a group of size 1: by ``store``, by an address (``file://``, ``tcp://localhost:port``), or by the environment.

    OneProcessError for a larger world, ValueError where there is a group already or the environment says too little.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> dist.all_reduce(x)
    >>> x, dist.get_world_size()
    (tensor([1., 1.]), 1)
    >>> dist.destroy_process_group()
    """
    if World.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    assert store is None or init_method is None, "Cannot specify both init_method and store."
    if store is not None:
        assert world_size > 0, "world_size must be positive if using store"
        assert rank >= 0, "rank must be non-negative if using store"
    else:
        store, rank, world_size = next(iter(rendezvous(init_method or "env://", rank, world_size)))
    name = backend_of(backend)
    refuse_more(world_size)
    if rank != 0:
        raise ValueError(f"rank {rank} of a world of size {world_size}: ranks count from 0")
    if timeout is not None:
        store.set_timeout(timeout)
    World.default = enter(name, store, group_name or "0", "default_pg")


def enter(backend, store, name, desc) -> ProcessGroup:
    """A group more."""
    World.count += 1
    made = ProcessGroup(backend, PrefixStore(name, store), name, desc)
    World.groups.append(made)
    return made


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None, device_id=None, sort_ranks=True):
    """A group of some ranks: ``[0]``, or None for all.  ValueError for ranks that there are not."""
    world = chosen()
    if ranks is not None and len(ranks) > 1:
        raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
    if ranks is not None and any(rank != 0 for rank in ranks):
        raise ValueError("the new group's rank should be within the world_size set by init_process_group")
    if ranks is not None and not len(ranks):
        return GroupMember.NON_GROUP_MEMBER
    return enter(backend_of(backend) if backend else world._backend, world._store, str(World.count), group_desc or "undefined")


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups) where each has ``group_size`` ranks, which is 1."""
    if group_size not in (None, 1):
        raise ValueError("group_size must divide the world size: 1")
    made = new_group([0], timeout, backend, pg_options, group_desc=group_desc)
    return made, [made]


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups), one for each list of ranks."""
    made = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    return next((g for g in made if isinstance(g, ProcessGroup)), None), made


def destroy_process_group(group=None):
    """Leaves a group; without one, all of them."""
    assert group is not None or World.default is not None, "Process group cannot be None"
    if group is None or group is World.default:
        World.default, World.count = None, 0
        World.groups.clear()
    elif group in World.groups:
        World.groups.remove(group)
    else:
        raise ValueError("Invalid process group specified")


def is_initialized() -> bool:
    return World.default is not None


def get_rank(group=None) -> int:
    """0; -1 for a group to which this process does not belong.  ValueError before ``init_process_group``."""
    return -1 if chosen(group) is None else 0


def get_world_size(group=None) -> int:
    """1; -1 for a group to which this process does not belong.  ValueError before ``init_process_group``."""
    return -1 if chosen(group) is None else 1


def get_backend(group=None) -> Backend:
    return Backend(chosen(group)._backend)


def get_backend_config(group=None) -> str:
    return f"cpu:{chosen(group)._backend}"


def get_default_backend_for_device(device) -> str:
    """"gloo", which carries tensors of the CPU.  ValueError for other devices."""
    if str(device).partition(":")[0] != "cpu":
        raise ValueError(f"Default backend not registered for device : {device}")
    return "gloo"


def get_process_group_ranks(group=None) -> list:
    return [0] if chosen(group) else []


def get_global_rank(group, group_rank: int) -> int:
    """The rank in the world of a rank in a group.  ValueError where there is none."""
    if group_rank != 0:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return 0


def get_group_rank(group, global_rank: int) -> int:
    """The rank in a group of a rank in the world.  ValueError where there is none."""
    if global_rank != 0:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return 0


def get_pg_count() -> int:
    return len(World.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The environment's LOCAL_RANK, else ``fallback_rank``.  RuntimeError where neither is given."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you are not running in a multi-device context.")
    return int(fallback_rank)
