"""Machine code is unmapped when nobody holds it, and not before."""

import ctypes
import functools
import gc
import itertools
import math
import os
import subprocess
import sys
import threading
import types
from collections import deque

import pytest

import rushlight as torch
from rushlight._src import compiling
from rushlight._src.capture.backends import operators
from rushlight._src.compiler import reference, segment
from rushlight._src.compiler.launch import Launch, starts
from rushlight._src.compiler.target import processor
from rushlight._src.core.llvm.loaded import Function, callable_at, mapped
from rushlight._src.core.op import OPS, forget
from rushlight._src.devices.cpu import host
from rushlight._src.devices.cpu.code import Code
from rushlight._src.devices.cpu.llvm import jit, stubs
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i64
from rushlight._src.eager import polymorphic
from rushlight._src.eager.filling import Filled

ADDING = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


@pytest.fixture
def few(monkeypatch):
    """Few objects stay loaded though nobody holds them."""
    monkeypatch.setattr(jit, "_recent", deque(maxlen=4))
    monkeypatch.setattr(segment, "MOST_MADE", 4)
    monkeypatch.setattr(segment, "made", {})
    monkeypatch.setattr(operators, "last", deque(maxlen=2))


def adding(number):
    module = Module()
    f = module.function("add", [("x", i64)], i64)
    f.ret(f.add(f.parameters[0], number))
    return module.text()


def built(number):
    """A Function that adds a number, of an object of its own."""
    return jit.build(f"loaded: adding {number}", lambda: adding(number), ["add"])["add"]


def code_bytes() -> int:
    """Bytes of machine code in memory, once garbage is collected."""
    gc.collect()
    return sum(nbytes for nbytes, _ in list(mapped.values()))


def table_sizes() -> tuple:
    return len(jit._loaded), len(jit._origins), len(jit._sources)


FUNCTIONS = {"sin": math.sin, "cos": math.cos, "tanh": math.tanh, "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
             "relu": lambda v: max(v, 0.0), "abs": abs, "neg": lambda v: -v, "square": lambda v: v * v,
             "atan": math.atan, "erf": math.erf, "expm1": math.expm1}
numbers = itertools.count()


