"""An exception that comes at any moment, as a signal handler's does: the state of the thread is as it was."""
import signal
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight._src.devices.cpu.llvm.compile_queue import CompileQueue
from rushlight._src.core.apart import apart
from rushlight._src.core.native import compiled, mine
from rushlight.utils._python_dispatch import TorchDispatchMode

pytestmark = [pytest.mark.skipif(not compiled, reason="an interrupt may come between any two lines of plain Python"),
              pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
FIELDS = ("device", "devices", "grad", "inference", "autocast", "plain", "packing", "stack", "modes")


class Interrupt(BaseException):
    pass


def state():
    return {name: getattr(mine, name) for name in FIELDS}


class Watching(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def blocks():
    x, w = torch.ones(3, 4), torch.ones(4, requires_grad=True)
    with torch.no_grad(), torch.enable_grad(), torch.set_grad_enabled(False):
        (x * w).sum()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        x @ w
    with Watching(), torch._C.DisableTorchFunctionSubclass():
        x + 1


class Seeing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def dispatched():
    mode = Seeing()
    with mode, Seeing(), torch.device("meta"):
        torch.ones(3) * 2
        with mode:
            torch.ones(3) + 2


def transforms():
    def f(a):
        with torch.no_grad():
            b = a * 2
        return (a.sin() * b).sum()
    torch.func.vmap(torch.func.grad(f))(torch.ones(3, 4))
    torch.func.jvp(f, (torch.ones(2),), (torch.ones(2),))


def recorded():
    w = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = (w * w).exp()
    y.sum().backward()


def interrupted(function, at: int) -> bool:
    """Whether an exception came: at the call with this number, where CPython looks for signals (at the beginning of
    functions, and after calls of C's)."""
    left = at

    def profile(frame, event, argument):
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if not left:
                sys.setprofile(None)
                raise Interrupt

    sys.setprofile(profile)
    try:
        function()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython looks for signals between __enter__ and the block")
@pytest.mark.parametrize("function", [blocks, dispatched, transforms, recorded])
def test_state_is_as_it_was_wherever_the_exception_came(function):
    function()
    before, at, step = state(), 1, 1 if function is blocks else 7
    while interrupted(function, at):
        assert state() == before, at
        at += step
    assert at > 20 and state() == before


def answered():
    """A call that another thread makes."""
    assert apart(int, "7") == 7


def compiled_beside():
    """The second thread compiles two modules, one of which the first thread hands over."""
    line = CompileQueue()
    try:
        made = [line.add(text, 1) for text in ("a", "b")]
        apart(line.share)
        assert [one.image() for one in made] == [b"a", b"b"]
    finally:
        line.end()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython looks for signals between __enter__ and the block")
@pytest.mark.parametrize("function", [answered, compiled_beside])
def test_work_of_other_threads_is_waited_for_without_harm(function, monkeypatch):
    monkeypatch.setattr("rushlight._src.devices.cpu.llvm.compile_queue.generate", lambda text, *rest: text.encode())
    function()  # which imports what it needs
    at = 1
    while interrupted(function, at):  # an error of another kind would be one that cleaning up made
        function()
        at += 1
    assert at > 8


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_state_is_as_it_was_after_alarms():
    def handler(*_):
        raise Interrupt

    handled, before, came = signal.signal(signal.SIGALRM, handler), state(), 0
    try:
        for k in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + k * 7e-6)
                blocks()
                transforms()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                came += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert state() == before
    finally:
        signal.signal(signal.SIGALRM, handled)
    assert came > 10  # how many depends on the machine


AGAIN = """
import builtins, gc, sys, numpy, llvmlite.binding
first, left = builtins.__build_class__, [60]
def build(*args, **names):
    left[0] -= 1
    if not left[0]:
        raise KeyboardInterrupt
    return first(*args, **names)
builtins.__build_class__ = build
try:
    import rushlight
except KeyboardInterrupt:
    builtins.__build_class__ = first
    before = {name: module for name, module in sys.modules.items() if name.startswith("rushlight")}
assert len(before) > 5 and "rushlight" not in before
import rushlight as torch
assert not [name for name, module in before.items() if sys.modules.get(name) is module] and gc.isenabled()
x = torch.ones(2, requires_grad=True)
torch.nn.functional.relu(x).sum().backward()
assert x.grad.tolist() == [1, 1]
"""


def test_an_interrupted_import_leaves_nothing_to_the_next():
    subprocess.run([sys.executable, "-c", AGAIN], check=True, timeout=600)
