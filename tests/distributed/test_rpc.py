"""Calls of functions in other workers, references, and gradients across them: workers are threads with worlds of their
own, and twice processes."""
import threading

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import multiprocessing
from rushlight.distributed import autograd as dist_autograd
from rushlight.distributed import rpc, threads
from rushlight.distributed.remote_optimizer import DistributedOptimizer

from ..waiting import wait_for

GIVEN_UP = threading.Event()


def working(rank, path, size, then):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}/rpc")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    try:
        found = then(rank)
    except BaseException:
        rpc.shutdown(graceful=False)
        raise
    rpc.shutdown()
    return found


def workers(tmp_path, size, then):
    return threads.run(size, working, tmp_path, size, then)


def add(a, b=1):
    return a + b


def fails(text):
    raise KeyError(text)


def held():
    """Returns only once the caller, which is a thread of this process, has given up."""
    return GIVEN_UP.wait(60)


def who():
    return rpc.get_worker_info().name


class Counter:
    def __init__(self, start):
        self.value = start

    def more(self, by=1):
        self.value += by
        return self.value


def test_calls(tmp_path):
    def member(rank):
        if rank:
            return None
        x = torch.arange(6.0).reshape(2, 3)
        assert torch.equal(rpc.rpc_sync("worker1", add, (x.t(),), {"b": x.t()}), 2 * x.t())
        futures = [rpc.rpc_async(1, add, (k, 10)) for k in range(20)]
        assert torch.futures.wait_all(futures) == list(range(10, 30))
        assert rpc.rpc_sync("worker1", who) == "worker1" and rpc.rpc_sync("worker0", who) == "worker0"
        assert rpc.get_worker_info("worker1").id == 1 and repr(
            rpc.get_worker_info()) == "WorkerInfo(id=0, name=worker0)"
        assert torch.equal(rpc.rpc_sync("worker1", torch.add, (x, 1)), x + 1)
        return True
    assert workers(tmp_path, 2, member) == [True, None]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rpc")]


def test_what_goes_wrong(tmp_path):
    def member(rank):
        if rank:
            return
        with pytest.raises(KeyError, match="(?s)On WorkerInfo.id=1, name=worker1.*here it is.*in fails"):
            rpc.rpc_sync("worker1", fails, ("here it is",))
        GIVEN_UP.clear()
        with pytest.raises(RuntimeError, match=r"RPC ran for more than set timeout \(100 ms\)"):
            rpc.rpc_sync("worker1", held, timeout=0.1)
        GIVEN_UP.set()
        with pytest.raises(RuntimeError, match="there is no worker 'worker7'"):
            rpc.rpc_sync("worker7", add, (1,))
        with pytest.raises(TypeError, match="callable"):
            rpc.rpc_sync("worker1", 3)
        with pytest.raises(RuntimeError, match="already initialized"):
            rpc.init_rpc("again")
        with pytest.raises(KeyError, match="later"):
            rpc.remote("worker1", fails, ("later",)).to_here()
        assert rpc.rpc_sync("worker1", add, (1,)) == 2
    workers(tmp_path, 2, member)
    with pytest.raises(RuntimeError, match="init_rpc"):
        rpc.rpc_sync("worker1", add, (1,))


@rpc.functions.async_execution
def through(to, x):
    return rpc.rpc_async(to, add, (x, 1)).then(lambda future: future.wait() * 10)


def kept_by(reference):
    return reference.to_here().value, reference.is_owner()


def test_references(tmp_path):
    def member(rank):
        if rank:
            return
        counter = rpc.remote("worker1", Counter, (5,))
        assert counter.rpc_sync().more() == 6 and counter.rpc_async().more(by=4).wait() == 10
        assert counter.remote().more().to_here() == 11 and counter.to_here().value == 11
        assert counter.owner_name() == "worker1" and not counter.is_owner() and counter.confirmed_by_owner()
        assert counter._get_type() is Counter
        with pytest.raises(RuntimeError, match="can't call localValue"):
            counter.local_value()
        assert rpc.rpc_sync("worker1", kept_by, (counter,)) == (11, True)
        assert rpc.rpc_sync("worker2", kept_by, (counter,)) == (11, False)
        mine = rpc.RRef(Counter(1))
        assert mine.local_value().value == 1 and rpc.rpc_sync("worker2", kept_by, (mine,)) == (1, False)
        assert rpc.rpc_sync("worker1", through, ("worker2", 4)) == 50
        agent = rpc.current()
        del mine
        wait_for(lambda: not agent.owned)  # references that others had are gone as well
    workers(tmp_path, 3, member)


def linear(weight, x):
    return x @ weight.local_value()


def parameter(*shape):
    return torch.nn.Parameter(torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 10)


