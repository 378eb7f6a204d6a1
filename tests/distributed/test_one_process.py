"""A group of one process: what collectives give and raise is what PyTorch's give and raise."""
import datetime
import os
import socket

import pytest
import torch
import torch.distributed  # noqa: F401
import torch.distributed as theirs

import rushlight
import rushlight.distributed as ours

LIBRARIES = (torch, theirs), (rushlight, ours)
T, PATIENCE = datetime.timedelta(seconds=0.05), datetime.timedelta(minutes=10)


@pytest.fixture
def groups():
    for _, dist in LIBRARIES:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    for _, dist in LIBRARIES:
        if dist.is_initialized():
            dist.destroy_process_group()


def outcome(program, t, dist):
    """The result as plain data, or the type of the error."""
    try:
        value = program(t, dist, t.arange(4.0))
    except Exception as error:  # noqa: BLE001 - the type is what is compared
        return type(error).__name__
    return [v.tolist() if hasattr(v, "tolist") else str(v) if not isinstance(v, (int, list, dict, type(None))) else v
            for v in (value if isinstance(value, list) else [value])]


def filled(call):
    """A program that gives what ``call`` writes into a tensor of zeros."""
    def program(t, d, x):
        out = t.zeros(4)
        call(d, out, x)
        return out
    return program


