"""Runs models in one process under one library and writes what came out: ``benchmarks/zoo.py`` starts it.

Under PyTorch (``judge``) results go to ``<folder>/<model>.pt``; here (``ours``) they are compared with those.  A
parameter is its mean plus its deviation times numbers that NumPy draws by its name, so that no weights need to be
stored; of large gradients a sample and the norm are.
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
import traceback
import zlib

import numpy as np

KEPT = 2000  # numbers of a tensor that are compared
# beside this file lie modules with names of libraries
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from benchmarks.zoos import build, language, suite_of  # noqa: E402


def still(model):
    """Switches off what draws random numbers."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("drop" in name or name == "p" and "Drop" in type(module).__name__):
                setattr(module, name, 0.0)
    configurations = [getattr(model, "config", None)]
    for config in configurations:
        for name, value in list(vars(config).items()) if config is not None else ():
            if isinstance(value, float) and "drop" in name:
                setattr(config, name, 0.0)
            elif name.endswith("_config") and hasattr(value, "__dict__"):
                configurations.append(value)


class Unset:
    """A block in which tensors are not filled with random numbers: large models take long to, and get other weights
    anyway."""

    def __init__(self, torch):
        self.places = [*((torch.Tensor, name) for name in ("uniform_", "normal_", "erfinv_")),
                       (torch.nn.init, "trunc_normal_")]

    def __enter__(self):
        self.kept = [getattr(holder, name) for holder, name in self.places]
        for holder, name in self.places:
            setattr(holder, name, lambda tensor, *args, **kwargs: tensor)

    def __exit__(self, *exception):
        for (holder, name), function in zip(self.places, self.kept):
            setattr(holder, name, function)


def scales(model, suite):
    """Mean and deviation of each parameter; at least a little of the latter, so that what begins as zero is seen
    too."""
    if suite == "images":  # by the number of inputs
        return {name: (0.0, (p[0].numel()) ** -0.5) if p.dim() > 1
                else (float(p.detach().nan_to_num().clamp(0, 1).mean()), 0.05)
                for name, p in model.named_parameters() if p.numel()}
    return {name: (float(p.detach().mean()), max(float(p.detach().std(correction=0)), 0.02))
            for name, p in model.named_parameters() if p.numel()}


