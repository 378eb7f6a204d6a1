"""One model on one system, step by step; as a command, what a fresh process says of its first step and of its memory.

    python -m benchmarks.stepping nanogpt rushlight.compile --threads 2
    python -m benchmarks.stepping t5-train rushlight.compile --threads 1 --longest 30
"""
import argparse
import gc
import importlib
import json
import pathlib
import time

from .models.cases import CASES

SYSTEMS = ("rushlight.compile", "rushlight", "torch", "torch.compile")


class Stepper:
    """``step()`` returns the loss of a training step, or the sum of an inference's outputs."""

    def __init__(self, case, system, threads, autocast=False):
        name, _, compiled = system.partition(".")
        self.library = importlib.import_module(name)
        self.library.set_num_threads(threads)
        self.case = CASES[case]
        self.model = self.case.model(self.library)
        self.inputs, self.targets = self.case.data(self.library)
        self.forward = self.library.compile(self.model) if compiled else self.model
        self.precision = self.library.autocast("cpu", dtype=self.library.bfloat16, enabled=autocast)

    def forget(self):
        """Lets gradients go."""
        for parameter in self.model.parameters():
            parameter.grad = None

    def step(self):
        if self.case.loss is None:
            with self.library.no_grad(), self.precision:
                return self.forward(*self.inputs).sum().item()
        self.forget()
        with self.precision:
            loss = self.case.loss(self.library.nn.functional, self.forward(*self.inputs), *self.targets)
        loss.backward()
        return loss.item()


def status(row) -> float:
    """A row of this process's status, in megabytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(row)) / 1024


def peak_of(stepper) -> float:
    """Megabytes that one step holds at its height beyond what the process holds between steps: activations, gradients,
    scratch."""
    if stepper.library.__name__ == "rushlight":
        from rushlight._src.core.native.blocks import trim
    else:
        def trim():
            """The caller of this process has told the C library to give blocks back at once."""
    stepper.step()
    stepper.forget()
    gc.collect()
    trim()
    before = status("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    stepper.step()
    return status("VmHWM") - before


def show(stepper, count):
    """Prints the longest steps of the programs of the third step."""
    from rushlight.tools.steps import measured
    stepper.step()
    stepper.step()
    with measured() as table:
        stepper.step()
    print("\n".join(str(table).splitlines()[:count + 1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--began", type=float, default=None, help="time.monotonic() when this process was started")
    parser.add_argument("--memory", action="store_true", help="measure the memory of later steps too")
    parser.add_argument("--autocast", action="store_true", help="under autocast to bfloat16")
    parser.add_argument("--longest", type=int, metavar="N", help="show the N longest steps of our programs instead")
    options = parser.parse_args()
    if options.longest:
        show(Stepper(options.case, options.system, options.threads, options.autocast), options.longest)
        return
    began = time.monotonic() if options.began is None else options.began
    stepper = Stepper(options.case, options.system, options.threads, options.autocast)
    ready = time.monotonic()
    result = stepper.step()
    ended = time.monotonic()
    found = {"start": ended - began, "first step": ended - ready, "result": result}
    if options.memory:
        stepper.step()
        found["memory"] = peak_of(stepper)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
