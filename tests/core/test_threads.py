"""What belongs to threads: what one chooses, no other sees."""
import contextlib
import sys
import threading
import weakref

import pytest

import rushlight as torch
from rushlight._src.core.native import mine

judge = pytest.importorskip("torch")


def elsewhere(function):
    """What a function returns in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def shown(torch):
    """What a thread can see of what was chosen."""
    return [str(x) for x in (torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
                             torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
                             torch.is_autocast_cache_enabled(), torch.get_default_device(), torch.ones(2).device,
                             torch.get_default_dtype(),
                             torch.is_anomaly_enabled(),
                             (torch.ones(2, 2, requires_grad=True) @ torch.ones(2, 2)).dtype,
                             torch.ones(1, requires_grad=True).mul(2).requires_grad)]


def refused(tensor):
    raise AssertionError("a hook of another thread")


def blocks(torch):
    """Blocks of which other threads see nothing, and two settings that all see."""

    class Wrong(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return refused(function) if function is torch.ones else function(*args, **(kwargs or {}))

    return {"no_grad": torch.no_grad, "inference": torch.inference_mode,
            "autocast": lambda: torch.autocast("cpu", dtype=torch.float16, cache_enabled=False),
            "device": lambda: torch.device("meta"), "mode": Wrong,
            "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(refused, refused),
            "anomaly": torch.autograd.detect_anomaly, "enabled": lambda: torch.set_grad_enabled(False)}


@pytest.mark.parametrize("name", blocks(torch))
@pytest.mark.filterwarnings("ignore:Anomaly")
def test_other_threads_see_what_they_see_in_pytorch(name):
    found = []
    for framework in (torch, judge):
        with blocks(framework)[name]():
            found.append([text.replace("rushlight", "torch") for text in elsewhere(lambda: shown(framework))])
    assert found[0] == found[1]


def test_defaults_belong_to_threads_or_to_the_process_as_in_pytorch():
    def chosen(torch):
        torch.set_default_device("meta"), torch.set_default_dtype(torch.float64), torch.set_autocast_dtype(
            "cpu", torch.float16)
        try:
            return shown(torch)[:9], elsewhere(lambda: shown(torch))
        finally:
            torch.set_default_device("cpu"), torch.set_default_dtype(torch.float32), torch.set_autocast_dtype(
                "cpu", torch.bfloat16)

    assert chosen(torch) == chosen(judge)


def test_a_backward_pass_runs_as_its_thread_records():
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    z = y.sum()
    elsewhere(lambda: z.backward(retain_graph=True))
    elsewhere(lambda: z.backward(create_graph=True))
    assert seen == [False, True] and torch.is_grad_enabled()


def test_compiled_code_asks_the_thread_that_calls_it():
    f = torch.compile(lambda x: x * 2 if torch.is_grad_enabled() else x * 3)
    x = torch.ones(2)
    with torch.no_grad():
        assert f(x).tolist() == [3, 3] and elsewhere(lambda: f(x).tolist()) == [2, 2]
    g = torch.compile(lambda: torch.zeros(2))
    with torch.device("meta"):
        assert g().device.type == "meta" and elsewhere(lambda: g().device.type) == "cpu" and g().device.type == "meta"


def test_what_a_thread_had_goes_with_it():
    def leave_behind():
        torch.set_grad_enabled(False)
        mine.stack = ("forgotten",)

    elsewhere(leave_behind)
    for _ in range(20):
        assert elsewhere(lambda: (mine.grad, mine.stack)) == (1, ())


def hammered(work, rounds=50, threads=8):
    """The errors of several threads that call ``work`` with their number, all until each has done so many rounds."""
    errors, made = [], [0] * threads

    def run(k):
        try:
            while min(made) < rounds and not errors:
                work(k)
                made[k] += 1
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    with interval(1e-6):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return errors


@contextlib.contextmanager
def interval(seconds):
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_blocks_and_transforms_of_many_threads_at_once():
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)

    def work(k):
        if k % 4 == 0:
            with torch.no_grad():
                assert not (x @ w).requires_grad
        elif k % 4 == 1:
            assert (x @ w).requires_grad
        elif k % 4 == 2:
            assert torch.func.grad(lambda q: (q * q).sum())(x + k).tolist() == [[2.0 * (1 + k)] * 4] * 4
        else:
            assert torch.func.vmap(torch.func.grad(lambda q: (q * q).sum()))(x + k).tolist() == [[2.0 * (1 + k)]
                                                                                                 * 4] * 4

    assert not hammered(work)


def test_plans_are_made_anew_for_other_threads_whatever_the_collector_holds():
    """Plans have room for each thread; objects that the collector was told to leave alone have plans, too."""
    import gc

    from rushlight._src.core.cached import Recent

    a, before = torch.randn(3, 40, 40) + 20 * torch.eye(40), torch.get_num_threads()
    f = torch.compile(lambda a: torch.linalg.inv(a).sum())
    f(a)
    gc.freeze()
    try:
        torch.set_num_threads(3 - min(before, 2))
        assert not any(len(found) or found.older for found in (r() for r in list(Recent.tables.values()))
                       if found is not None)
        assert f(a).isfinite()
    finally:
        gc.unfreeze()
        torch.set_num_threads(before)


class Handing:
    """Goes only after another thread has begun to let something go, which ends later."""

    def __init__(self, began, may_end):
        self.began, self.may_end = began, may_end

    def __del__(self):
        self.began.set()
        self.may_end.wait(60)


def test_what_threads_let_go_of_at_the_same_time_goes():
    """Destructions that cross leave nothing behind for which memory would be kept."""
    def let_go(began, may_end):
        x = torch.ones(1)
        x.note = Handing(began, may_end)
        del x

    for _ in range(41):  # each left one more destruction that seemed to be under way; beyond 40 others wait
        first, second, ended = threading.Event(), threading.Event(), threading.Event()
        threads = [threading.Thread(target=let_go, args=args) for args in ((first, second), (second, ended))]
        threads[0].start()
        first.wait(60)
        threads[1].start()  # which lets the first end, and ends after it
        threads[0].join(60)
        ended.set()
        threads[1].join(60)
    x, note = torch.ones(1), torch.ones(1)
    x.note, gone = note, weakref.ref(note)
    del x, note
    assert gone() is None
