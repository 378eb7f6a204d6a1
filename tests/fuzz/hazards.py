"""What could break a hot path that counts references by itself: each function does it and checks that nothing came to
harm.

``python -m tests.fuzz.hazards [name ...]`` runs them, in this process: a crash takes it down.
"""
from __future__ import annotations

import contextlib
import gc
import resource
import sys
import threading
import time
import weakref

import rushlight as rl
from rushlight._src.core.native import heap
from rushlight._src.eager import joins

HAZARDS = {}


def hazard(function):
    HAZARDS[function.__name__] = function
    return function


@contextlib.contextmanager
def steady(bytes_=0):
    """Large blocks in use are the same before and after."""
    gc.collect()
    before = heap.live
    yield
    gc.collect()
    after = heap.live
    assert after <= before + bytes_, f"{after - before} bytes more are in use"


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


@hazard
def a_long_chain_is_freed():
    with steady():
        x = rl.ones(4, requires_grad=True)
        y = x
        for _ in range(300_000):
            y = y + 1
        del y


@hazard
def a_long_chain_is_walked():
    x = rl.ones(4, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4


@hazard
def a_wide_graph():
    x = rl.ones(4, requires_grad=True)
    total = x * 0
    for k in range(5000):
        total = total + x * k
    total.sum().backward()
    assert x.grad.tolist() == [float(sum(range(5000)))] * 4


@hazard
def loops_leave_nothing_behind():
    weight = rl.randn(32, 32, requires_grad=True)
    data = rl.randn(16, 32)

    def step():
        loss = rl.nn.functional.gelu(data @ weight).softmax(-1).log().mean()
        loss.backward()
        weight.grad = None
        view = data[2:4].t()
        view.add_(1).sub_(1)
        rl.cat([data, data])[3:].sum().item()

    for _ in range(50):
        step()
    with steady():
        before = resident()
        for _ in range(2000):
            step()
    assert resident() - before < 8 << 20


@hazard
def reference_counts_of_arguments_stay():
    x, y, numbers = rl.ones(3), rl.ones(3, requires_grad=True), [1, 2]
    many = [x, y] * joins.MOST_PLANNED  # these are copied, however often they come
    objects = (x, y, x._rush_storage, x._rush_meta, numbers, rl.float32, None, rl.add, rl.cat)
    calls = [lambda: x + y, lambda: x + 2.5, lambda: x[1:], lambda: x.reshape(3, 1), lambda: x.sum(0),
             lambda: rl.cat([x, y]), lambda: x.add_(1), lambda: x.to(rl.float64),
             lambda: rl.add(x, x, alpha=2), lambda: (x * y).sum().backward(), lambda: x.view(3),
             lambda: rl.stack([x, x], dim=0), lambda: x.detach(), lambda: x.unbind(0),
             lambda: rl.cat(many).sum().backward()]

    def counted(times):
        for call in calls:
            for _ in range(times):
                call()
            y.grad = None
        gc.collect()
        return [sys.getrefcount(o) for o in objects]

    # plans come first: cat's when a key has been seen often, that of a sum of gradients at the second backward
    counts = counted(2 * joins.SEEN)
    for o, a, b in zip(objects, counts, counted(100)):
        assert abs(a - b) < 10, f"{type(o).__name__}: {a} references became {b}"


@hazard
def reference_counts_of_refused_calls_stay():
    x, y = rl.ones(3), rl.ones(4, requires_grad=True)
    calls = [lambda: x + y, lambda: x @ y, lambda: x.view(7), lambda: x[5], lambda: rl.cat([x, None]),
             lambda: x.add_(y), lambda: x + object(), lambda: x.sum(3),
             lambda: y.add_(1), lambda: x.sum(dim="a"), lambda: rl.add(x), lambda: rl.add(x, y, nonsense=1),
             lambda: rl.gather(x, 0, rl.tensor([7])), lambda: x.reshape(object())]

    def refused(call):
        try:
            call()
        except (RuntimeError, TypeError, IndexError, ValueError, AttributeError):
            return
        raise AssertionError("accepted")

    for call in calls:
        refused(call)
    counts = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(x._rush_storage)
    with steady():
        for call in calls:
            for _ in range(50):
                refused(call)
    assert max(abs(a - b) for a, b in zip(counts, (sys.getrefcount(x), sys.getrefcount(y),
                                                   sys.getrefcount(x._rush_storage)))) < 10


@hazard
def garbage_collection_at_every_allocation():
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        x = rl.randn(8, 8, requires_grad=True)
        for _ in range(30):
            y = rl.nn.functional.layer_norm(x @ x.t(), (8,)).relu()
            y[1:3].mul(2).sum().backward()
            cycle = [y]
            cycle.append(cycle)
    finally:
        gc.set_threshold(*before)
    assert x.grad is not None


@hazard
def cycles_through_hooks_are_collected():
    for _ in range(20):
        x = rl.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g, keep=y: g)
        found = weakref.ref(y)
        del x, y
    gc.collect()
    assert found() is None


