"""Predict the time and memory of a transformer's training step on many devices, and find the best parallelism plan.

    python -m rushlight.tools.scale --model 70B --devices 1024 [--batch 1024] [--svg step.svg] [--trace step.json]

Times of layers are a roofline of the device (or measured ones, ``Device.layer``), those of communication come from
``links.py``, and a step is simulated as stages run it: one microbatch forward, one backward in turn.
"""
from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from .links import Topology
from .plans import HALF, KEPT, MODELS, STATE, Device, Model, Plan
from .timeline import Span, chrome, svg


@dataclass
class Prediction:
    """Seconds of a step, bytes of memory of the fullest device, and what each stage does when."""

    plan: Plan
    seconds: float
    memory: float
    spans: list

    def utilization(self, model: Model, device: Device, batch: int) -> float:
        """The part of the devices' rate that the model's own operations need."""
        tokens = batch * model.sequence
        work = 3 * (model.layers * model.layer_work(tokens) + model.head_work(tokens))
        return work / (self.seconds * device.rate * self.plan.devices)


class Costs:
    """Seconds of the parts of a step under a plan."""

    def __init__(self, model: Model, plan: Plan, device: Device, links: Topology):
        self.model, self.plan, self.device, self.links = model, plan, device, links
        self.tokens, self.layers = plan.micro * model.sequence, model.layers / plan.pipeline
        self.stream = self.tokens * model.width * HALF
        self.weights = model.layer_parameters * HALF / plan.tensor
        summed = links.all_reduce(self.stream, plan.tensor) if plan.tensor > 1 else 0.0
        whole = links.all_gather(self.weights, plan.data, plan.tensor) if plan.shards and plan.data > 1 else 0.0
        self.forward_layer = self.beside(self.compute(), whole) + 2 * summed
        again = self.compute() + 2 * summed if plan.again else 0.0
        self.backward_layer = self.beside(2 * self.compute() + again, 2 * whole) + 2 * summed
        self.message = links.message(self.stream / plan.tensor, plan.tensor * plan.data)

    def beside(self, computing: float, exchanging: float) -> float:
        """Return the time of both, with a part of the communication overlapped."""
        return max(computing, self.device.overlap * exchanging) + (1 - self.device.overlap) * exchanging

    def compute(self) -> float:
        """A layer forward, on one device."""
        measured = self.device.layer.get((self.tokens, self.plan.tensor))
        if measured is not None:
            return measured
        moved = self.weights + 12 * self.stream / self.plan.tensor + 4 * self.stream
        return self.device.seconds(self.model.layer_work(self.tokens) / self.plan.tensor, moved)

    def head(self) -> float:
        """Logits and their loss, forward."""
        work = self.model.head_work(self.tokens) / self.plan.tensor
        return self.device.seconds(work, self.model.vocabulary * self.model.width * HALF / self.plan.tensor, 4)

    def stage(self, number: int, backward: bool) -> float:
        last = number == self.plan.pipeline - 1
        each = self.backward_layer if backward else self.forward_layer
        return self.layers * each + ((2 if backward else 1) * self.head() if last else 0.0)

    def gradients(self) -> float:
        """Return the time of the gradients' reduction that remains after the last backward."""
        if self.plan.data == 1 or self.plan.shards:
            return 0.0
        nbytes = (self.layers * self.model.layer_parameters + self.model.vocabulary * self.model.width) * HALF
        whole = self.links.all_reduce(nbytes / self.plan.tensor, self.plan.data, self.plan.tensor)
        hidden = self.device.overlap * min(whole, self.layers * self.backward_layer)
        return whole - hidden * (1 - 1 / max(self.layers, 1))

    def optimizer(self) -> float:
        """Reads and writes the state of this device's parameters."""
        return self.device.seconds(0.0, self.states() * 2, 1)

    def states(self) -> float:
        return self.stage_parameters() * STATE / (self.plan.data if self.plan.shards else 1)

    def stage_parameters(self) -> float:
        return (self.layers * self.model.layer_parameters
                + self.model.vocabulary * self.model.width * (2 if self.plan.pipeline == 1 else 1)) / self.plan.tensor

    def memory(self, microbatches: int) -> float:
        """Bytes of the fullest device, which is that of the first stage."""
        parts = self.plan.data if self.plan.shards else 1
        held = self.stage_parameters() * 2 * HALF / parts + self.states()
        gathered = 2 * 2 * self.weights if self.plan.shards else 0.0  # two layers' parameters and gradients at a time
        kept = self.layers * self.tokens * self.model.width * (HALF if self.plan.again else KEPT / self.plan.tensor)
        one = self.tokens * self.model.width * KEPT / self.plan.tensor if self.plan.again else 0.0
        logits = 6 * self.tokens * self.model.vocabulary / self.plan.tensor if self.plan.pipeline == 1 else 0.0
        return held + gathered + kept * min(microbatches, self.plan.pipeline) + one + logits


