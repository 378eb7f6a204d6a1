"""What a GPU does: kernels, calls, cold starts and whole models, beside PyTorch's eager mode and torch.compile.

    python -m benchmarks.gpu                                   all parts, each at most 9 minutes
    python -m benchmarks.gpu --parts checks,claims --minutes 4      what to run first: whether results are the
                                                               processor's, templates beside libraries; 10 minutes
    python -m benchmarks.gpu --parts kernels,calls
    python -m benchmarks.gpu --parts models --cases nanogpt,resnet50 --precisions bfloat16 --modes training
    python -m benchmarks.gpu --dry                             on a library that stands in for the driver: nothing is computed

Figures of all systems are taken in turns in one process a case, with equal weights and inputs, and written to ``--out``
(``benchmarks/results/`` and the GPU's name) as soon as they are there: a run that was cut goes on where it was, and
tries again what failed (``--again`` takes all anew).  A process that fails, or ends by a signal, costs its own row,
which then says why.  A part ends when its time is up, and says what is open.  Times are milliseconds (the best of some
rounds, each waited for); calls are microseconds of the host.
"""
from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from .gpu_checks import CHECKS
from .models.cases import CASES

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ("checks", "kernels", "claims", "calls", "start", "models")
SIZE = 8192  # of matmuls
WIDEST = 240  # characters of a printed line: all rows of "checks" and "claims" have less than 12,000
SPARE = 40  # seconds that what is under way may take longer than its part
MODELS = [name for name in CASES if name != "vit"]  # "vit-train" is the same model
MODES = ("inference", "training")
DECODING = "gpt2-decode"  # is not trained
OURS, THEIRS = ("rushlight", "rushlight.compile", "rushlight.graphs"), ("torch", "torch.compile")
PRECISIONS = ("float32", "bfloat16", "float16")  # the first: on tensor cores (TF32)
GOALS = {"product 8192 bfloat16": "600 TFLOP/s", "attention": "0.7 of PyTorch's", "copies": "0.9 of 4.3 TB/s",
         "start": "a quarter of torch.compile's", "calls": "3 us", "models": "1.0 of torch.compile, 0.7 of eager"}


class Sheet:
    """Figures by name, on disk; ``until``: when the part's time is up."""

    def __init__(self, path: pathlib.Path, again: bool):
        self.path, self.until = path, math.inf
        self.rows = json.loads(path.read_text()) if path.exists() and not again else {}
        self.open: list = []

    def wants(self, name: str) -> bool:
        """Whether a figure is not there, or failed before, and there is time for it."""
        if name in self.rows and "failed" not in self.rows[name]:
            return False
        if time.monotonic() > self.until:
            self.open.append(name)
            return False
        return True

    def add(self, name: str, figures: dict):
        self.rows[name] = figures
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")
        line = f"{name:44} " + "  ".join(f"{system} {value:.4g}" if isinstance(value, float) else f"{system} {value}"
                                         for system, value in figures.items())
        print(line[:WIDEST], flush=True)


def stand_in(folder):
    """A driver's library of which everything is noted, and nothing computed."""
    import pytest

    from tests.gpu.vendors import with_both
    return with_both(pytest.MonkeyPatch(), pathlib.Path(folder), computes=False)


def libraries(options) -> dict:
    """The libraries by name; PyTorch's only where it has a GPU."""
    found = {"rushlight": importlib.import_module("rushlight")}
    if options.dry:
        options.held = tempfile.TemporaryDirectory()
        options.library = stand_in(options.held.name)  # for as long as it is used
    else:
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            found["torch"] = torch
    if not found["rushlight"].cuda.is_available():
        raise SystemExit("there is no GPU here: --dry runs without one")
    for library in found.values():
        library.set_float32_matmul_precision("high")
        library.set_default_device("cuda")
    return found


def in_turns(found: dict, runs: dict, rounds=5, seconds=0.2) -> dict:
    """Milliseconds of each run, the best of some rounds in turns; ``runs``: (library's name, function) by system."""
    counts, best = {}, {}
    for name, (library, run) in runs.items():
        for _ in range(2):
            run()
        found[library].cuda.synchronize()
        start = time.perf_counter()
        run()
        found[library].cuda.synchronize()
        counts[name] = max(1, min(200, int(seconds / rounds / max(time.perf_counter() - start, 1e-6))))
    for _ in range(rounds):
        for name, (library, run) in runs.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            found[library].cuda.synchronize()
            spent = (time.perf_counter() - start) / counts[name] * 1e3
            best[name] = min(best.get(name, math.inf), spent)
    return best