@hazard
def weak_references_die():
    x = rl.ones(3)
    found = weakref.ref(x)
    view = x[1:]
    del x
    gc.collect()
    assert found() is view._base or found() is None
    del view
    gc.collect()
    assert found() is None


class Failure(Exception):
    """Raised on purpose."""


def failing(call):
    try:
        call()
    except Failure:
        return
    raise AssertionError("the error was lost")


@hazard
def errors_in_hooks_pass_and_leave_a_working_engine():
    def fail(gradient):
        raise Failure
    with steady(1 << 12):
        for _ in range(50):
            x = rl.ones(3, requires_grad=True)
            y = x * 2
            y.register_hook(fail)
            failing(lambda: (y * 3).sum().backward())
            del y
        z = rl.ones(3, requires_grad=True)
        (z * 2).sum().backward()
        assert z.grad.tolist() == [2.0] * 3
        del x, z


@hazard
def errors_in_functions_pass():
    class Bad(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, when):
            ctx.save_for_backward(x)
            if when == "forward":
                raise Failure
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise Failure

    for _ in range(50):
        x = rl.ones(3, requires_grad=True)
        failing(lambda: Bad.apply(x, "forward"))
        y = Bad.apply(x, "backward")
        failing(lambda: y.sum().backward())
    assert (rl.ones(2, requires_grad=True) * 2).requires_grad


