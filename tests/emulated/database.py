"""The entries of PyTorch's database of operators on an emulated AArch64 processor, beside PyTorch on this one.

    python -m tests.emulated.database ../shared/conformance/conformance.py
    python -m tests.emulated.database ../shared/conformance/conformance.py --cpu sve --every 16 --minutes 4
    python -m tests.emulated.database ../shared/conformance/conformance.py --dtype bfloat16 add nn.functional.linear

Needs qemu-user and Debian's packages of Python for AArch64, which ``tests.pythons`` fetches; where it cannot, it says
so and ends well.  Exits with 1 where an entry differs on the emulated processor though it agrees on this one.
"""
import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
import types
import warnings
from dataclasses import replace

from rushlight._src.devices.cpu.llvm import generate
from rushlight._src.devices.cpu.llvm.features import ARM

from ..conformance import loaded
from ..pythons import PROJECT, Unavailable, installed
from .served import Array, Named, leaves, mapped

VERSION, MACHINE = "3.13", "aarch64"
# CPUs of qemu: plain NEON, and SVE with 256-bit vectors and the matmul instructions for int8 and bfloat16
PROCESSORS = {"neon": "cortex-a57", "v8.6": "max,pauth=off,sve=off",
              "sve": "max,pauth=off,sve-default-vector-length=32"}


class Machine:
    """The emulated machine: one process that answers one request at a time."""

    def __init__(self, cpu, harness):
        python, environment = installed(VERSION, MACHINE)
        # NumPy's library multiplies wrongly by qemu's SVE
        environment = {**environment, "QEMU_CPU": PROCESSORS[cpu], "OPENBLAS_CORETYPE": "ARMV8"}
        self.process = subprocess.Popen([python, "-m", "tests.emulated.served", os.path.abspath(harness)], cwd=PROJECT,
                                        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *request):
        """Its answer.  AssertionError, with its words, where it failed."""
        self.write(request)
        while True:
            kind, answer = pickle.load(self.process.stdout)
            if kind == "done":
                return answer
            if kind == "failed":
                raise AssertionError(answer)
            self.write(self.compiled(*answer))

    def write(self, message):
        self.process.stdin.write(pickle.dumps(message))
        self.process.stdin.flush()

    def compiled(self, text, level, features):
        """The object file of what the machine would compile itself."""
        with generate.tools() as (context, machines):
            return generate.generate(text, level, context, machines, replace(features, triple=ARM))

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class Bridge:
    """Values of PyTorch on their way to the machine and back."""

    def __init__(self, torch):
        self.torch = torch

    def sent(self, leaf):
        torch = self.torch
        if isinstance(leaf, torch.Tensor):
            return self.array(leaf)
        if isinstance(leaf, torch.device):
            return Named("device", str(leaf))
        if isinstance(leaf, (torch.dtype, torch.memory_format, torch.layout)):
            return Named("other", str(leaf).split(".")[-1])
        if type(leaf).__module__.startswith("torch") or callable(leaf):
            raise NotImplementedError(f"argument of type {type(leaf).__name__}")
        return leaf

    def array(self, tensor):
        if tensor.layout != self.torch.strided:
            raise NotImplementedError(f"layout {tensor.layout}")
        plain, name = tensor.detach().resolve_conj().resolve_neg(), str(tensor.dtype).split(".")[-1]
        bits = plain.view(self.torch.int16) if name == "bfloat16" else plain
        return Array(bits.numpy(), name, tensor.requires_grad)

    def received(self, leaf):
        if isinstance(leaf, Named):
            return getattr(self.torch, leaf.name.split(".")[-1])
        if not isinstance(leaf, Array):
            return leaf
        made = self.torch.from_numpy(leaf.bits)
        made = made.view(self.torch.bfloat16) if leaf.dtype == "bfloat16" else made
        return made.requires_grad_() if leaf.requires_grad else made