def fill(torch, model, given):
    """Sets the parameters to numbers drawn by their names."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.numel():
                mean, deviation = given[name]
                drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(p.numel(), dtype=np.float32)
                p.copy_(torch.from_numpy(drawn).reshape(p.shape).to(p.dtype).mul_(deviation).add_(mean))


def tensors(torch, found):
    """The floating tensors in a tree of results, in order."""
    if isinstance(found, torch.Tensor):
        return [found] if found.is_floating_point() else []
    if isinstance(found, dict):
        found = list(found.values())
    return [t for each in found for t in tensors(torch, each)] if isinstance(found, (list, tuple)) else []


def sample(tensor):
    """Up to ``KEPT`` numbers of a tensor, and its norm and largest number."""
    flat = tensor.detach().double().reshape(-1)
    if flat.numel() == 0:
        return flat, 0.0, 0.0
    return flat[::flat.numel() // KEPT + 1].clone(), float(flat.norm()), float(flat.abs().max())


def named(values):
    return {name: sample(value) for name, value in values if value is not None and value.is_floating_point()}


def inputs(torch, made, double):
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in made.given.items()}
    return {name: t.double() if double and t.is_floating_point() else t for name, t in tensors.items()}


def train(torch, made, given, compute):
    """Outputs, and gradients of a weighted sum of them."""
    outputs = [t for t in tensors(torch, compute(made.model, **given)) if t.requires_grad or made.plain]
    graded = [t for t in outputs if t.requires_grad]
    if graded:
        sum((t * torch.linspace(-1, 1, t.numel(), dtype=t.dtype).reshape(t.shape)).sum() for t in graded).backward()
    parameters = list(made.model.named_parameters())
    return {"outputs": [sample(t) for t in outputs], "gradients": named((n, p.grad) for n, p in parameters)}


def step(torch, made, given):
    """The state after a step of AdamW, and what the model computes with it when it came back from a file."""
    model = made.model
    # with a large eps a step is a smooth function of gradients
    torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1.0).step()
    state = model.state_dict()
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.load_state_dict(torch.load(file, weights_only=True))
        outputs = tensors(torch, made.compute(model.eval(), **given))
    return {"after": named(state.items()), "evaluated": [sample(t) for t in outputs]}


def generated(torch, made):
    """Words by the likeliest next word, by beams, and with a cache of fixed size; None for models that write none."""
    if made.prompt is None:
        return None
    prompt = {name: torch.from_numpy(value) for name, value in made.prompt.items()}
    common = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "use_cache": True, **language.STARTS}
    model = made.model.eval()
    kinds = [{}, {"num_beams": 3},
             *([{"cache_implementation": "static"}] if getattr(model, "_can_compile_fullgraph", False) else [])]
    return [model.generate(**prompt, **common, **kind).tolist() for kind in kinds]


def differences(saved, found):
    """What is not as the judge found it, first what was computed first."""
    for part in (p for p in ("outputs", "gradients", "after", "evaluated") if p in found):
        theirs, own = ({str(k): v for k, v in enumerate(each)} if isinstance(each, list) else each
                       for each in (saved[part], found[part]))
        if set(theirs) != set(own):
            yield f"{part} of only one: {sorted(set(theirs) ^ set(own))[:4]}"
            continue
        scale = max((most for _, _, most in theirs.values() if np.isfinite(most)), default=0.0)
        for name, (values, norm, most) in theirs.items():
            ours, own_norm, _ = own[name]
            if tuple(values.shape) != tuple(ours.shape):
                yield f"{part} {name}: {tuple(ours.shape)} numbers instead of {tuple(values.shape)}"
                continue
            finite = np.isfinite(values.numpy())
            if (finite != np.isfinite(ours.numpy())).any():
                yield f"{part} {name}: infinite or undefined numbers in other places"
                continue
            size = max(most if np.isfinite(most) else 0.0, 1e-2 * scale)
            error = max(np.abs(values.numpy() - ours.numpy())[finite].max(initial=0.0),
                        abs(norm - own_norm) / max(len(values), 1) ** 0.5 if np.isfinite(norm) else 0.0)
            if not error <= 2e-3 * size + 1e-5:
                yield f"{part} {name}: differs by {error:.3g} of {size:.3g}"


def prepare(torch, name, saved, double):
    """The model in training mode with its weights, and its inputs."""
    torch.manual_seed(0)
    np.random.seed(0)
    suite = suite_of(name)
    with Unset(torch) if suite == "images" and saved is None else contextlib.nullcontext():
        made = build(torch, name)
    still(made.model)
    if saved is None:
        saved = {"scales": scales(made.model, suite),
                 "buffers": {n: b.clone() for n, b in made.model.named_buffers() if b is not None}}
    fill(torch, made.model, saved["scales"])
    with torch.no_grad():
        for n, b in made.model.named_buffers():
            if b is not None and b.is_floating_point() and b.numel():
                b.copy_(saved["buffers"][n])
    if double:
        made.model.double()
    return made.model.train() and made, saved, inputs(torch, made, double)


def judge(torch, name, path, options):
    made, saved, given = prepare(torch, name, None, options.double)
    found = {"generated": generated(torch, made)} if options.generate else {}
    made.model.train()
    found = {**saved, **found, **train(torch, made, given, made.compute), **step(torch, made, given)}
    torch.save(found, path)
    return {}


def graphs(torch, made, given):
    """In how many graphs the library captures the forward pass, and why it stopped."""
    found = torch._dynamo.explain(lambda **given: made.compute(made.model, **given))(**given)
    return {"graphs": found.graph_count, "breaks": [str(reason)[:200] for reason in found.break_reasons][:3]}


def judge_compiled(torch, name, path, options):
    made, saved, given = prepare(torch, name, torch.load(path), options.double)
    return graphs(torch, made, given)


def ours(torch, name, path, options):
    saved = torch.load(path)
    made, saved, given = prepare(torch, name, saved, options.double)
    wrong = []
    if options.generate and saved.get("generated") is not None:
        own = generated(torch, made)
        wrong += [f"generated by {kind}: {b} instead of {a}"
                  for kind, a, b in zip(("greedy", "beams", "static"), saved["generated"], own) if a != b]
        made.model.train()
    started = time.perf_counter()
    found = train(torch, made, given, made.compute)
    seconds = time.perf_counter() - started
    wrong += differences(saved, {**found, **step(torch, made, given)})
    return {"seconds": round(seconds, 2), "wrong": wrong[:3]}


def ours_compiled(torch, name, path, options):
    saved = torch.load(path)
    made, saved, given = prepare(torch, name, saved, options.double)
    counters = torch._dynamo.utils.counters
    torch._dynamo.reset()
    counters.clear()
    started = time.perf_counter()
    found = train(torch, made, given, torch.compile(lambda model, **given: made.compute(model, **given)))
    seconds = time.perf_counter() - started
    return {"seconds": round(seconds, 2), "graphs": counters["stats"]["unique_graphs"],
            "breaks": [reason[:200] for reason in counters["graph_break"]][:3],
            "wrong": list(differences(saved, found))[:3]}


def late(*_):
    raise TimeoutError("took too long")


def main(options):
    import torch

    signal.signal(signal.SIGALRM, late)
    work = globals()[options.worker + ("_compiled" if options.compiled else "")]
    for name in options.models.split(","):
        print(json.dumps({"started": name}), flush=True)
        signal.alarm(options.seconds)
        try:
            line = {"ok": True, **work(torch, name, os.path.join(options.folder, f"{name}.pt".replace(" ", "_")),
                                       options)}
            line["ok"] = not line.get("wrong")
        except Exception as error:
            line = {"ok": False, "error": f"{type(error).__name__}: {error}"[:500],
                    "trace": traceback.format_exc()[-3000:]}
        finally:
            signal.alarm(0)
        print(json.dumps({"name": name, **line}), flush=True)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    for flag in ("--worker", "--models", "--folder"):
        parser.add_argument(flag)
    for flag in ("--compiled", "--double", "--generate"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--seconds", type=int)
    main(parser.parse_args())