def compiled_functions(count):
    """Runs so many functions that are compiled with their backward passes, then dropped; no two are alike."""
    for number in itertools.islice(numbers, count):
        chain = [list(FUNCTIONS)[number // len(FUNCTIONS) ** k % len(FUNCTIONS)] for k in range(4)]
        x = torch.full((2, 3), 0.5, requires_grad=True)
        found = torch.compile(eval(f"lambda x: (x{''.join(f'.{name}()' for name in chain)} * x).sum(1)"))(x)
        found.sum().backward()

        def value(v):
            return v * functools.reduce(lambda v, name: FUNCTIONS[name](v), chain, v)

        assert found.tolist() == pytest.approx([3 * value(0.5)] * 2, rel=1e-4)
        slope = (value(0.501) - value(0.499)) / 0.002
        assert x.grad.flatten().tolist() == pytest.approx([slope] * 6, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("ahead", [False, True])
def test_objects_that_nobody_holds_are_unmapped(few, ahead):
    jit.forget()
    held, before, sizes = built(-1), code_bytes(), table_sizes()
    for k in range(60):
        if ahead:
            with jit.ahead():
                address = built(k)
        else:
            address = built(k)
        assert ADDING(address)(5) == k + 5
    del address
    jit.forget()
    assert code_bytes() == before and table_sizes() == (0, *sizes[1:])
    assert ADDING(held)(5) == 4


def test_stubs_are_used_again(few):
    if not stubs.possible():
        pytest.skip("no stubs on this machine")
    jumps = [stubs.new() for _ in range(len(stubs._free) + 1)]
    places = set(map(int, jumps))
    del jumps[0]
    assert stubs.new() in places


def test_compiled_functions_that_nobody_holds_are_unmapped(few):
    compiled_functions(3)
    before, sizes = (len(mapped), code_bytes()), table_sizes()
    compiled_functions(6)
    # objects need not be equally large
    assert code_bytes() <= before[1] + 4 * stubs.SIZE and len(mapped) <= before[0] + 1
    assert all(now <= old + 2 for old, now in zip(sizes, table_sizes()))


@pytest.mark.long
def test_code_of_hundreds_of_functions_is_bounded(few):
    sizes = []
    for _ in range(3):
        compiled_functions(100)
        sizes.append((code_bytes(), *table_sizes()))
    assert all(now <= 1.05 * old for old, now in zip(sizes[0], sizes[2]))


# --- what holds code --------------------------------------------------------------------------------------------------
def functions_of(owner) -> set:
    """The Functions that an object refers to, but for those that only modules hold."""
    seen, waiting, found = set(), [owner], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, (type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(one))
        if type(one) is Function:
            found.add(int(one))
        else:
            waiting += gc.get_referents(one)
    return found


def kernels_of(plan) -> set:
    """The addresses of kernels in the words of a plan's program."""
    words = plan.code_owner.block
    return {words[at] for at in starts(words)} - set(getattr(plan.code_owner, "callbacks", ()))


def plans() -> list:
    """The plans of operators that run programs."""
    return [plan for operator in list(OPS.values()) for plan in list(operator.plans.values())
            if plan.code_owner is not None]


@pytest.mark.parametrize("call", [
    lambda n: torch.ones(n, 3) + torch.ones(3),
    lambda n: torch.softmax(torch.ones(n, 9), 1),
    lambda n: torch.mm(torch.ones(n, 7), torch.ones(7, 5)),
    lambda n: torch.sort(torch.ones(n, 6))], ids=["add", "softmax", "mm", "sort"])
def test_programs_hold_their_kernels(call, monkeypatch):
    """For one size, for many (the later ones by ``eager/filling.py``), and read from disk."""
    monkeypatch.setattr(polymorphic, "SETTLED", 1)
    kinds, kernels = set(), set()
    for sizes in ((2,), range(3, 12), (2,)):
        forget()
        for n in sizes:
            call(n)
        for plan in plans():
            kinds.add(type(plan.code_owner))
            kernels |= kernels_of(plan)
            assert kernels_of(plan) <= functions_of(plan.code_owner)
    assert kernels and kinds == {Code, Filled}


def test_launches_of_printed_programs_hold_their_kernels():
    forget()
    torch.ones(4, 3) + torch.ones(3)
    plan = next(plan for plan in plans() if plan.op is OPS["add"])
    plan.code_owner.written("add")
    launch = host.attached(max(host.programs))
    assert kernels_of(plan) <= functions_of(vars(launch))


def test_kernels_given_by_plain_ints_are_refused():
    address = built(1)
    processor().code([Launch(address, 1, 1, ())], ())
    with pytest.raises(TypeError, match="jit.build"):
        processor().code([Launch(int(address), 1, 1, ())], ())


def test_imports_are_held(few):
    module = Module()
    f = module.function("add", [("x", i64)], i64)
    f.ret(f.call("outside", [f.mul(f.parameters[0], 10)], i64))
    text = module.text()
    outer = jit.build(text, lambda: text, ["add"], {"outside": built(1)})["add"]
    jit.forget()
    others = [built(k) for k in range(100, 108)]
    assert ADDING(outer)(4) == 41 and len(others) == 8


def test_finalizers_of_a_cycle_may_run_its_code(few):
    results = []

    class Owner:
        def __init__(self, number):
            self.call, self.own = callable_at(built(number), ADDING), self

        def __del__(self):
            results.append(self.call(4))

    before = code_bytes()
    for number in range(5):
        Owner(number)
    jit.forget()
    assert code_bytes() == before and sorted(results) == [4, 5, 6, 7, 8]


def test_a_running_program_is_held(few, monkeypatch):
    """Its operator loses its plans between two of its kernels, and other code comes into memory."""
    found, dropped = reference.array_at, []

    def dropping(*given):
        if not dropped:
            forget()
            compiling.reset()
            jit.forget()
            segment.made.clear()
            gc.collect()
            dropped.extend(built(k) for k in range(200, 220))
        return found(*given)

    def program(x):
        u, s, _ = torch.linalg.svd(x * 2.0)  # full matrices are NumPy's
        return (u.abs() * 3.0 + s.sum()).sum(1)

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    expected = program(x).tolist()
    monkeypatch.setattr(reference, "array_at", dropping)
    assert torch.compile(program)(x).tolist() == pytest.approx(expected)
    assert len(dropped) == 20


# --- threads and forks ------------------------------------------------------------------------------------------------
def churn(first: int, count: int, failures: list):
    """Builds and runs functions, each of which is dropped soon, and the compiled program of one that is long."""
    try:
        x = torch.full((4096,), 2.0)
        for k in range(first, first + count):
            call = callable_at(built(1000 + k), ADDING)
            f = torch.compile(lambda x, k=k: x * (k + 0.25) + 1.0)
            for turn in range(3):
                assert call(turn) == 1000 + k + turn
                assert f(x)[-1].item() == 2 * (k + 0.25) + 1
    except BaseException as error:
        failures.append(error)


def churn_in_threads(threads: int, count: int):
    failures: list = []
    workers = [threading.Thread(target=churn, args=(number * count, count, failures)) for number in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        gc.collect()
        jit.forget()
        if hasattr(os, "fork"):
            fork_and_run()
        workers[0].join(0.05)
    assert not failures, failures


def fork_and_run():
    """In the child of a fork code is dropped, run and made as here."""
    held = callable_at(built(7), ADDING)
    child = os.fork()
    if child == 0:
        wrong = True
        try:
            jit.forget()
            gc.collect()
            made = built(8)
            wrong = held(1) != 8 or ADDING(made)(1) != 9
        finally:
            os._exit(wrong)
    assert os.waitpid(child, 0)[1] == 0
    assert held(1) == 8


def test_threads_and_forks_run_what_they_hold(few):
    churn_in_threads(2, 4)


@pytest.mark.long
def test_threads_and_forks_run_what_they_hold_for_long(few):
    churn_in_threads(4, 60)


def test_daemon_threads_run_on_while_python_ends():
    program = """if True:
        import threading, rushlight as torch
        running, x = threading.Event(), torch.ones(1 << 18)
        def work():
            f = torch.compile(lambda x: (x.sin() * 1.5).exp().sum())
            while True:
                f(x)
                running.set()
        threading.Thread(target=work, daemon=True).start()
        running.wait()
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
