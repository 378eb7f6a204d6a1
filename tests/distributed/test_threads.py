"""Groups of several members, each a thread with a world of its own: what collectives and messages do."""
import datetime
import functools
import operator
import threading

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.kernels import TYPES

SECOND = datetime.timedelta(seconds=1)
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHAPES = {"one": (1,), "odd": (37,), "rows": (3, 1000), "larger than a slot": (300_000,), "nothing": (0,)}


def given(rank, shape, dtype):
    """The tensor of a rank: small numbers, exact in all dtypes."""
    numel = torch.Size(shape).numel()
    return ((torch.arange(numel) * 7 + rank * 3) % 5).reshape(shape).to(dtype)


OPS = {"SUM": sum, "PRODUCT": lambda xs: functools.reduce(operator.mul, xs),
       "MIN": lambda xs: functools.reduce(torch.minimum, xs), "MAX": lambda xs: functools.reduce(torch.maximum, xs),
       "BAND": lambda xs: functools.reduce(operator.and_, xs), "BOR": lambda xs: functools.reduce(operator.or_, xs),
       "BXOR": lambda xs: functools.reduce(operator.xor, xs)}


def test_random_streams_are_of_each_member():
    """As processes have: seeds and draws of one do not move another, nor the caller."""
    torch.manual_seed(11)
    expected = [torch.randn(3).tolist() for _ in range(4)]
    torch.manual_seed(11)
    place = torch.get_rng_state()

    def member(rank):
        found = []
        for k in range(200):
            if k % 2:
                torch.manual_seed(11)
            elif k:
                torch.set_rng_state(place)
            found.append([torch.randn(3).tolist() for _ in range(1 + rank)])
        return found
    for rank, found in enumerate(threads.run(3, member)):
        assert found == [expected[:rank + 1]] * 200
    assert torch.randn(3).tolist() == expected[0]


@pytest.mark.parametrize("size", [2, 3])
def test_reductions_of_all_dtypes(size):
    def member(rank):
        for name in TYPES:
            for op in OPS:
                if name == "bool" or op.startswith("B") and name in FLOATS or name.startswith(
                        "uint") and name != "uint8":
                    continue
                dtype = getattr(torch, name)
                x = given(rank, (37,), dtype)
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                assert torch.equal(x, OPS[op]([given(r, (37,), dtype) for r in range(size)]).to(dtype)), (name, op)
        truth = torch.tensor([rank == 0, True, False])
        dist.all_reduce(truth)
        return truth.tolist()
    assert threads.run(size, member) == [[True, True, False]] * size


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("size", [2, 3])
def test_collectives(size, shape):
    def member(rank):
        make = functools.partial(given, shape=shape, dtype=torch.float32)
        everyone, total = [make(r) for r in range(size)], sum(make(r) for r in range(size))
        x = make(rank)
        dist.all_reduce(x)
        average = make(rank)
        dist.all_reduce(average, dist.ReduceOp.AVG)
        sent = make(rank)
        dist.broadcast(sent, 1)
        reduced = make(rank)
        dist.reduce(reduced, 1)
        found = [torch.empty(shape) for _ in range(size)]
        dist.all_gather(found, make(rank))
        whole = torch.empty(size, *shape)
        dist.all_gather_into_tensor(whole, make(rank))
        collected = [torch.empty(shape) for _ in range(size)] if rank == 1 else None
        dist.gather(make(rank), collected, 1)
        part = torch.empty(shape)
        dist.scatter(part, [make(r + 1) for r in range(size)] if rank == 0 else None, 0)
        share = torch.empty(shape)
        dist.reduce_scatter(share, [make(rank + k) for k in range(size)])
        share_of_whole = torch.empty(shape)
        dist.reduce_scatter_tensor(share_of_whole, torch.stack([make(rank + k) for k in range(size)]))
        exchanged = [torch.empty(shape) for _ in range(size)]
        dist.all_to_all(exchanged, [make(rank * size + k) for k in range(size)])
        expected_share = sum(make(r + rank) for r in range(size))
        pairs = [(x, total), (sent, everyone[1]), (reduced, total if rank == 1 else everyone[rank]),
                 (whole, torch.stack(everyone)), (part, make(rank + 1)),
                 (share, expected_share), (share_of_whole, expected_share), (torch.stack(found), whole),
                 (torch.stack(exchanged), torch.stack([make(r * size + rank) for r in range(size)]))]
        assert all(torch.equal(a, b) for a, b in pairs) and torch.allclose(average, total / size)
        assert collected is None or torch.equal(torch.stack(collected), whole)
    threads.run(size, member)