def gradient_of(reference, number):
    return dist_autograd.get_gradients(number)[reference.local_value()]


def nested(weight, other, x):
    """Part of the sum comes from a third worker."""
    y = rpc.rpc_sync(other.owner(), linear, (other, x))
    return y * x @ weight.local_value() + y


def test_gradients_and_optimizers(tmp_path):
    def member(rank):
        if rank:
            return
        one, two = rpc.remote("worker1", parameter, (3, 3)), rpc.remote("worker2", parameter, (3, 3))
        x = torch.ones(2, 3, requires_grad=True)
        optimizer = DistributedOptimizer(torch.optim.SGD, [one, two], lr=0.5)
        with dist_autograd.context() as number:
            loss = (rpc.rpc_sync("worker1", nested, (one, two, x * 2)) ** 2).sum() + x.sum()
            dist_autograd.backward(number, [loss])
            found = dist_autograd.get_gradients(number)[x]
            theirs = [rpc.rpc_sync(r.owner(), gradient_of, (r, number)) for r in (one, two)]
            optimizer.step(number)
        a, b, plain = parameter(3, 3), parameter(3, 3), torch.ones(2, 3, requires_grad=True)
        y = plain * 2 @ b
        expected = ((y * (plain * 2) @ a + y) ** 2).sum() + plain.sum()
        expected.backward()
        assert loss.item() == pytest.approx(expected.item()) and x.grad is None
        assert torch.allclose(found, plain.grad)
        assert all(torch.allclose(g, p.grad) for g, p in zip(theirs, (a, b)))
        assert torch.allclose(two.to_here(), b - 0.5 * b.grad)
        with pytest.raises(RuntimeError, match="autograd context"):
            dist_autograd.get_gradients(number)
        assert not rpc.current().contexts
    workers(tmp_path, 3, member)


def process(rank, path):
    def member(rank):
        other = f"worker{1 - rank}"
        assert rpc.rpc_sync(other, who) == other
        held = rpc.remote(other, Counter, (rank,))
        assert held.rpc_sync().more() == rank + 1
    working(rank, path, 2, member)


def test_processes(tmp_path):
    multiprocessing.spawn(process, (tmp_path,), 2)


def test_names():
    from rushlight.distributed.rpc import BackendType, is_available
    assert is_available() and BackendType.TENSORPIPE.name == "TENSORPIPE" and dist.rpc is rpc


def test_a_module_of_another_worker(tmp_path):
    from rushlight.distributed.nn import RemoteModule

    def member(rank):
        if rank:
            return
        module = RemoteModule("worker1/cpu", torch.nn.Linear, args=(3, 2), kwargs={"bias": False})
        assert isinstance(module, torch.nn.Module) and module.get_module_rref().owner_name() == "worker1"
        weight, = [rref.to_here() for rref in module.remote_parameters()]
        x = torch.arange(6.0).reshape(2, 3)
        assert torch.equal(module(x), x @ weight.t()) and torch.equal(module.forward_async(x).wait(), module(x))
        with dist_autograd.context() as context:
            dist_autograd.backward(context, [module(x).sum()])
            DistributedOptimizer(torch.optim.SGD, module.remote_parameters(), lr=1.0).step(context)
        moved, = [rref.to_here() for rref in module.remote_parameters()]
        assert torch.equal(weight - moved, x.sum(0).expand(2, 3))
        found = RemoteModule.init_from_module_rref("rank:1/cpu", module.get_module_rref())
        ranked = RemoteModule("rank:1/cpu", torch.nn.Linear, (3, 2))
        assert (found.on, found.device) == (ranked.on, ranked.device) == (1, "cpu") and torch.equal(found(x), module(x))
        for wrong in ("rank:one/cpu", "rank:/cpu", "worker1/cpu/0", "/cpu"):
            with pytest.raises(ValueError, match="Could not parse remote_device"):
                RemoteModule(wrong, torch.nn.Linear, (3, 2))
        again = rpc.rpc_sync("worker1", passed, (module,))  # as an argument, and back
        assert torch.equal(again(x), module(x))
        with pytest.raises(ValueError, match="Method ``parameters`` not supported"):
            module.parameters()
        with pytest.raises((RuntimeError, AssertionError)):  # there is no such device
            RemoteModule("worker1/cuda:0", torch.nn.Linear, (3, 2))
        with pytest.raises(ValueError, match="subclass of nn.Module"):
            RemoteModule("worker1", Counter, (3,))
        with pytest.raises(TypeError, match="unexpected"):
            RemoteModule("worker1", torch.nn.Linear, (3, 2), {"nothing": 1})
    workers(tmp_path, 2, member)


def passed(module):
    return module
