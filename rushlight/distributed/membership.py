"""Process groups: the rendezvous of processes, and the groups they form."""
from __future__ import annotations

import datetime
import numbers
import os
from urllib.parse import urlparse, urlunparse

from .._src.core.devices import device
from .._src.core.platform import here as system
from .._src.core.settings import settings
from .backends import HOST, Backend, backend_of, by_device, maker
from .process_group import ProcessGroup
from .stores import DEFAULT_TIMEOUT, FileStore, PrefixStore, Store
from .tcp_store import TCPStore
from .worlds import PROCESS, GroupMember, here

default_pg_timeout = DEFAULT_TIMEOUT


def chosen(given=None) -> ProcessGroup | None:
    """Return the given group (None: the default one); None for one to which this process does not belong.  ValueError
    before ``init_process_group``, and for values that are not groups."""
    if given is GroupMember.NON_GROUP_MEMBER:
        return None
    found = here().default if given is None else given
    if found is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    if not isinstance(found, ProcessGroup):
        raise ValueError(f"Process group {found} is not initialized in the world group map. "
                         "Please initialize the group first.")
    return found


def unmet(scheme: str, what: str) -> ValueError:
    """Why an address cannot be followed."""
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def from_environment(name: str) -> str:
    if not os.environ.get(name):
        raise unmet("env", f"environment variable {name} expected, but not set")
    return os.environ[name]


def queried(parsed) -> dict:
    """Return the query parameters of a parsed URL."""
    return dict(part.split("=", 1) for part in parsed.query.split("&") if part)


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs):
    """Return an iterator of (store, rank, world size) for an address: env://, file://path, tcp://host:port or one of a
    registered scheme, whose function finds ``rank`` and ``world_size`` in the address.

    RuntimeError for other schemes, AssertionError if the address has ``rank`` or ``world_size`` already, ValueError
    (of the first ``next``) for an incomplete address.
    """
    for name, value, kinds in (("url", url, str), ("rank", rank, numbers.Integral),
                               ("world_size", world_size, numbers.Integral)):
        if not isinstance(value, kinds):
            raise RuntimeError(f"`{name}` must be {'a string' if kinds is str else 'an integer'}: {value!r}")
    parsed = urlparse(url)
    query, given = queried(parsed), {"rank": rank, "world_size": world_size}
    given = {name: str(value) for name, value in given.items() if value != -1}
    if given and query.keys() & {"rank", "world_size"}:
        raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
    if parsed.scheme not in HANDLERS:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    parsed = parsed._replace(query="&".join(f"{name}={value}" for name, value in {**query, **given}.items()))
    return HANDLERS[parsed.scheme](urlunparse(parsed), **kwargs)


def met(url: str, timeout=DEFAULT_TIMEOUT, **kwargs):
    """The handler of the built-in schemes of ``rendezvous``."""
    parsed = urlparse(url)
    scheme, query = parsed.scheme, queried(parsed)
    if scheme == "file" and not parsed.path:
        raise unmet(scheme, "path missing")
    if scheme == "tcp" and parsed.port is None:
        raise unmet(scheme, "port number missing")
    for name, shown in (("rank", "rank"), ("world_size", "world size")):
        if name not in query:
            if scheme != "env":
                raise unmet(scheme, f"{shown} parameter missing")
            query[name] = from_environment(name.upper())
    rank, world_size, host, port = int(query["rank"]), int(query["world_size"]), parsed.hostname, parsed.port
    if scheme == "env":
        host, port = from_environment("MASTER_ADDR"), int(from_environment("MASTER_PORT"))
    libuv = query.get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"
    yield store_at(parsed, host, port, rank, world_size, timeout or DEFAULT_TIMEOUT, libuv), rank, world_size


# scheme of an address -> function (url) that gives (store, rank, world size) triples
HANDLERS = {"env": met, "file": met, "tcp": met}


def store_at(parsed, host, port, rank, world_size, timeout, libuv):
    """Return the store of an address.  A launcher that keeps a store there sets TORCHELASTIC_USE_AGENT_STORE."""
    if parsed.scheme == "file":
        store = FileStore(system.path_of(parsed.path), world_size)
        store.set_timeout(timeout)
        return store
    kept = parsed.scheme == "env" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(host, port, world_size, rank == 0 and not kept, timeout, multi_tenant=True,
                     wait_for_workers=not kept, use_libuv=libuv)
    if kept:
        attempt = os.environ.get("TORCHELASTIC_ROUND") or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(f"/worker/attempt_{attempt}", store)
    return store


def register_rendezvous_handler(scheme: str, handler):
    """Registers ``handler`` for addresses of a scheme.  RuntimeError if the scheme has one."""
    if scheme in HANDLERS:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    HANDLERS[scheme] = handler