def test_splits_strides_and_whole_numbers():
    def member(rank):
        output, splits = torch.empty(3 if rank == 0 else 6, 2, dtype=torch.int64), [1, 2] if rank == 0 else [2, 4]
        dist.all_to_all_single(output, torch.arange(6).reshape(3, 2) + 100 * rank if rank == 0
                               else torch.arange(12).reshape(6, 2) + 100, [1, 2] if rank == 0 else [2, 4], splits)
        turned = torch.arange(6.0).reshape(2, 3).t()
        dist.all_reduce(turned)
        every_other = torch.ones(3, 4)
        dist.all_reduce(every_other[:, ::2])
        complex_sum = torch.tensor([1 + 1j * rank])
        dist.all_reduce(complex_sum)
        return output[:, 0].tolist(), turned.tolist(), every_other[0].tolist(), complex_sum.tolist()
    turned, rest = [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]], [2.0, 1.0, 2.0, 1.0]
    assert threads.run(2, member) == [([0, 100, 102], turned, rest, [2 + 1j]),
                                      ([2, 4, 104, 106, 108, 110], turned, rest, [2 + 1j])]


@pytest.mark.parametrize("reads", [True, False])
def test_all_to_all_of_uneven_sizes(reads):
    """What is too large for a slot is read where it lies, or goes in steps where the system does not allow it."""
    sizes = [[0, 3, 300_000], [70_000, 5, 1], [4096, 0, 600_000]]

    def member(rank):
        engine = dist.group.WORLD.engine
        if not reads:
            engine.direct = None
        given = [torch.arange(count) + 10 * rank + k for k, count in enumerate(sizes[rank])]
        found = [torch.empty(sizes[r][rank], dtype=torch.int64) for r in range(3)]
        dist.all_to_all(found, given)
        assert all(torch.equal(x, torch.arange(sizes[r][rank]) + 10 * r + rank) for r, x in enumerate(found))
    threads.run(3, member)


@pytest.mark.parametrize("numel", [3, 5000])
def test_more_ranks_than_a_kernel_reads(numel):
    def member(rank):
        x = torch.full((numel,), rank + 1.0)
        dist.all_reduce(x)
        return x.unique().tolist()
    assert threads.run(10, member) == [[55.0]] * 10


def test_messages():
    def member(rank):
        large, small, found = torch.full((300_000,), rank + 1.0), torch.tensor([float(rank)]), []
        works = [dist.isend(large, 1 - rank, tag=1), dist.isend(small, 1 - rank, tag=2)]
        a, b = torch.empty(1), torch.empty(300_000)
        # in the other order, and from anyone
        assert dist.recv(a, 1 - rank, tag=2) == 1 - rank and dist.recv(b, tag=1) == 1 - rank
        for work in works:
            work.wait()
        p, q = torch.empty(2), torch.full((2,), rank + 5.0)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, q, 1 - rank), dist.P2POp(dist.irecv, p, 1 - rank)]):
            work.wait()
        objects = [None, None]
        if rank:
            dist.send_object_list([{"a": 1}, "text"], 0)
        else:
            found.append(dist.recv_object_list(objects))
        return a.item(), b[-1].item(), p.tolist(), objects, found
    assert threads.run(2, member) == [(1.0, 2.0, [6.0, 6.0], [{"a": 1}, "text"], [1]),
                                      (0.0, 1.0, [5.0, 5.0], [None, None], [])]


