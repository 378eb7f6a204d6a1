"""Every operator's samples on the first device of WebGPU beside the processor, as a table.

    python -m tests.webgpu.operators                 # all operators: which run by shaders alone, and what falls back
    python -m tests.webgpu.operators softmax conv2d  # these
    python -m tests.webgpu.operators --dtype float16 # floats in another dtype
"""
import argparse
import collections
import sys
import warnings

import numpy as np

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.devices.webgpu.provider import provider
from rushlight._src.devices.shared.host import HostStep

from ..ops.test_samples import SAMPLED, arguments, build, energy, flat

RELATIVE, ABSOLUTE = 2e-4, 2e-5  # of float32: other orders of sums, other functions of the driver
# by floating-point dtype: for float16, a few units of the last place, since sums are rounded once more than elsewhere
FLOOR = 170  # operators whose samples run by shaders alone in float32, where the adapter has 64-bit types
HALVES = rl.float16, rl.bfloat16
TOLERANCES = {"float32": (RELATIVE, ABSOLUTE), "float16": (5e-3, 5e-3), "bfloat16": (4e-2, 4e-2)}


def floating(array, dtype):
    """A tensor of an array, floats in a dtype."""
    return rl.tensor(array.astype(np.float32)).to(getattr(rl, dtype)) if array.dtype.kind == "f" else rl.tensor(array)


def called(name, index, where, dtype="float32"):
    """(results and gradients as arrays, the devices they lie on) of an operator's sample."""
    sample = OPS[name].traits["samples"][index]
    rl.manual_seed(0)
    operands = [build(rl, v, lambda a: floating(a, dtype).to(where)) for v in arguments(name, sample)]
    leaves = [x.requires_grad_() for x in flat(operands) if x.is_floating_point()]
    results = list(flat([OPS[name](*operands, **sample.kwargs)]))
    tracked = [y for y in results if y.requires_grad]
    if tracked:
        sum(map(energy, tracked)).backward()
    seen = [y.detach() for y in results] + [x.grad for x in leaves if x.grad is not None]
    seen = [(y.float() if y.dtype in HALVES else y, y.device) for y in seen]
    return [y.cpu().resolve_conj().resolve_neg().numpy() for y, _ in seen], {where for _, where in seen}


def compared(name, index, dtype="float32"):
    """Runs a sample on both; what the host computed for the device: names of primitives and operators."""
    wanted, _ = called(name, index, "cpu", dtype)
    before = HostStep.runs + provider.fallen_back
    found, places = called(name, index, "webgpu", dtype)
    assert places <= {rl.device("webgpu:0")} and len(found) == len(wanted) > 0
    for a, b in zip(found, wanted):
        if np.asarray(b).dtype.kind in "fc":
            relative, absolute = TOLERANCES[dtype]
            np.testing.assert_allclose(a, b, rtol=relative, atol=absolute)
        else:
            np.testing.assert_array_equal(a, b)
    return set((HostStep.runs + provider.fallen_back - before))


def refused(name, index, dtype) -> str:
    """What the processor says that does not take a sample in a dtype; empty where it does."""
    try:
        called(name, index, "cpu", dtype)
    except (RuntimeError, NotImplementedError) as reason:
        return f"{type(reason).__name__}: {reason}"
    return ""


def judged(name, indices, dtype="float32"):
    """(what the host computed for an operator's samples, why one failed: empty if none did); samples that the processor
    refuses in a dtype are left out, and None is what the host computed where those are all."""
    taken = [index for index in indices if dtype == "float32" or not refused(name, index, dtype)]
    helped = set() if taken else None
    for index in taken:
        try:
            helped |= compared(name, index, dtype)
        except Exception as reason:  # noqa: BLE001 - the table names it
            return helped, f"{type(reason).__name__}: {' '.join(str(reason).split())[:160]}"
    return helped, ""


def main(*given) -> int:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(prog="python -m tests.webgpu.operators")
    parser.add_argument("names", nargs="*", help="operators; all where there are none")
    parser.add_argument("--dtype", default="float32", choices=TOLERANCES)
    options = parser.parse_args(given)
    chosen = options.names
    samples, counts, reasons = collections.defaultdict(list), collections.Counter(), collections.Counter()
    for name, index in SAMPLED:
        if not chosen or name in chosen:
            samples[name].append(index)
    for name, indices in samples.items():
        helped, failure = judged(name, indices, options.dtype)
        verdict = "fails" if failure else "refused" if helped is None else "falls back" if helped else "shaders"
        counts[verdict] += 1
        reasons.update(() if failure else helped or ())
        print(f"{verdict:11}{name:36}{failure or ', '.join(sorted(helped or ()))}".rstrip(), flush=True)
    print(f"{len(samples)} operators: {counts['shaders']} by shaders alone, {counts['falls back']} with help of the "
          f"host, {counts['refused']} refused on the processor too, {counts['fails']} fail")
    print("the host computes, of so many operators:", ", ".join(f"{k} {n}" for k, n in reasons.most_common()))
    short = not chosen and options.dtype == "float32" and counts["shaders"] < FLOOR
    return counts["fails"] + short


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
