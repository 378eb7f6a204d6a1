"""Kernels compiled for GPUs that need not be there: what each target makes of every module, as a table.

    python -m tests.gpu.compiled                              # of the operators' samples, for all targets
    python -m tests.gpu.compiled softmax matmul               # of these operators
    python -m tests.gpu.compiled --targets sm_90 softmax
    python -m tests.gpu.compiled --models                     # of the training of small models
    python -m tests.gpu.compiled --part 2/40                  # every 40th kernel, from the second on
    python -m tests.gpu.compiled --workers 4 --minutes 10     # what is not compiled by then is counted as open

Machine code is kept in the disk cache: what was compiled before is not compiled again, so that a run which ended goes
on where it was.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import warnings

import pytest

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.devices.triton.binaries import binary
from rushlight._src.devices.triton.driver import Driver

from ..ops.test_samples import SAMPLED, arguments, build, energy, flat
from .recorded import Named, provided

TARGETS = "sm_80", "sm_90", "sm_100", "gfx942", "gfx1201"


class Seen(Named):
    """Notes which variants of modules launches ask for."""

    def binary(self, module, variant, architecture):
        self.asked.setdefault((module, variant))
        return super().binary(module, variant, architecture)


def single(array):
    """A tensor of an array, floats in float32."""
    return rl.tensor(array.astype("float32") if array.dtype.kind == "f" else array)


def called(name, index):
    """Runs an operator's sample with its gradients; nothing is computed."""
    sample = OPS[name].traits["samples"][index]
    operands = [build(rl, v, lambda a: single(a).to("cuda")) for v in arguments(name, sample)]
    for x in flat(operands):
        if x.is_floating_point():
            x.requires_grad_()
    results = flat([OPS[name](*operands, **sample.kwargs)])
    tracked = [y for y in results if y.requires_grad]
    if tracked:
        sum(map(energy, tracked)).backward()


def models():
    """Small models and a step of their training."""
    from ..webgpu.test_training import Letters, images, losses

    for make in (Letters, images):
        for compiled_too in (False, True):
            losses(make, "cuda", compiled_too, 1)


def make_pool(workers: int) -> concurrent.futures.ProcessPoolExecutor:
    """Return a pool of processes that are forked from one that has imported the samples and made no plan."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.ops.test_samples", "tests.gpu.recorded"])
    return concurrent.futures.ProcessPoolExecutor(workers, context)


def generate_for_each(targets, workers: int, *given) -> list:
    """Return what ``generated`` gives for each target, of a process of its own."""
    def generate(target):
        with make_pool(1) as pool:
            return pool.submit(generated, *given, target).result()

    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        return list(threads.map(generate, targets))


def generated(chosen=(), with_models=False, target="sm_90") -> list:
    """(module, variant) of what operators, or models, launch on a target.  Plans are kept, so a process asks once."""
    warnings.simplefilter("ignore")
    asked, names = {}, {name for name, _ in SAMPLED if not chosen or name in chosen}
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(Seen, "asked", asked, raising=False)
        patch.setattr("tests.gpu.recorded.Named", Seen)
        patch.setattr(Driver, "architecture", lambda self, index: target)
        provided(patch, pathlib.Path(folder), computes=False)
        if with_models:
            models()
        for name, index in SAMPLED if not with_models else ():
            if name in names:
                try:
                    called(name, index)
                except Exception as reason:  # noqa: BLE001 - nothing was computed, so that data may be refused
                    print(f"{name}: {type(reason).__name__}: {' '.join(str(reason).split())[:120]}", file=sys.stderr)
    return list(asked)


def judged(module, variant, target) -> str:
    """What is wrong with a module on a target; empty: nothing."""
    os.environ.pop("TRITON_INTERPRET", None)
    try:
        binary(module, variant, target)
    except Exception as reason:  # noqa: BLE001 - the table names it
        return f"{type(reason).__name__}: {' '.join(str(reason).split())[-160:]}"
    return ""


def verdicts(jobs, workers: int, until: float):
    """(job, what is wrong) of those that were judged in time; ``jobs``: (module, variant, target)."""
    if workers < 2:
        for job in jobs:
            if time.monotonic() > until:
                return
            yield job, judged(*job)
        return
    with make_pool(workers) as pool:
        waiting, rest = {}, iter(jobs)
        while True:
            while len(waiting) < 2 * workers and time.monotonic() < until and (job := next(rest, None)):
                waiting[pool.submit(judged, *job)] = job
            if not waiting:
                return
            for done in concurrent.futures.wait(waiting, return_when="FIRST_COMPLETED").done:
                yield waiting.pop(done), done.result()


def parsed(given):
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.compiled")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth kernel, from the Kth on")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    return parser.parse_args(given)


def main(*given) -> int:
    """Prints what fails, and a line of counts; the number of failures."""
    options, until = parsed(given), time.monotonic()
    until += 60 * options.minutes
    first, step = map(int, options.part.split("/"))
    targets = options.targets.split(",")
    found = generate_for_each(targets, options.workers, options.operators, options.models)
    jobs = [(*one, target) for target, asked in zip(targets, found, strict=True) for one in asked[first - 1::step]]
    counts = collections.Counter((target, "open") for *_, target in jobs)
    for (module, variant, target), wrong in verdicts(jobs, options.workers, until):
        counts[target, "open"] -= 1
        counts[target, "fail" if wrong else "compile"] += 1
        if wrong:
            print(f"{target} {module.name} {module.form} {variant.block}: {wrong}", flush=True)
    print(f"{len(jobs)} kernels; " + ", ".join(f"{target}: {count} {verdict}" for (target, verdict), count
                                               in sorted(counts.items()) if count))
    return sum(count for (_, verdict), count in counts.items() if verdict == "fail")


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