def check(harness, bridge, machine, entry, dtype, samples):
    """How many samples agreed.  AssertionError where one does not."""
    torch, ran = bridge.torch, 0
    kind = getattr(torch, dtype)
    random = entry.name in harness.RANDOM or entry.name in harness.UNDEFINED or entry.name in harness.SIGN_FREE
    grads = (kind.is_floating_point or kind.is_complex) and entry.supports_autograd and not random and (
        kind in entry.supported_backward_dtypes("cpu"))
    compare = harness.shapes_only if random else harness.same
    torch.manual_seed(0)
    for sample in harness.chosen(entry.sample_inputs("cpu", kind, requires_grad=grads), samples):
        given = [sample.input, *sample.args], sample.kwargs
        try:
            sent = mapped(bridge.sent, given)
        except NotImplementedError:
            continue
        wanted = entry.op(sample.input, *sample.args, **sample.kwargs)
        name = types.SimpleNamespace(name=entry.name)
        found = mapped(bridge.received, machine.ask("call", name, *sent))
        if sample.output_process_fn_grad is not None and not random:
            wanted, found = sample.output_process_fn_grad(wanted), sample.output_process_fn_grad(found)
        compare(torch, wanted, found, f"sample {ran}")
        ran += 1
        outputs = [x for x in leaves(wanted, torch.Tensor) if x.requires_grad]
        inputs = [x for x in leaves(given, torch.Tensor) if x.requires_grad]
        if not grads or not outputs or not inputs:
            continue
        weights = [torch.randn(x.shape, dtype=torch.complex128 if x.dtype.is_complex else torch.float64).to(x.dtype)
                   for x in outputs]
        wanted = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
        found = mapped(bridge.received, machine.ask("gradients", [bridge.array(x) for x in weights]))
        for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
            if a is not None and b is not None:
                harness.same(torch, a, b, f"sample {ran - 1}: gradient {k}")
            elif a is not None or b is not None:
                assert not bool((a if b is None else b).any()), f"sample {ran - 1}: gradient {k} is None on one side"
    return ran


def agrees_here(harness, torch, entry, options):
    """Whether this machine agrees with PyTorch on the entry."""
    import rushlight
    here = argparse.Namespace(compiled=False, forward_only=False, seed=0, samples=options.samples)
    try:
        return harness.check_op(rushlight, torch, harness.Bridge(rushlight, torch), entry, options.dtype, here)[
            0] != "fail"
    except AssertionError:
        return False


class EmulatedJudge:
    """A process of the pool: it has an emulated machine of its own, and judges one entry after the other."""

    here = None  # of this process

    def __init__(self, harness, options, ends):
        self.harness, self.options, self.ends = harness, options, ends
        self.bridge, self.machine = Bridge(harness.torch_module()), Machine(options.cpu, options.harness)
        print(options.cpu, *self.machine.ask("processor"), flush=True)

    @classmethod
    def start(cls, *given):
        cls.here = cls(*given)

    @classmethod
    def judge(cls, index: int) -> tuple:
        """Return (verdict, reason) of the entry at ``index`` of the database."""
        return cls.here.judge_entry(cls.here.harness.database("ops")[index])

    def judge_entry(self, entry) -> tuple:
        harness, options = self.harness, self.options
        if time.monotonic() > self.ends:
            return "left", ""
        try:
            ran = check(harness, self.bridge, self.machine, entry, options.dtype, options.samples)
            return "same" if ran else "none sent", ""
        except (AssertionError, NotImplementedError) as error:
            agrees = agrees_here(harness, self.bridge.torch, entry, options)
            return "differs" if agrees else "differs here, too", " ".join(str(error).split())[:200]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("harness")
    parser.add_argument("names", nargs="*", help="these entries alone")
    parser.add_argument("--cpu", choices=PROCESSORS, default="neon")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=3, help="of an entry")
    parser.add_argument("--every", type=int, default=1, help="one entry of so many")
    parser.add_argument("--minutes", type=float, help="how long it may take; the entries that are left are said")
    parser.add_argument("--workers", type=int, default=2, help="emulated machines that run at the same time")
    options = parser.parse_intermixed_args(arguments)
    warnings.simplefilter("ignore")
    if not os.path.exists(options.harness):
        print(f"no harness at {options.harness}")
        return 0
    try:
        installed(VERSION, MACHINE)
    except Unavailable as reason:
        print(f"{MACHINE} is not tested: {reason}")
        return 0
    harness = loaded(options.harness)
    harness.TOLERANCE["float32"] = 5e-4, 1e-4  # sums of fewer lanes than here, where samples cancel
    torch = harness.torch_module()
    chosen = [k for k, entry in enumerate(harness.database("ops"))
              if getattr(torch, options.dtype) in entry.supported_dtypes("cpu")
              and (harness.title(entry) in options.names if options.names else k % options.every == 0)]
    ends = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    counts = collections.Counter()
    with concurrent.futures.ProcessPoolExecutor(max(1, min(options.workers, len(chosen))),
                                                multiprocessing.get_context("fork"), EmulatedJudge.start,
                                                (harness, options, ends)) as pool:
        for index, (verdict, reason) in zip(chosen, pool.map(EmulatedJudge.judge, chosen), strict=True):
            counts[verdict] += 1
            if verdict not in ("same", "left"):
                print(f"{verdict:18}{harness.title(harness.database('ops')[index]):48}{reason}", flush=True)
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    return int(counts["differs"] > 0)


if __name__ == "__main__":
    sys.exit(main())