# --- kernels ----------------------------------------------------------------------------------------------------------
def product(library, size: int, dtype: str):
    a, b = (library.randn(size, size, device="cuda", dtype=getattr(library, dtype)) for _ in range(2))
    return lambda: a @ b


def attention(library, small: bool, backward: bool):
    shape = (1, 2, 64, 32) if small else (4, 32, 4096, 128)
    q, k, v = (library.randn(*shape, device="cuda", dtype=library.bfloat16).requires_grad_(backward) for _ in range(3))
    g = library.randn(*shape, device="cuda", dtype=library.bfloat16)

    def run():
        y = library.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if backward:
            library.autograd.grad(y, (q, k, v), g)

    return run


def bound(library, name: str, count: int):
    """(a run, bytes that it moves) of a kernel that only memory bounds."""
    x = library.randn(count // 1024, 1024, device="cuda")
    y = library.empty_like(x)
    F = library.nn.functional
    runs = {"copy": (lambda: y.copy_(x), 2), "add": (lambda: library.add(x, x, out=y), 2),
            "gelu": (lambda: F.gelu(x), 2), "softmax": (lambda: F.softmax(x, 1), 2),
            "layer_norm": (lambda: F.layer_norm(x, (1024,)), 2), "sum": (lambda: x.sum(), 1)}
    run, times = runs[name]
    return run, times * x.numel() * 4


def rate_of_product(found, options, dtype: str) -> dict:
    """TFLOP/s of square matrices."""
    size = 256 if options.dry else SIZE
    make = byte_product if dtype == "float8" else product
    times = in_turns(found, {system: (system, make(library, size, dtype)) for system, library in found.items()})
    return {system: 2 * size ** 3 / ms / 1e9 for system, ms in times.items()}


def byte_product(library, size: int, dtype: str):
    a, b = (library.randn(size, size, device="cuda").to(library.float8_e4m3fn) for _ in range(2))
    one = library.ones((), device="cuda")
    return lambda: library._scaled_mm(a, b.t(), one, one, out_dtype=library.bfloat16)


def time_of_attention(found, options, backward: bool) -> dict:
    return in_turns(found, {system: (system, attention(library, options.dry, backward))
                            for system, library in found.items()})


def rate_of_memory(found, options, name: str) -> dict:
    """GB/s."""
    made = {system: bound(library, name, 1 << 16 if options.dry else 1 << 28) for system, library in found.items()}
    times = in_turns(found, {system: (system, run) for system, (run, _) in made.items()})
    return {system: made[system][1] / ms / 1e6 for system, ms in times.items()}


KERNELS = {f"product {SIZE} {dtype}": functools.partial(rate_of_product, dtype=dtype)
           for dtype in ("bfloat16", "float16", "float32", "float8")}
KERNELS |= {f"attention {name}": functools.partial(time_of_attention, backward=backward)
            for name, backward in (("forward", False), ("forward and backward", True))}
KERNELS |= {f"{name}, GB/s": functools.partial(rate_of_memory, name=name)
            for name in ("copy", "add", "gelu", "softmax", "layer_norm", "sum")}


def kernels(sheet: Sheet, options):
    """Matmuls in TFLOP/s, memory-bound kernels in GB/s, attention in milliseconds."""
    for name in KERNELS:
        if sheet.wants(name):
            sheet.add(name, child(options, sheet, "--kernel", name))


# --- claims -----------------------------------------------------------------------------------------------------------
def claimed_product(library, size: int, dtype: str, epilogue: str):
    """A product with what follows it, compiled."""
    x, w = (library.randn(size, size, device="cuda").to(getattr(library, dtype)) for _ in range(2))
    b, F = library.randn(size, device="cuda").to(getattr(library, dtype)), library.nn.functional
    run = library.compile({"": lambda x, w, b: x @ w, "bias": F.linear,
                           "relu": lambda x, w, b: F.linear(x, w, b).relu(),
                           "gelu": lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
                           "residual": lambda x, w, b: F.linear(x, w, b) + x}[epilogue])

    def step():
        with library.no_grad():
            return run(x, w, b)

    return step


CLAIMS = {f"product {size} {dtype} {epilogue}".strip(): (claimed_product, (size, dtype, epilogue))
          for size, dtype, epilogue in itertools.product((512, 2048, 8192), ("bfloat16", "float32"),
                                                         ("", "bias", "gelu"))}
CLAIMS |= {f"product 2048 bfloat16 {epilogue}": (claimed_product, (2048, "bfloat16", epilogue))
           for epilogue in ("relu", "residual")}
CLAIMS |= {"product 4096 float8": (byte_product, (4096, "float8"))}
CLAIMS |= {f"attention {name}": (attention, (backward,))
           for name, backward in (("forward", False), ("forward and backward", True))}


def convolution(library, small: bool, dtype: str, direction: str):
    """A convolution of a ResNet, or its gradient of the image or of the weights, with channels last."""
    batch, channels, size = (2, 8, 6) if small else (64, 256, 28)
    F, kind = library.nn.functional, {"dtype": getattr(library, dtype), "device": "cuda"}
    x = library.randn(batch, channels, size, size, **kind).contiguous(memory_format=library.channels_last)
    w = library.randn(channels, channels, 3, 3, **kind).contiguous(memory_format=library.channels_last)
    x.requires_grad_(direction == "input")
    w.requires_grad_(direction == "weight")
    y = F.conv2d(x, w, padding=1)
    grad = library.ones_like(y)

    def step():
        if direction == "forward":
            return F.conv2d(x, w, padding=1)
        return library.autograd.grad(y, w if direction == "weight" else x, grad, retain_graph=True)

    return step


CLAIMS |= {f"convolution {dtype} {direction}": (convolution, (dtype, direction))
           for dtype in ("bfloat16", "float32") for direction in ("forward", "input", "weight")}


def claims(sheet: Sheet, options):
    """Milliseconds of templates of ours and of the vendor's library, each in a process of its own."""
    for name in CLAIMS:
        if sheet.wants(f"claim {name}, ms"):
            figures = {}
            for vendor in ("never", "always"):
                told = child(options, sheet, "--claim", name, vendor=vendor)
                figures["ours" if vendor == "never" else "library"] = told.get("failed", told.get("rushlight"))
            sheet.add(f"claim {name}, ms", figures)


def time_of_claim(found: dict, options) -> dict:
    make, given = CLAIMS[options.claim]
    library = found["rushlight"]
    small = (options.dry, *given) if make in (attention, convolution) else (64 if options.dry else given[0], *given[1:])
    return in_turns(found, {"rushlight": ("rushlight", make(library, *small))})


# --- checks -----------------------------------------------------------------------------------------------------------
def checks(sheet: Sheet, options):
    """Whether results are the processor's."""
    for name in CHECKS:
        if sheet.wants(f"check {name}"):
            sheet.add(f"check {name}", child(options, sheet, "--check", name))


def checked(found: dict, options) -> dict:
    library = found["rushlight"]
    library.set_default_device("cpu")
    library.set_float32_matmul_precision("highest")
    start = time.perf_counter()
    told = CHECKS[options.check](library, options.dry)
    return {"ok, s": time.perf_counter() - start} | (told or {})


# --- calls ------------------------------------------------------------------------------------------------------------
def operators(library) -> dict:
    x, F = library.ones(16, 16, device="cuda"), library.nn.functional
    w = library.ones(16, 16, device="cuda", requires_grad=True)
    u = library.ones(16, device="cuda", requires_grad=True)
    v, image = library.ones(16, device="cuda"), library.ones(2, 16, 4, 4, device="cuda")
    q = library.ones(1, 2, 16, 16, device="cuda", dtype=library.bfloat16)
    r = q.clone().requires_grad_()
    return {"add": lambda: x + x, "mul_": lambda: x.mul_(1.0), "matmul": lambda: x @ x, "sum": lambda: x.sum(),
            "layer_norm": lambda: F.layer_norm(x, (16,), v, v),
            "batch_norm": lambda: F.batch_norm(image, v, v, v, v),
            "attention": lambda: F.scaled_dot_product_attention(q, q, q), "softmax": lambda: F.softmax(x, 1),
            "linear": lambda: F.linear(x, x), "gelu": lambda: F.gelu(x),
            "mul with gradient": lambda: w * 2, "layer_norm with gradient": lambda: F.layer_norm(w, (16,), v, v),
            "batch_norm with gradient": lambda: F.batch_norm(image, v, v, u, v),
            "attention with gradient": lambda: F.scaled_dot_product_attention(r, q, q),
            "view": lambda: x[1:], "empty": lambda: library.empty_like(x)}


def calls(sheet: Sheet, options):
    """Microseconds of the host for an operator of small tensors: the device is not waited for."""
    if sheet.wants("calls"):
        figures = child(options, sheet, "--calls")
        sheet.add("calls", figures if "failed" in figures else whole_of(figures))
        for name, row in figures.items() if "failed" not in figures else ():
            sheet.add(f"call {name}, us", row)


def whole_of(figures: dict) -> dict:
    """How many operators were measured; which were not, where some failed."""
    wrong = [name for name, row in figures.items() if any(isinstance(figure, str) for figure in row.values())]
    return {"failed": f"{len(wrong)} of {len(figures)}: {', '.join(wrong)}"} if wrong else {"ok": len(figures)}


def called(found: dict, count=400) -> dict:
    tables, rows = {system: operators(library) for system, library in found.items()}, {}
    for name in tables["rushlight"]:
        best: dict = {}
        for _ in range(12):
            for system, table in tables.items():
                if isinstance(best.get(system), str):  # it failed once: its row says so
                    continue
                try:
                    taken = spent(table[name], count)
                except Exception as reason:  # noqa: BLE001 - the table names it
                    best[system] = said(reason)
                    continue
                best[system] = min(best.get(system, math.inf), taken)
                found[system].cuda.synchronize()
        rows[name] = best
    return rows


def spent(run, count: int) -> float:
    """Microseconds of a call."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count * 1e6


# --- cold starts ------------------------------------------------------------------------------------------------------
def said(reason) -> str:
    """An error in a line."""
    return f"{type(reason).__name__}: {' '.join(str(reason).split())[:200]}"


def child(options, sheet: Sheet, *more, folder=None, vendor="") -> dict:
    """What a process of its own prints as its last line; a reason where it fails, or takes longer than there is."""
    command = [sys.executable, "-m", "benchmarks.gpu", *more, *["--dry"] * options.dry]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    if vendor:
        environment["RUSHLIGHT_VENDOR"] = vendor
    if folder:
        environment |= {"RUSHLIGHT_CACHE": f"{folder}/rushlight", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                        "TRITON_CACHE_DIR": f"{folder}/triton"}
    least = max(10.0, min(60.0 * options.minutes, sheet.until + SPARE - time.monotonic()))
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=least)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {least:.0f} s"}
    if done.returncode:
        return {"failed": f"status {done.returncode}: {' '.join(done.stderr.split())[-300:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def start(sheet: Sheet, options):
    """Seconds from the start of a process to the end of its first step of training, with empty caches and with full
    ones."""
    for case in options.cases or ("nanogpt",):
        if not sheet.wants(f"start {case}, s"):
            continue
        figures = {}
        for system in ("rushlight.compile", *["torch.compile"] * bool(sheet.rows["device"]["torch"])):
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    began = time.monotonic()
                    told = child(options, sheet, "--first", case, "--system", system, folder=folder)
                    figures[f"{system} {state}"] = told.get("failed", time.monotonic() - began)
        sheet.add(f"start {case}, s", figures)


# --- models -----------------------------------------------------------------------------------------------------------
def size_of(functional, output):
    """A loss for models that have none of their own."""
    return (output[0] if isinstance(output, tuple) else output).float().square().mean()


class Stepper:
    """``step()`` does one step of a case on the GPU, without waiting for it."""

    def __init__(self, found: dict, case: str, system: str, precision: str, small: bool, training: bool):
        name, _, compiled = system.partition(".")
        self.library, self.case = found[name], CASES[case]
        self.training, self.model = training, self.case.model(self.library, small).train(training).to("cuda")
        inputs, targets = self.case.data(self.library, small)
        self.inputs, self.targets = [x.to("cuda") for x in inputs], [x.to("cuda") for x in targets]
        mode = {"mode": "reduce-overhead"} if compiled == "graphs" else {}
        self.forward = self.library.compile(self.model, **mode) if compiled else self.model
        self.precision = None if precision == "float32" else getattr(self.library, precision)

    def step(self):
        library = self.library
        if not self.training:
            with library.no_grad(), self.lowered():
                return self.forward(*self.inputs)
        for parameter in self.model.parameters():
            parameter.grad = None
        with self.lowered():
            output = self.forward(*self.inputs)
            loss = (self.case.loss or size_of)(library.nn.functional, output, *self.targets)
        loss.backward()
        return loss

    def lowered(self):
        return self.library.autocast("cuda", dtype=self.precision, enabled=self.precision is not None)


def compared(options, found: dict) -> dict:
    """Milliseconds of a step of a case, by system; what fails says why."""
    runs, wrong = {}, {}
    for system in (*OURS, *THEIRS):
        library = system.partition(".")[0]
        if library not in found:
            continue
        try:
            stepper = Stepper(found, options.case, system, options.precision, options.dry,
                              options.mode == "training")
            for _ in range(3):
                stepper.step()
            found[library].cuda.synchronize()
            runs[system] = library, stepper.step
        except Exception as reason:  # noqa: BLE001 - the table names it
            wrong[system] = said(reason)
    return in_turns(found, runs, seconds=1.0) | wrong


def models(sheet: Sheet, options):
    """Steps of models, each in a process of its own."""
    for precision in options.precisions:
        for mode, case in itertools.product(options.modes, options.cases or MODELS):
            name = f"{case} {mode} {precision}, ms"
            if not (case == DECODING and mode == "training") and sheet.wants(name):
                sheet.add(name, child(options, sheet, "--case", case, "--precision", precision, "--mode", mode))


def means(sheet: Sheet) -> dict:
    """Geometric means of ours over theirs, of the models that both ran."""
    found = {}
    for ours in OURS:
        for theirs in THEIRS:
            rows = [row[ours] / row[theirs] for name, row in sheet.rows.items() if name.endswith(", ms")
                    and isinstance(row.get(ours), float) and isinstance(row.get(theirs), float)]
            if rows:
                found[f"{ours} / {theirs}"] = math.exp(sum(map(math.log, rows)) / len(rows))
    return found


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, choice in (("parts", ",".join(PARTS)), ("cases", ""), ("precisions", ",".join(PRECISIONS)),
                         ("modes", ",".join(MODES))):
        parser.add_argument(f"--{name}", default=choice,
                            type=lambda text: [one for one in text.split(",") if one])
    parser.add_argument("--minutes", type=float, default=8, help="of each part")
    parser.add_argument("--out", type=pathlib.Path, help="default: benchmarks/results/ and the GPU's name")
    parser.add_argument("--again", action="store_true", help="take all figures anew")
    parser.add_argument("--dry", action="store_true", help="without a GPU: small sizes on a library that stands in")
    for name in ("about", "calls"):
        parser.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)
    for name in ("case", "precision", "mode", "first", "system", "kernel", "claim", "check"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)  # of the processes that this starts
    options = parser.parse_args()
    for name in ("parts", "precisions", "modes"):
        if isinstance(getattr(options, name), str):
            setattr(options, name, getattr(options, name).split(","))
    return options


def of_child(options, found: dict) -> dict:
    """What one of the processes that ``child`` starts is for."""
    if options.case:
        return compared(options, found)
    if options.kernel:
        return KERNELS[options.kernel](found, options)
    if options.claim:
        return time_of_claim(found, options)
    if options.check:
        return checked(found, options)
    if options.calls:
        return called(found)
    if options.first:
        stepper = Stepper(found, options.first, options.system, "float32", options.dry, True)
        stepper.step()
        stepper.library.cuda.synchronize()
        return {}
    library, torch = found["rushlight"], found.get("torch")
    return {"name": library.cuda.get_device_name(), "dry": options.dry, "torch": getattr(torch, "__version__", ""),
            "architecture": library.cuda.get_device_properties(0).gcnArchName
            if hasattr(library.cuda.get_device_properties(0), "gcnArchName") else
            "sm_%d%d" % library.cuda.get_device_capability()}


def main():
    options = parsed()
    if any((options.about, options.case, options.kernel, options.claim, options.check, options.calls, options.first)):
        print(json.dumps(of_child(options, libraries(options))))
        return
    sheet = Sheet(pathlib.Path(os.devnull), True)
    about = child(options, sheet, "--about")
    if "failed" in about:
        raise SystemExit(about["failed"])
    sheet = Sheet(options.out or results_of(about), options.again)
    sheet.add("device", about)
    for part in options.parts:
        sheet.until = time.monotonic() + 60 * options.minutes
        try:
            {"checks": checks, "kernels": kernels, "claims": claims, "calls": calls, "start": start,
             "models": models}[part](sheet, options)
        except Exception as reason:  # noqa: BLE001 - the other parts are of interest all the same
            sheet.add(f"part {part}", {"failed": said(reason)})
    sheet.add("geometric means", means(sheet))
    sheet.add("goals", GOALS)
    wrong = [name for name, row in sheet.rows.items() if "failed" in row]
    print(f"{len(wrong)} failed{': ' + ', '.join(wrong) if wrong else ''}; in {sheet.path}")
    if sheet.open:
        print(f"open, for want of time: {', '.join(sheet.open)}")


def results_of(about: dict) -> pathlib.Path:
    """Where the figures of a GPU belong."""
    if about["dry"]:
        return pathlib.Path(tempfile.gettempdir()) / "rushlight-gpu-dry.json"
    return ROOT / "benchmarks" / "results" / f"{re.sub('[^a-z0-9]+', '-', about['name'].lower()).strip('-')}.json"


if __name__ == "__main__":
    main()
