"""Kernels compiled for GPUs that need not be there: what each target makes of every module, as a table.

    python -m tests.gpu.compiled                              # of the operators' samples, for all targets
    python -m tests.gpu.compiled softmax matmul               # of these operators
    python -m tests.gpu.compiled --targets sm_90 softmax
    python -m tests.gpu.compiled --models                     # of the training of small models
"""
from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings

import pytest

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.devices.triton.binaries import MOST_SHARED, SHARED, Variant, compiled


from ..ops.test_samples import SAMPLED, arguments, build, energy, flat
from .stand_in import Names, provided

TARGETS = "sm_80", "sm_90", "sm_100", "gfx942", "gfx1201"


class Seen(Names):
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


def generated(chosen=(), with_models=False) -> list:
    """(module, variant) of what operators, or models, launch."""
    asked, names = {}, {name for name, _ in SAMPLED if not chosen or name in chosen}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Seen, "asked", asked, raising=False)
        patch.setattr("tests.gpu.stand_in.Names", Seen)
        provided(patch, computes=False)
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
    try:
        made = compiled(module, variant, target)
    except Exception as reason:  # noqa: BLE001 - the table names it
        return f"{type(reason).__name__}: {' '.join(str(reason).split())[-160:]}"
    most = SHARED.get(target, MOST_SHARED) << 10
    return f"{made.metadata.shared} bytes of shared memory" if made.metadata.shared > most else ""


def main(*given) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.compiled")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--models", action="store_true")
    options = parser.parse_args(given)
    warnings.simplefilter("ignore")
    found, counts, start = generated(options.operators, options.models), collections.Counter(), time.process_time()
    for module, variant in found:
        for target in options.targets.split(","):
            wrong = judged(module, variant, target)
            counts[target, "fail" if wrong else "compile"] += 1
            if wrong:
                print(f"{target} {module.name} {module.form} {variant.block}: {wrong}", flush=True)
    print(f"{len(found)} kernels; " + ", ".join(f"{target}: {count} {verdict}" for (target, verdict), count
                                               in sorted(counts.items()))
          + f"; {time.process_time() - start:.0f} s of processor time")
    return sum(count for (_, verdict), count in counts.items() if verdict == "fail")


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