def test_objects_and_groups():
    def member(rank):
        every, some, one = [None] * 3, [None] * 3 if rank == 2 else None, [None]
        dist.all_gather_object(every, {"rank": rank})
        dist.gather_object("x" * rank, some, dst=2)
        dist.scatter_object_list(one, [10, 20, 30] if rank == 1 else None, src=1)
        told = ["a", 1] if rank == 0 else [None, None]
        dist.broadcast_object_list(told, src=0)
        pair = dist.new_group([2, 0])
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x, group=pair)
        mine, all_of_them = dist.new_subgroups(1)
        with dist._coalescing_manager():
            y, z = torch.ones(2), torch.ones(3)
            dist.all_reduce(y)
            dist.all_reduce(z)
        return every[2], some, one[0], told, x.item(), dist.get_rank(pair), dist.get_process_group_ranks(mine), len(
            all_of_them), y.tolist()
    found = threads.run(3, member)
    assert [f[1] for f in found] == [None, None, ["", "x", "xx"]] and [f[2] for f in found] == [10, 20, 30] and [
        f[4] for f in found] == [4.0, 2.0, 4.0]
    assert [f[5] for f in found] == [0, -1, 1] and all(f[0] == {"rank": 2} and f[3] == ["a", 1] and f[7] == 3
                                                       and f[8] == [3.0, 3.0] for f in found)
    assert [f[6] for f in found] == [[0], [1], [2]]


def test_works():
    def member(rank):
        x, y = torch.ones(3), torch.ones(2)
        first, second = dist.all_reduce(x, async_op=True), dist.all_reduce(y, async_op=True)
        doubled = second.get_future().then(lambda future: future.value()[0] * 2).wait()
        return first.wait(), first.is_completed(), first.is_success(), x.tolist(), doubled.tolist(), second.result()[
            0] is y
    assert threads.run(2, member) == [(True, True, True, [2.0] * 3, [4.0] * 2, True)] * 2