def checked_timeout(timeout):
    if timeout is not None and not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None, _ranks=None):
    """Makes this process a member of the default group: by ``store``, by an address (``file://``, ``tcp://host:port``),
    or by the environment.

    ``backend``: "gloo", "nccl" (GPUs), "mpi", or one for each kind of device ("cpu:gloo,cuda:nccl"); ``timeout``: the
      time limit of collectives (a timedelta); ``device_id``: this process's GPU, for which all ranks then make their
      communicator at once.
    Returns once all ``world_size`` processes are here.  ValueError if there is a group already or the environment is
    incomplete, DistStoreError or DistNetworkError if the others do not come.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> dist.all_reduce(x)
    >>> x, dist.get_world_size()
    (tensor([1., 1.]), 1)
    >>> dist.destroy_process_group()
    """
    world = here()
    if world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    assert store is None or init_method is None, "Cannot specify both init_method and store."
    timeout = checked_timeout(timeout) or DEFAULT_TIMEOUT
    owned = None
    if store is not None:
        assert world_size > 0, "world_size must be positive if using store"
        assert rank >= 0, "rank must be non-negative if using store"
    elif str(backend).lower() == "mpi":
        from .mpi import joined
        store, rank, world_size = joined()
    else:
        store, rank, world_size = next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=timeout)))
        owned = store
    try:
        name = backend_of(backend)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of a world of size {world_size}: ranks count from 0")
        world.default = enter(name, backend, store, rank, range(world_size), group_name or "0", "default_pg", timeout,
                              pg_options)
        if device_id is not None:
            world.default.bind(device_id)
    except BaseException:
        if world.default is not None:
            world.leave(world.default)
            world.default = None
        shut(owned)
        raise
    world.owned = owned
    if settings.flight_buffer and world_size > 1 and world is PROCESS:
        from .watchdog import Watchdog
        world.watchdog = Watchdog(world, world.default.base_store)


