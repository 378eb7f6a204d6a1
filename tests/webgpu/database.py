"""The entries of PyTorch's database of operators on WebGPU beside PyTorch: which run by shaders alone, as a table.

    python -m tests.webgpu.database ../shared/conformance/conformance.py         # float32, 3 samples an entry
    python -m tests.webgpu.database ../shared/conformance/conformance.py 10 add  # 10 samples, these entries
"""
import argparse
import collections
import sys
import warnings

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep
from rushlight._src.devices.webgpu.provider import provider

from ..conformance import loaded


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
        verdict, reason = harness.check_op(rl, torch, bridge, entry, "float32", options)
    except Exception as error:  # noqa: BLE001 - the table names it
        verdict, reason = "fails", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    helped = HostStep.runs + provider.fallen_back - before
    if verdict == "pass":
        return ("falls back", ", ".join(sorted(helped))) if helped else ("shaders", "")
    return verdict, reason


def main(path: str, samples="3", *chosen) -> int:
    warnings.simplefilter("ignore")
    harness = loaded(path)
    torch, counts = harness.torch_module(), collections.Counter()
    bridge = on_device(harness.Bridge)(rl, torch)
    options = argparse.Namespace(compiled=False, forward_only=False, seed=0, samples=int(samples))
    for entry in harness.database("ops"):
        name = harness.title(entry)
        if chosen and name not in chosen or torch.float32 not in entry.dtypes:
            continue
        verdict, reason = judged(harness, torch, bridge, entry, options)
        counts[verdict] += 1
        print(f"{verdict:11}{name:48}{reason}".rstrip(), flush=True)
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    return counts["fails"]


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