def order(stage: int, stages: int, microbatches: int) -> list:
    """Return the schedule of a stage: (is backward, microbatch), one forward and one backward once it is full."""
    ahead = min(stages - stage, microbatches)
    found = [(False, k) for k in range(ahead)]
    for k in range(microbatches):
        found.append((True, k))
        if ahead + k < microbatches:
            found.append((False, ahead + k))
    return found


def played(costs: Costs, microbatches: int) -> list:
    """The spans of a step: each stage runs its order as soon as what it needs has come."""
    stages = costs.plan.pipeline
    orders, at, free, done, spans = [order(s, stages, microbatches) for s in range(stages)], [0] * stages, [
        0.0] * stages, {}, []
    while any(at[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(orders[s]):
                backward, k = orders[s][at[s]]
                before = (s + 1 if backward else s - 1, backward, k)
                first = (s == stages - 1) if backward else s == 0
                if not first and before not in done:
                    break
                begin = max(free[s], 0.0 if first else done[before] + costs.message)
                end = begin + costs.stage(s, backward)
                spans.append(Span(s, "backward" if backward else "forward", f"microbatch {k}", begin, end))
                free[s] = done[s, backward, k] = end
                at[s] += 1
    for s in range(stages):
        for kind, name, seconds in (("exchange", "gradients", costs.gradients()),
                                    ("optimizer", "optimizer", costs.optimizer())):
            if seconds:
                spans.append(Span(s, kind, name, free[s], free[s] + seconds))
                free[s] += seconds
    return spans


def predicted(model: Model, plan: Plan, batch: int, device: Device | None = None,
              links: Topology | None = None) -> Prediction:
    """A step with ``batch`` sequences in all.  ValueError where they, or the layers, do not divide evenly.

    >>> found = predicted(MODELS["7B"], Plan(data=8, shards=True, micro=1), 64)
    >>> 1.0 < found.seconds < 10.0, found.memory < 80e9
    (True, True)
    """
    if batch % (plan.data * plan.micro) or model.layers % plan.pipeline:
        raise ValueError(f"{batch} sequences and {model.layers} layers do not divide evenly over {plan}")
    microbatches = batch // (plan.data * plan.micro)
    costs = Costs(model, plan, device or Device(), links or Topology())
    spans = played(costs, microbatches)
    return Prediction(plan, max(s.end for s in spans), costs.memory(microbatches), spans)


def powers(most: int) -> list:
    return [1 << k for k in range(most.bit_length()) if 1 << k <= most]


def plans(model: Model, devices: int, batch: int, node: int):
    """Yield the plans for ``devices`` devices, with tensor parallelism only within a host."""
    for tensor in powers(min(node, devices)):
        for pipeline in powers(devices // tensor):
            data, rest = divmod(devices, tensor * pipeline)
            if rest or model.layers % pipeline or batch % data:
                continue
            for micro in powers(min(batch // data, 8)):
                # more microbatches than this are played through in vain: bubbles are below a twentieth
                if batch % (data * micro) or batch // (data * micro) > 64 * pipeline:
                    continue
                for shards in (False, True) if data > 1 else (False,):
                    for again in (False, True):
                        yield Plan(data, tensor, pipeline, shards, micro, again)


def best(model: Model, devices: int, batch: int, device: Device | None = None, links: Topology | None = None,
         count: int = 1) -> list:
    """The fastest plans whose memory suffices.  ValueError where there is none."""
    device, links = device or Device(), links or Topology()
    found = []
    for plan in plans(model, devices, batch, links.node):
        costs = Costs(model, plan, device, links)
        if costs.memory(batch // (plan.data * plan.micro)) <= 0.92 * device.memory:
            found.append(predicted(model, plan, batch, device, links))
    if not found:
        raise ValueError(f"no plan for {devices} devices with {device.memory / 1e9:.0f} GB holds this model")
    return sorted(found, key=lambda each: each.seconds)[:count]


def main(arguments=None):
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--model", choices=MODELS, default="7B")
    reader.add_argument("--devices", type=int, default=8)
    reader.add_argument("--batch", type=int, default=None,
                        help="sequences of a step (default: 4 a device, at least 64)")
    reader.add_argument("--memory", type=float, default=80.0, help="GB of a device")
    reader.add_argument("--count", type=int, default=5, help="how many plans are shown")
    reader.add_argument("--svg", type=Path, help="a picture of the best plan's step")
    reader.add_argument("--trace", type=Path, help="the same for chrome://tracing")
    options = reader.parse_args(arguments)
    model, device = MODELS[options.model], Device(memory=options.memory * 1e9)
    batch = options.batch or max(64, 4 * options.devices)
    found = best(model, options.devices, batch, device, count=options.count)
    for each in found:
        print(f"{each.seconds * 1e3:10.1f} ms  {each.memory / 1e9:6.1f} GB  "
              f"{100 * each.utilization(model, device, batch):5.1f} % of the rate  {each.plan}")
    if options.svg:
        options.svg.write_text(svg(found[0].spans, f"{options.model} on {options.devices} devices: {found[0].plan}"))
    if options.trace:
        options.trace.write_text(chrome(found[0].spans))


if __name__ == "__main__":
    main()