def shut(store):
    """Closes a store that ``init_process_group`` has opened."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if hasattr(store, "close"):
        store.close()


def enter(name, text, store: Store, rank: int, ranks, group_name: str, desc: str, timeout, options=None
          ) -> ProcessGroup:
    """A group more."""
    world = here()
    world.count += 1
    made = ProcessGroup(name, PrefixStore(group_name, store), rank, len(ranks), group_name, desc, ranks, timeout,
                        maker(name), text or ",".join(f"{kind}:{of}" for kind, of in by_device(text).items()), options)
    made.base_store = store
    world.add(made)
    return made


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
              device_id=None, sort_ranks=True):
    """Makes a group of some ranks of the world (None: of all).  All processes of the world call this, in the same
    order; with ``use_local_synchronization`` the members alone.

    Returns ``GroupMember.NON_GROUP_MEMBER`` in other processes.  ValueError for invalid ranks, RuntimeError for
    one that is given twice.
    """
    world, whole = here(), chosen()
    size = whole.size()
    ranks = list(range(size)) if ranks is None else sorted(ranks) if sort_ranks else list(ranks)
    if len(ranks) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group")
    if any(not 0 <= rank < size for rank in ranks):
        raise ValueError("the new group's rank should be within the world_size set by init_process_group")
    if len(set(ranks)) != len(ranks):
        raise ValueError("the new group's rank list should not contain duplicate values")
    mine = whole.rank()
    if use_local_synchronization:
        name = f"{'_'.join(map(str, ranks))}:{world.names_given.setdefault(tuple(ranks), 0)}"
        world.names_given[tuple(ranks)] += 1
    else:
        name = str(world.count)
    engine = None if use_local_synchronization else splitting(whole, backend)
    if mine not in ranks:
        world.count += not use_local_synchronization
        if engine is not None:
            engine.split(None, 0, None, 0, 0.0)
        return GroupMember.NON_GROUP_MEMBER
    kind = backend_of(backend) if backend else whole._backend
    timeout = checked_timeout(timeout) or whole.timeout
    made = enter(kind, backend or whole.backend_text, whole.base_store, ranks.index(mine), ranks, name,
                 group_desc or "undefined", timeout, pg_options)
    world.count -= use_local_synchronization
    made.bound_device_id = whole.bound_device_id
    if engine is not None:
        made.split_from(engine, 0)
    elif device_id is not None:
        made.bind(device_id)
    return made


def splitting(whole: ProcessGroup, backend=None):
    """The engine of a group's own device from which all ranks together split those of smaller groups; None where each
    group makes its own."""
    if whole.bound_device_id is None or backend and by_device(backend) != whole.devices:
        return None
    engine = whole.boards.get(whole.bound_device_id)
    return engine if engine is not None and engine.splits else None


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups) where each has ``group_size`` consecutive ranks of ``group`` (default:
    all).  ValueError if that does not divide its size."""
    ranks = get_process_group_ranks(group)
    size = len(ranks)
    group_size = size if group_size is None else group_size
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    lists = [ranks[first:first + group_size] for first in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Returns (the group of this process, all groups), one for each list of ranks.  ValueError if a rank is in two of
    them."""
    if ranks_per_subgroup_list is None or len(ranks_per_subgroup_list) == 0:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    every = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(every)) != len(every):
        raise ValueError("A rank cannot be in more than one subgroup")
    made = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    return next((g for g in made if isinstance(g, ProcessGroup)), None), made


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
    """Splits a group by lists of its ranks; returns the group of this process, or None if it is in no list.  ValueError
    for no lists."""
    whole = chosen(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    mine = None
    for ranks in split_ranks:
        if len(ranks) > whole.size() or len(set(ranks)) != len(ranks) or any(not 0 <= rank < whole.size()
                                                                             for rank in ranks):
            raise ValueError(f"invalid split_ranks {ranks} of a group of size {whole.size()}")
    world, engine = here(), splitting(whole)
    world.count += 1
    for number, ranks in enumerate(split_ranks):
        ranks = sorted(ranks)
        if whole.rank() in ranks:
            name = f"{whole.group_name}:split:{world.count}:{number}"
            mine = enter(whole._backend, whole.backend_text, whole._store, ranks.index(whole.rank()),
                         [whole.ranks[r] for r in ranks], name,
                         group_desc or f"{whole.group_desc}:split", timeout or whole.timeout, pg_options)
            world.count -= 1
            mine.bound_device_id = whole.bound_device_id
            if engine is not None:
                mine.split_from(engine, number)
    if mine is None and engine is not None:
        engine.split(None, 0, None, 0, 0.0)
    return mine


def destroy_process_group(group=None):
    """Leaves a group; without one, all of them.  ValueError for one that has been left already."""
    world = here()
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    assert group is not None or world.default is not None, "Process group cannot be None"
    if group is not None and group not in world.groups:
        raise ValueError("Invalid process group specified")
    if group is None or group is world.default:
        for each in reversed(world.groups):
            each.shutdown()
        world.end()
        shut(world.owned)
        world.__init__()
    else:
        group.shutdown()
        world.leave(group)


def _abort_process_group(group=None):
    """Leaves all groups (or one) at once; running operations fail."""
    world = here()
    for each in list(world.groups) if group in (None, world.default) else [group]:
        each.abort()
        world.leave(each)
    if group in (None, world.default):
        world.end()
        shut(world.owned)
        world.__init__()


def is_initialized() -> bool:
    return here().default is not None


def get_rank(group=None) -> int:
    """This process's rank in a group; -1 for a group to which it does not belong.  ValueError before
    ``init_process_group``."""
    found = chosen(group)
    return -1 if found is None else found.rank()


def get_world_size(group=None) -> int:
    """Returns the size of a group; -1 for one to which this process does not belong.  ValueError before
    ``init_process_group``."""
    found = chosen(group)
    return -1 if found is None else found.size()


def get_backend(group=None) -> Backend:
    """The backend of a group, for tensors of the CPU.  ValueError for a group to which this process does not belong."""
    found = chosen(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return Backend(found._backend)


def get_backend_config(group=None) -> str:
    return ",".join(f"{device}:{name}" for device, name in chosen(group).devices.items())


def get_default_backend_for_device(device) -> str:
    """The backend that carries tensors of a device: "gloo", "nccl".  ValueError for devices that none carries."""
    kind = str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def device_for(group=None):
    """Return the device of tensors that a group sends for itself: its GPU if it has one, else the CPU."""
    found = chosen(group)
    return device(HOST) if found is None or found.on_host else found.own_device()


def get_process_group_ranks(group=None) -> list:
    """The ranks, in the world, of a group's processes."""
    found = chosen(group)
    return [] if found is None else list(found.ranks)


def get_global_rank(group, group_rank: int) -> int:
    """Returns the rank in the world of a rank in a group.  ValueError if there is none."""
    found = chosen(group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return found.ranks[group_rank]


def get_group_rank(group, global_rank: int) -> int:
    """Returns the rank in a group of a rank in the world.  ValueError if there is none."""
    found = chosen(group)
    if found is None or global_rank not in found.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found.ranks.index(global_rank)


def get_pg_count() -> int:
    return len(here().groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Returns the environment's LOCAL_RANK, else ``fallback_rank``.  RuntimeError if neither is given."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to "
            "work, assuming you are not running in a multi-device context.")
    return int(fallback_rank)


def _set_pg_timeout(timeout: datetime.timedelta, group=None):
    """Set the time limit of a group's future collectives."""
    found = chosen(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    found.set_timeout(checked_timeout(timeout))


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """Return the group of a name.  ValueError if there is none."""
    found = here().names.get(group_name)
    if found is None:
        raise ValueError(f"there is no group {group_name!r}")
    return found