PROGRAMS = {
    "sizes": lambda t, d, x: [d.get_rank(), d.get_world_size(), d.get_backend(),
                              d.get_process_group_ranks(d.group.WORLD), d.get_global_rank(d.group.WORLD, 0)],
    "all_reduce": lambda t, d, x: [d.all_reduce(x), x],
    "average": lambda t, d, x: [d.all_reduce(x, op=d.ReduceOp.AVG), x],
    "bits of floats": lambda t, d, x: d.all_reduce(x, op=d.ReduceOp.BAND),
    "bits": lambda t, d, x: [d.all_reduce(y := x.long(), op=d.ReduceOp.BOR), y],
    "no tensor": lambda t, d, x: d.all_reduce(3),
    "waits": lambda t, d, x: d.all_reduce(x, async_op=True).wait(),
    "broadcast": lambda t, d, x: [d.broadcast(x, 0), d.broadcast(x, group_src=0), x],
    "broadcast from 3": lambda t, d, x: d.broadcast(x, 3),
    "reduce": lambda t, d, x: [d.reduce(x, 0), x],
    "all_gather": filled(lambda d, out, x: d.all_gather([out], x)),
    "all_gather of two": lambda t, d, x: d.all_gather([x, x], x),
    "into a tensor": filled(lambda d, out, x: d.all_gather_into_tensor(out, x)),
    "into too few": lambda t, d, x: d.all_gather_into_tensor(t.zeros(3), x),
    "gather": filled(lambda d, out, x: d.gather(x, [out])),
    "gather nowhere": lambda t, d, x: d.gather(x),
    "scatter": filled(lambda d, out, x: d.scatter(out, [x])),
    "scatter nothing": lambda t, d, x: d.scatter(x),
    "reduce_scatter": filled(lambda d, out, x: d.reduce_scatter(out, [x])),
    "reduce_scatter of two": lambda t, d, x: d.reduce_scatter(x, [x, x]),
    "reduce_scatter_tensor": filled(lambda d, out, x: d.reduce_scatter_tensor(out, x)),
    "all_to_all": filled(lambda d, out, x: d.all_to_all([out], [x])),
    "all_to_all_single": filled(lambda d, out, x: d.all_to_all_single(out, x)),
    "barriers": lambda t, d, x: [d.barrier(), d.monitored_barrier()],
    "objects": lambda t, d, x: [d.all_gather_object(found := [None], {"a": 1}), found],
    "scattered objects": lambda t, d, x: [d.scatter_object_list(found := [None], [{"a": 1}]), found],
    "to itself": lambda t, d, x: d.send(x, 0),
    "a group": lambda t, d, x: [d.get_world_size(g := d.new_group([0])), d.all_reduce(x, group=g), x],
    "a group of two": lambda t, d, x: d.new_group([0, 1]),
    "another world": lambda t, d, x: d.init_process_group("gloo"),
    "not a member": lambda t, d, x: d.get_rank(d.GroupMember.NON_GROUP_MEMBER),
    "afterwards": lambda t, d, x: [d.destroy_process_group(), d.is_initialized()],
    "none to ask": lambda t, d, x: [d.destroy_process_group(), d.all_reduce(x)],
    "left twice": lambda t, d, x: [d.destroy_process_group(), d.destroy_process_group()],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_pytorch(name, groups):
    expected, found = [outcome(PROGRAMS[name], *library) for library in LIBRARIES]
    assert found == expected


STORE = {
    "values": lambda s: [s.set("a", "b"), s.get("a"), s.add("n", 3), s.add("n", 2), s.get("n"), s.check(["a"]),
                         s.check(["a", "z"]), s.delete_key("a"), s.check(["a"])],
    "compare": lambda s: [s.compare_set("q", "", "x"), s.compare_set("q", "y", "z"), s.compare_set("q", "x", "z")],
    "timeout": lambda s: [s.set_timeout(T), s.get("nothing")],
    "wait": lambda s: s.wait(["nothing"], T),
}


@pytest.mark.parametrize("name", STORE)
@pytest.mark.parametrize("make", [lambda d: d.HashStore(), lambda d: d.PrefixStore("p", d.HashStore())],
                         ids=["memory", "prefix"])
def test_stores(name, make):
    def run(dist):
        try:
            return STORE[name](make(dist))
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
    assert run(ours) == run(theirs)


def written(dist):
    """A store that a program writes itself."""
    class Written(dist.Store):
        def __init__(self):
            super().__init__()
            self.found = {}

        def set(self, key, value):
            self.found[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            return self.found[key]

        def add(self, key, amount):
            self.found[key] = str(int(self.found.get(key, b"0")) + amount).encode()
            return int(self.found[key])

        def wait(self, keys, timeout=None):
            assert all(key in self.found for key in keys)

        def check(self, keys):
            return all(key in self.found for key in keys)

        def delete_key(self, key):
            return self.found.pop(key, None) is not None

    return Written()


def test_stores_that_a_program_writes_serve_under_prefixes():
    def run(dist):
        inside = written(dist)
        store = dist.PrefixStore("a", dist.PrefixStore("b", inside))
        return [store.set("x", "1"), store.get("x"), store.add("n", 2), store.add("n", 3), sorted(inside.found),
                store.has_extended_api(), store.wait(["n"])]
    assert run(ours) == run(theirs)


def test_a_prefix_is_of_a_store():
    for _, dist in LIBRARIES:
        with pytest.raises((TypeError, ValueError)):
            dist.PrefixStore("p", None)
    with pytest.raises(NotImplementedError, match="compare_set"):
        ours.PrefixStore("p", written(ours)).append("x", "1")


def test_a_group_over_a_store_that_a_program_writes():
    for _, dist in LIBRARIES:
        dist.init_process_group("gloo", store=written(dist), rank=0, world_size=1)
        dist.barrier()
        dist.destroy_process_group()


def test_clients_of_one_server_come_one_after_another():
    """The process that keeps the keys waits for all; a client waits for nobody."""
    for _, dist in LIBRARIES:
        server = dist.TCPStore("127.0.0.1", 0, 3, True, timeout=PATIENCE, wait_for_workers=False)
        clients = [dist.TCPStore("127.0.0.1", server.port, 3, False, timeout=PATIENCE) for _ in range(2)]
        clients[0].set("x", "1")
        assert clients[1].get("x") == b"1"
    with pytest.raises(ours.DistStoreError, match="1/3 clients"):
        ours.TCPStore("127.0.0.1", 0, 3, True, timeout=T)


def test_a_server_at_a_socket_that_is_given():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = ours.TCPStore("127.0.0.1", bound.getsockname()[1], 1, True, master_listen_fd=os.dup(bound.fileno()))
        server.set("x", "1")
        assert server.get("x") == b"1" and server.port == bound.getsockname()[1]


@pytest.mark.parametrize("how", ["env://", "tcp://localhost:0", "file"])
def test_addresses(how, tmp_path, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    given = {} if how == "env://" else {"rank": 0, "world_size": 1}
    ours.init_process_group("gloo", init_method=f"file://{tmp_path}/store" if how == "file" else how, **given)
    try:
        ours.group.WORLD.get_group_store().set("key", "value")
        assert ours.is_initialized() and ours.group.WORLD.get_group_store().get("key") == b"value"
    finally:
        ours.destroy_process_group()


@pytest.mark.parametrize("options", [{"init_method": "env://"},
                                     {"init_method": "nothing://x", "rank": 0, "world_size": 1},
                                     {"backend": "nccl", "init_method": "tcp://localhost:0", "rank": 0,
                                      "world_size": 1},
                                     {"backend": "nonsense", "init_method": "tcp://localhost:0", "rank": 0,
                                      "world_size": 1},
                                     {"init_method": "tcp://localhost:1"}])
def test_refusals(options, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    raised = []
    for _, dist in LIBRARIES:
        with pytest.raises(Exception) as error:
            dist.init_process_group(**options)
        raised.append(error.type)
    assert raised[0] is raised[1]


def test_others_that_do_not_come():
    with pytest.raises(ours.DistStoreError, match="wait timeout"):
        store = ours.HashStore()
        store.set_timeout(datetime.timedelta(milliseconds=50))
        ours.init_process_group("gloo", store=store, rank=0, world_size=2, timeout=datetime.timedelta(milliseconds=50))
    assert not ours.is_initialized() and os.environ.get("RANK") is None


def test_levels_of_what_is_told(monkeypatch):
    """By the environment, in any case, or as it is set."""
    for t, dist in LIBRARIES:
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
        dist.set_debug_level_from_env()
        assert dist.get_debug_level().name == "DETAIL" and dist.get_debug_level() == dist.DebugLevel.DETAIL
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
        with pytest.raises(ValueError, match="TORCH_DISTRIBUTED_DEBUG"):
            dist.set_debug_level_from_env()
        dist.set_debug_level(dist.DebugLevel.INFO)
        assert dist.get_debug_level().name == "INFO"
        with pytest.raises(TypeError):
            dist.set_debug_level(1)
        dist.set_debug_level(dist.DebugLevel.OFF)
