"""The entries of PyTorch's database of operators on WebGPU beside PyTorch: which run by shaders alone, as a table.

    python -m tests.webgpu.database ../shared/conformance/conformance.py              # float32, 3 samples an entry
    python -m tests.webgpu.database ../shared/conformance/conformance.py add mul      # these entries
    python -m tests.webgpu.database ../shared/conformance/conformance.py --dtype int32 --every 4 --from 1

It ends with an error if an entry fails that is not among ``KNOWN``.
"""
import argparse
import collections
import os
import sys
import warnings

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep
from rushlight._src.devices.webgpu.provider import provider

from ..conformance import loaded

KNOWN = {
    "as_strided_scatter": "the gradient of a scalar's place, as on the processor",
    "matrix_exp": "the host's sums, in another order",
    "nextafter": "has no gradient, as on the processor",
    "nn.functional.conv_transpose3d": "the host's sums, in another order",
    "nn.functional.ctc_loss": "the host's sums, in another order",
    "tensor_split": "wants its places on the processor, as PyTorch does",
}

def on_device(bridge):
    """A bridge of the harness whose tensors lie on the device."""
    class Bridge(bridge):
        def tensor(self, value):
            made = super().tensor(value.detach()).to("webgpu")
            return made.requires_grad_() if value.requires_grad else made

        def back(self, value):
            return super().back(value.detach().cpu() if isinstance(value, rl.Tensor) else value)

    return Bridge


def judged(harness, torch, bridge, entry, options):
    """(the verdict of an entry, its reason or what the host computed)."""
    before = HostStep.runs + provider.fallen_back
    try:
        verdict, reason = harness.check_op(rl, torch, bridge, entry, options.dtype, options)
    except Exception as error:  # noqa: BLE001 - the table names it
        verdict, reason = "fails", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    helped = HostStep.runs + provider.fallen_back - before
    if verdict == "pass":
        return ("falls back", ", ".join(sorted(helped))) if helped else ("shaders", "")
    return verdict, reason


def counted(path: str, options, chosen=()) -> collections.Counter:
    """How many entries have which verdict: "shaders", "falls back", "fails", "skip", or "known" for a failure that is
    among ``KNOWN``.  Each is printed."""
    os.environ.setdefault("GALLIVM_PERF", "nopt")  # Mesa compiles each shader once, to run it on a few numbers
    harness = loaded(path)
    torch, counts = harness.torch_module(), collections.Counter()
    bridge, dtype = on_device(harness.Bridge)(rl, torch), getattr(torch, options.dtype)
    entries = [entry for entry in harness.database("ops") if dtype in entry.dtypes]
    for entry in entries[options.first::options.every]:
        name = harness.title(entry)
        if chosen and name not in chosen:
            continue
        verdict, reason = judged(harness, torch, bridge, entry, options)
        verdict = "known" if verdict == "fails" and name in KNOWN else verdict
        counts[verdict] += 1
        print(f"{verdict:11}{name:48}{reason}".rstrip(), flush=True)
    return counts


def parsed(*given: str):
    """The options of a run."""
    parser = argparse.ArgumentParser(prog="python -m tests.webgpu.database")
    parser.add_argument("harness")
    parser.add_argument("names", nargs="*", help="entries; all where there are none")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=3, help="of each entry")
    parser.add_argument("--every", type=int, default=1, help="judges each so-manieth entry")
    parser.add_argument("--from", type=int, default=0, dest="first", help="beginning with this one")
    parser.set_defaults(compiled=False, forward_only=False, seed=0)
    return parser.parse_args(given)


def main(*given: str) -> int:
    warnings.simplefilter("ignore")
    options = parsed(*given)
    counts = counted(options.harness, options, options.names)
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    return counts["fails"]


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
