"""Every operator's samples, with gradients, on a GPU that tests stand in for, kernels by Triton's interpreter, beside
the processor, as a table.

    python -m tests.gpu.operators                          # all operators
    python -m tests.gpu.operators softmax conv2d           # these
    python -m tests.gpu.operators --part 3/20 --minutes 9  # the third of twenty parts, as far as it comes in 9 minutes

It ends with an error if one differs.
"""
import argparse
import collections
import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep

from ..ops.test_samples import SAMPLED
from ..webgpu.operators import ABSOLUTE, RELATIVE, called
from .recorded import provided


def compared(provider, name: str, index: int) -> set:
    """Runs a sample on both; what the host computed for the device: names of primitives and operators."""
    wanted, _ = called(name, index, "cpu")
    before = HostStep.runs + provider.fallen_back
    found, places = called(name, index, "cuda")
    assert places <= {rl.device("cuda:0")} and len(found) == len(wanted) > 0
    for a, b in zip(found, wanted):
        if np.asarray(b).dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE)
        else:
            np.testing.assert_array_equal(a, b)
    return set(HostStep.runs + provider.fallen_back - before)


def verdict(provider, library, name: str, index: int) -> tuple:
    """("kernels", "falls back" or "fails", what the host computed or why it fails)."""
    try:
        helped = compared(provider, name, index)
        reason, library.failure = library.failure, None
        if reason is not None:
            raise reason
    except Exception as reason:  # noqa: BLE001 - the table names it
        library.failure = None
        return "fails", f"{type(reason).__name__}: {' '.join(str(reason).split())[:200]}"
    return ("falls back", ", ".join(sorted(helped))) if helped else ("kernels", "")


def main(*given) -> int:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.operators")
    parser.add_argument("names", nargs="*", help="operators; all where there are none")
    parser.add_argument("--part", default="1/1", help="k/n: of the samples each n-th, beginning with the k-th")
    parser.add_argument("--minutes", type=float, default=1e9, help="those that come later are left out")
    options = parser.parse_args(given)
    number, parts = map(int, options.part.split("/"))
    chosen = [(name, index) for name, index in SAMPLED if not options.names or name in options.names]
    counts, until = collections.Counter(), time.monotonic() + 60 * options.minutes
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        provider, library = provided(patch, pathlib.Path(folder))
        for name, index in chosen[number - 1::parts]:
            if time.monotonic() > until:
                counts["left out"] += 1
                continue
            found, why = verdict(provider, library, name, index)
            counts[found] += 1
            print(f"{found:11}{f'{name} {index}':40}{why}".rstrip(), flush=True)
    print(", ".join(f"{found}: {count}" for found, count in counts.most_common()))
    return counts["fails"]


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