MISTAKES = {
    "sizes": lambda rank: dist.all_reduce(torch.ones(2 + rank)),
    "dtypes": lambda rank: dist.all_reduce(torch.ones(4, dtype=torch.float32 if rank else torch.int32)),
    "collectives": lambda rank: dist.barrier() if rank else dist.all_reduce(torch.ones(1)),
    "roots": lambda rank: dist.broadcast(torch.ones(2), rank),
    "splits": lambda rank: dist.all_to_all([torch.ones(2), torch.ones(3)], [torch.ones(1), torch.ones(2)]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_ranks_that_do_not_do_the_same_are_told(name):
    with pytest.raises(RuntimeError, match="do not do the same|rank . of the group"):
        threads.run(2, MISTAKES[name])


def test_who_does_not_come_is_named():
    def late(rank):
        if rank == 0:
            dist.all_reduce(torch.ones(2))

    def monitored(rank):
        dist.barrier()
        if rank != 1:
            dist.monitored_barrier(timeout=60 * SECOND)  # not waited for: that rank 1 has left is noticed
    with pytest.raises(RuntimeError, match="rank 1 of the group has left it"):
        threads.run(2, late)
    with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 60000 ms|rank 0"):
        threads.run(3, monitored)


def test_timeouts():
    seen = threading.Event()

    def member(rank):
        dist.distributed_c10d._set_pg_timeout(SECOND / 5)
        if rank == 0:
            with pytest.raises(RuntimeError, match="Timed out waiting 200ms"):
                dist.recv(torch.empty(1), 1)
            with pytest.raises(RuntimeError, match="Timed out waiting 200ms"):
                dist.all_reduce(torch.ones(1))
            seen.set()
        else:
            seen.wait(60)
    threads.run(2, member)


def test_no_thread_stays_behind():
    def member(rank):
        dist.all_reduce(torch.ones(1), async_op=True).wait()
        dist.irecv(torch.empty(1), 1 - rank)
    before = set(threading.enumerate())  # of which some may end meanwhile
    threads.run(2, member)
    assert not set(threading.enumerate()) - before


def test_a_test_in_every_rank():
    from rushlight.testing._internal.common_distributed import spawn_threads_and_init_comms

    class Case:
        @spawn_threads_and_init_comms(world_size=3)
        def test(self, found):
            x = torch.ones(1)
            dist.all_reduce(x)
            found.append((dist.get_rank(), x.item()))

        @spawn_threads_and_init_comms
        def fails(self):
            if dist.get_rank() == 2:
                raise KeyError("rank 2")
            dist.barrier()
    found = []
    Case().test(found)
    assert sorted(found) == [(0, 3.0), (1, 3.0), (2, 3.0)]
    with pytest.raises((KeyError, RuntimeError)):
        Case().fails()


def test_options_of_a_groups_methods():
    """By the names that PyTorch's own modules take them from."""
    from rushlight._C import _distributed_c10d as inner

    def member(rank):
        group, x = dist.distributed_c10d._get_default_group(), torch.full((2,), rank + 1.0)
        gathered, options = [torch.zeros(2), torch.zeros(2)], inner.AllgatherOptions()
        group.allgather([gathered], [x], options).wait()
        greatest, how = x.clone(), dist.AllreduceOptions()
        how.reduceOp = dist.ReduceOp.MAX
        group.allreduce([greatest], how).wait()
        return options.timeout, [t.tolist() for t in gathered], greatest.tolist()
    assert threads.run(2, member) == [(None, [[1.0, 1.0], [2.0, 2.0]], [2.0, 2.0])] * 2


def test_messages_say_what_they_are():
    """By ranks of the group, as PyTorch's do."""
    def member(rank):
        group = dist.new_group([0, 2], group_desc="ends")
        return None if rank == 1 else [
            repr(dist.P2POp(op, torch.ones(2), 2 - rank, group)) for op in (dist.isend, dist.irecv)]
    first, _, last = threads.run(3, member)
    name, about = first[0].split("pg=")[1].split(",")[0], "torch.Size([2]), torch.float32)"
    assert first == [f"P2POp(isend pg={name}, group_src=0, group_dst=1,  {about}",
                     f"P2POp(irecv pg={name}, group_src=1, group_dst=0,  {about}"]
    assert last == [f"P2POp(isend pg={name}, group_src=1, group_dst=0,  {about}",
                    f"P2POp(irecv pg={name}, group_src=0, group_dst=1,  {about}"]


def test_a_group_is_split_by_itself():
    def member(rank):
        part = dist.group.WORLD.split_group([0, 2], group_name="ends", group_desc="first and last")
        if rank == 1:
            return part
        x = torch.full((2,), rank + 1.0)
        part.allreduce([x]).wait()
        assert dist._resolve_process_group("ends") is part
        return part.size(), part.rank(), part.group_name, part.group_desc, x.tolist()
    assert threads.run(3, member) == [(2, 0, "ends", "first and last", [4, 4]), None,
                                      (2, 1, "ends", "first and last", [4, 4])]


def test_a_limit_that_is_no_time():
    def member(rank):
        with pytest.raises(TypeError, match="timedelta"):
            dist.monitored_barrier(timeout=3)
    threads.run(1, member)


@pytest.mark.parametrize("bucket, buffers", [(1, True), (1 << 20, True), (1 << 20, False)])
def test_states_of_modules_are_those_of_one_member(bucket, buffers):
    from rushlight.distributed.utils import _sync_module_states

    def member(rank):
        module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        for state in module.state_dict().values():
            state.fill_(rank)
        _sync_module_states(module, dist.group.WORLD, bucket, 1, {"0.bias"}, buffers)
        held = 1 if buffers else rank
        expected = {"0.bias": rank, "1.running_mean": held, "1.num_batches_tracked": held}
        for name, state in module.state_dict().items():
            if name in ("0.weight", "1.weight", *expected):
                assert state.flatten()[0].item() == expected.get(name, 1), name
        assert all(p.requires_grad for p in module.parameters())

    threads.run(3, member)