@hazard
def a_backward_within_a_backward():
    class Inner(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            with rl.enable_grad():
                w = rl.ones(3, requires_grad=True)
                (w * w).sum().backward()
            return g * w.grad

    x = rl.ones(3, requires_grad=True)
    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


@hazard
def hooks_that_drop_what_they_hang_on():
    holder = {}

    def drop(gradient):
        holder.clear()
        gc.collect()
        return gradient * 2

    for _ in range(50):
        x = rl.ones(3, requires_grad=True)
        holder["y"] = x * 2
        holder["y"].register_hook(drop)
        loss = (holder["y"] * 3).sum()
        loss.backward()
        assert x.grad.tolist() == [12.0] * 3


@hazard
def threads():
    wrong = []

    def work(seed):
        try:
            for k in range(60):
                x = rl.full((16, 16), float(seed), requires_grad=True)
                with rl.no_grad() if k % 2 else contextlib.nullcontext():
                    y = (x * x + x[:1]).sum()
                if not k % 2:
                    y.backward()
                    if x.grad[1, 1].item() != 2.0 * seed:
                        wrong.append((seed, x.grad[1, 1].item()))
                elif y.requires_grad:
                    wrong.append((seed, "recorded under no_grad"))
        except Exception as error:  # noqa: BLE001 - reported to the main thread
            wrong.append((seed, error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(k + 1,)) for k in range(6)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong, wrong[:3]


@hazard
def new_memory_under_living_views():
    x = rl.arange(10.0)
    view = x[5:]
    x.resize_(1000)
    x.fill_(1)
    assert view.tolist() == [1.0] * 5  # the storage grew for both
    x.set_(rl.zeros(3))
    x.data = rl.ones(2)
    del x
    gc.collect()
    assert view.sum().item() == 5


@hazard
def memory_of_others():
    import numpy as np
    array = np.arange(1000.0)
    x = rl.from_numpy(array)
    view = x[10:20]
    del array, x
    gc.collect()
    rl.ones(1000, dtype=rl.float64).fill_(7)
    assert view.tolist() == list(range(10, 20))
    shown = rl.arange(5.0).numpy()
    gc.collect()
    rl.ones(5).fill_(9)
    assert shown.tolist() == [0, 1, 2, 3, 4]


@hazard
def tensors_without_contents():
    for call in (lambda e: e + 1, lambda e: e.add_(1), lambda e: e.sum(), lambda e: e[0], lambda e: rl.cat([e, e]),
                 lambda e: 1 + e, lambda e: rl.ones(2) + e):
        empty = rl.Tensor.__new__(rl.Tensor)
        try:
            call(empty)
        except (TypeError, AttributeError, RuntimeError, ValueError, IndexError):
            continue
        raise AssertionError("an uninitialized tensor was used")


@hazard
def arguments_that_act_while_they_are_read():
    class Sneaky:
        def __init__(self, victim):
            self.victim = victim

        def __index__(self):
            self.victim.clear()
            gc.collect()
            return 0

        def __eq__(self, other):
            self.victim.clear()
            return True

        __hash__ = None

    for call in (lambda x, s: x[0][s], lambda x, s: x[0].sum(s), lambda x, s: x[0] + s, lambda x, s: rl.cat(x, s),
                 lambda x, s: x[0].reshape(s, 3), lambda x, s: x[0] == s,
                 lambda x, s: rl.zeros(s), lambda x, s: x[0].transpose(s, 0)):
        victim = [rl.ones(3), rl.ones(3)]
        with contextlib.suppress(TypeError, RuntimeError, IndexError, ValueError):
            call(victim, Sneaky(victim))


@hazard
def lists_that_change_while_they_are_read():
    class Changing(list):
        def __getitem__(self, k):
            self.clear()
            return rl.ones(2)

    with contextlib.suppress(TypeError, RuntimeError, IndexError, ValueError):
        rl.cat(Changing([rl.ones(2), rl.ones(2)]))
    with contextlib.suppress(TypeError, RuntimeError, IndexError, ValueError):
        rl.stack(Changing([rl.ones(2), rl.ones(2)]))


@hazard
def very_many_arguments():
    tensors = [rl.ones(2, requires_grad=True) for _ in range(120)]
    rl.cat(tensors).sum().backward()
    assert all(t.grad.tolist() == [1.0, 1.0] for t in tensors)
    assert rl.stack([t.detach() for t in tensors]).sum().item() == 240


@hazard
def subclasses_with_fields_of_their_own():
    class Named(rl.nn.Parameter):
        pass

    for _ in range(200):
        x = Named(rl.ones(3))
        x.label, x.me = "here", x
        (x + 1).sum()
        found = weakref.ref(x)
        del x
    gc.collect()
    assert found() is None


@hazard
def interrupted_calls():
    """Errors raised between bytecodes, as a signal would."""
    import ctypes
    begun, stop, done, count = [], [], [], [0]  # lists: an error inside a lock of ``threading`` would keep it locked
    main = threading.get_ident()

    def pester():
        while not stop:
            time.sleep(0.002)
            if begun:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Failure))
        done.append(True)

    def work():
        begun.append(True)
        while count[0] < 200 and time.monotonic() < end:
            try:
                for _ in range(50):
                    y = (x * 2 + x[:1]).sum()
                    y.backward()
            except Failure:
                count[0] += 1

    def calm():
        stop.append(True)
        while not done:
            time.sleep(0.001)
        sum(range(1000))  # an error that is still on its way arrives here

    def persist(function):
        """Calls a function until it comes through: an error may also arrive where another one is handled."""
        while True:
            try:
                try:
                    try:
                        return function()
                    except Failure:
                        pass
                except Failure:
                    pass
            except Failure:
                pass

    x = rl.ones(8, requires_grad=True)
    (x * 2 + x[:1]).sum().backward()  # plans are made before the errors come
    worker = threading.Thread(target=pester, daemon=True)
    end = time.monotonic() + 300  # bounds a hang
    worker.start()
    persist(work)
    persist(calm)
    z = rl.ones(2, requires_grad=True)
    (z * 2).sum().backward()
    assert z.grad.tolist() == [2.0, 2.0] and count[0] >= 200


def main(names):
    import faulthandler
    faulthandler.enable()
    for name in names or HAZARDS:
        print(name, flush=True)
        HAZARDS[name]()
    print("done")


if __name__ == "__main__":
    main(sys.argv[1:])
