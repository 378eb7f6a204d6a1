"""Every operator's samples on the first device of WebGPU beside the processor, as a table.

    python -m tests.webgpu.operators                 # all operators: which run by shaders alone, and what falls back
    python -m tests.webgpu.operators softmax conv2d  # these
"""
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


def single(array):
    """A tensor of an array, floats in float32."""
    return rl.tensor(array.astype(np.float32) if array.dtype.kind == "f" else array)


def called(name, index, where):
    """(results and gradients as arrays, the devices they lie on) of an operator's sample."""
    sample = OPS[name].traits["samples"][index]
    rl.manual_seed(0)
    operands = [build(rl, v, lambda a: single(a).to(where)) for v in arguments(name, sample)]
    leaves = [x.requires_grad_() for x in flat(operands) if x.is_floating_point()]
    results = list(flat([OPS[name](*operands, **sample.kwargs)]))
    tracked = [y for y in results if y.requires_grad]
    if tracked:
        sum(map(energy, tracked)).backward()
    seen = [y.detach() for y in results] + [x.grad for x in leaves if x.grad is not None]
    return [y.cpu().resolve_conj().resolve_neg().numpy() for y in seen], {y.device for y in seen}


def compared(name, index):
    """Runs a sample on both; what the host computed for the device: names of primitives and operators."""
    wanted, _ = called(name, index, "cpu")
    before = HostStep.runs + provider.fallen_back
    found, places = called(name, index, "webgpu")
    assert places <= {rl.device("webgpu:0")} and len(found) == len(wanted) > 0
    for a, b in zip(found, wanted):
        if np.asarray(b).dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE)
        else:
            np.testing.assert_array_equal(a, b)
    return set((HostStep.runs + provider.fallen_back - before))


def judged(name, indices):
    """(what the host computed for an operator's samples, why one failed: empty if none did)."""
    helped = set()
    for index in indices:
        try:
            helped |= compared(name, index)
        except Exception as reason:  # noqa: BLE001 - the table names it
            return helped, f"{type(reason).__name__}: {' '.join(str(reason).split())[:160]}"
    return helped, ""


def main(*chosen) -> int:
    warnings.simplefilter("ignore")
    samples, counts, reasons = collections.defaultdict(list), collections.Counter(), collections.Counter()
    for name, index in SAMPLED:
        if not chosen or name in chosen:
            samples[name].append(index)
    for name, indices in samples.items():
        helped, failure = judged(name, indices)
        verdict = "fails" if failure else "falls back" if helped else "shaders"
        counts[verdict] += 1
        reasons.update(() if failure else helped)
        print(f"{verdict:11}{name:36}{failure or ', '.join(sorted(helped))}".rstrip(), flush=True)
    print(f"{len(samples)} operators: {counts['shaders']} by shaders alone, {counts['falls back']} with help of the "
          f"host, {counts['fails']} fail")
    print("the host computes, of so many operators:", ", ".join(f"{k} {n}" for k, n in reasons.most_common()))
    return counts["fails"]


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
