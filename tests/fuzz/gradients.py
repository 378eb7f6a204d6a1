"""Derivatives of every entry of PyTorch's operator database at the edges of its domain, beside torch's.

A sample's differentiable tensors are filled with zeros of both signs, ties, ones of both signs, infinities or NaN; the
gradients of the sum of the results must agree, NaN where NaN, infinite where infinite. So must the tangents of forward
mode, and second derivatives.

``python -m tests.fuzz.gradients`` prints all differences; ``--only var,std`` looks at some entries, ``--modes
tangents`` at forward mode alone; ``--seed 1`` draws ten times as many samples and values instead; ``--samples 10``
fills ten samples of each entry and prints what no table of test_gradients.py names.
"""
from __future__ import annotations

import argparse
import copy
import itertools
import math
import random
import warnings

import numpy as np
import torch

from torch.testing._internal.common_methods_invocations import op_db

import rushlight as rl
from rushlight._src.core.settings import settings

from ..ops.database import title
from .edges import CONSIDERED, ELEMENTS, called, changed, compared, elements_part, leaves, ours, plain

FILLS = {"zeros": (0.0, -0.0), "ties": (0.5, 0.5, 2.0), "ones": (1.0, -1.0, 0.0, 1.0), "thirds": (3.0, -3.0, 6.0, 0.0),
         "infinities": (math.inf, 0.5, -math.inf, 1.5), "infinity": (math.inf,), "minus infinity": (-math.inf,),
         "NaN": (math.nan, 0.5, 1.5)}
POOL = sorted({abs(v) for values in FILLS.values() for v in values if v == v}) + [
    -0.0, -0.5, -1.0, -3.0, -math.inf, math.nan, 1e-30, -1e-30, 1e30, -1e30]  # numbers that are drawn
DRAWN_SAMPLES, DRAWN_FILLS = 2, 5 * len(FILLS)  # with a seed
WEIGHTS = (1.0, -2.0, 0.5, 3.0, -1.5)  # of results and gradients that are summed up, and tangents


def is_differentiable(info):
    return compared(info) and info.supports_autograd and torch.float32 in info.supported_backward_dtypes("cpu")


ENTRIES = [info for info in op_db if is_differentiable(info)]


def fitting(info):
    """The small samples of an entry: (positional arguments, keywords)."""
    torch.manual_seed(0)
    made = [([s.input, *s.args], dict(s.kwargs)) for s in
            itertools.islice(info.sample_inputs("cpu", torch.float32, requires_grad=True), CONSIDERED)]
    return [s for s in made if plain(s) and 0 < sum(v.numel() for _, v in tensors(s)) <= ELEMENTS]


def draws(info, seed=None, several=None):
    """(name, places that want gradients, sample) for each filling of a sample, or of ``several``; with a seed, of
    several samples with numbers that are drawn."""
    samples = fitting(info)
    if several:
        random.Random(7).shuffle(samples)
        drawn = [(sample, f"{name} in {at}", lambda x, values=values: filled(x, values))
                 for at, sample in enumerate(samples[:several]) for name, values in FILLS.items()]
    elif seed is None:
        drawn = [(samples[len(samples) // 2], name, lambda x, values=values: filled(x, values))
                 for name, values in FILLS.items()] if samples else []
    else:
        rng = random.Random(f"{title(info)} {seed}")
        kept = rng.sample(samples, min(DRAWN_SAMPLES, len(samples)))
        pools = [rng.sample(POOL, rng.randint(2, 4)) for _ in range(DRAWN_FILLS)]
        drawn = [(sample, f"{pool} in {at}", lambda x, pool=pool: filled(x, rng.choices(pool, k=x.numel())))
                 for at, sample in enumerate(kept) for pool in pools]
    for sample, name, fill in drawn:
        places, made = [path for path, x in tensors(sample) if x.requires_grad], sample
        for path, x in tensors(sample):
            made = changed(made, path, lambda x: fill(x) if path in places else x.detach())
        yield name, places, made


def tensors(sample):
    return [(path, v) for path, v in leaves(sample) if isinstance(v, torch.Tensor)]


def filled(x, values):
    """A tensor of the same shape whose elements are these numbers in turn."""
    return torch.tensor([values[k % len(values)] for k in range(x.numel())], dtype=x.dtype).reshape(x.shape)


def gradients(package, name, sample, places, total=None):
    """The gradients of the sum of the results by the tensors at these places (None: no result wants any)."""
    inputs, results = wanting(package, name, sample, places)
    return slopes(package, (total or summed)(package, results), inputs)


def weighted_gradients(package, name, sample, places):
    """The same of a weighted sum."""
    return gradients(package, name, sample, places, weighted)


def second_derivatives(package, name, sample, places):
    """The gradients of a weighted sum of the gradients of a weighted sum of the results."""
    inputs, results = wanting(package, name, sample, places)
    first = slopes(package, weighted(package, results), inputs, create_graph=True)
    if first is None:
        return None
    # PyTorch gives some results of linear functions a history, whose gradients are 0
    return slopes(package, weighted(package, first), inputs) or [package.zeros_like(x) for x in inputs]


def slopes(package, total, inputs, create_graph=False):
    if total is None:
        return None
    found = package.autograd.grad(total, inputs, allow_unused=True, create_graph=create_graph)
    return [package.zeros_like(x) if g is None else g for x, g in zip(inputs, found)]


def tangents(package, name, sample, places):
    """The tangents of the results, where each element at these places has one."""
    forward = package.autograd.forward_ad
    with forward.dual_level():
        for path in places:
            sample = changed(sample, path, lambda x: forward.make_dual(x.detach(), weights(package, x)))
        results = [y for _, y in leaves([called(package, name, *sample)]) if isinstance(y, package.Tensor)]
        found = [forward.unpack_dual(y) for y in results if y.dtype.is_floating_point or y.dtype.is_complex]
        return [package.zeros_like(y) if t is None else t for y, t in found]


MODES = {"gradients": gradients, "weighted gradients": weighted_gradients, "tangents": tangents,
         "second derivatives": second_derivatives}
COMPARED = dict.fromkeys(MODES, 0)  # numbers of cases that had something to compare


def wanting(package, name, sample, places):
    """(the tensors at these places, which want gradients, the tensors among the results)."""
    inputs = []
    for path in places:
        sample = changed(sample, path, lambda x: inputs.append(x.requires_grad_()) or x)
    return inputs, [y for _, y in leaves([called(package, name, *sample)]) if isinstance(y, package.Tensor)]


def weights(package, x):
    """Numbers of the shape of a tensor, unlike those beside them."""
    return package.tensor([WEIGHTS[k % len(WEIGHTS)] for k in range(x.numel())], dtype=x.dtype).reshape(x.shape)


def weighted(package, values):
    """The sum of all elements, each times a number of its own (None: none wants a gradient)."""
    return summed(package, [y * weights(package, y) for y in values if y.requires_grad])


def summed(package, values):
    terms = [(y.real if y.is_complex() else y).sum() for y in values if y.requires_grad]
    return sum(terms[1:], terms[0]) if terms else None


def arrays(compute, *arguments):
    """What a mode computes as arrays, or the error."""
    try:
        found = compute(*arguments)
        return found and [x.detach().resolve_conj().resolve_neg().numpy() for x in found]
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return error


def differences(info, *modes, seed=None, several=None):
    """{mode: {name of a filling: text}} of the derivatives of an entry that part from torch's."""
    parted = {mode: {} for mode in modes}
    for name, places, made in draws(info, seed, several):
        for mode in modes:
            given = made if mode != "second derivatives" else in_double(made)  # rounding decides less
            with warnings.catch_warnings(), settings.set(kernels=False, store=False):
                warnings.simplefilter("ignore")
                mine = arrays(MODES[mode], rl, info.name, ours(given), places)
                theirs = arrays(MODES[mode], torch, info.name, copy.deepcopy(given), places)
            text = difference(theirs, mine)
            if text:
                parted[mode][name] = text
            COMPARED[mode] += theirs is not None and not isinstance(theirs, Exception)
    return parted


def in_double(sample):
    for path, x in tensors(sample):
        if x.dtype is torch.float32:
            sample = changed(sample, path, lambda x: x.double())
    return sample


def rounded(x):
    """0 where an element is small beside the largest finite one, or beside 1."""
    size = np.abs(x)
    return np.where(size < 1e-5 * np.max(size, where=np.isfinite(size), initial=1.0), 0, x)


def difference(theirs, mine):
    """How gradients part, or None; where PyTorch raises or has none nothing is compared."""
    if theirs is None or isinstance(theirs, Exception):
        return None
    if mine is None or isinstance(mine, Exception):
        return f"theirs {theirs}, ours {mine!r}"
    for k, (a, b) in enumerate(zip(theirs, mine, strict=True)):
        at = elements_part(rounded(a), rounded(b), 1e-3, False)
        if at is not None:
            return f"theirs {a.reshape(-1)[at]}, ours {b.reshape(-1)[at]} at {at} of tensor {k}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--samples", type=int, help="how many of each entry are filled")
    options = parser.parse_args()
    from .test_gradients import is_accepted  # which imports this module
    for info in ENTRIES:
        if not options.only or {info.name, title(info)} & set(options.only.split(",")):
            print("", title(info), end="\r", flush=True)
            found = differences(info, *options.modes.split(","), seed=options.seed, several=options.samples)
            for mode, fill, text in [(mode, *one) for mode, parted in found.items() for one in parted.items()]:
                if not options.samples or not is_accepted(info, mode, fill.split(" in ")[0]):
                    print(f"{mode}: {title(info)}: {fill}: {text}", flush=True)
    print(", ".join(f"{mode}: {count} compared" for mode, count in COMPARED.items()))


if __name__ == "__main__":
    main()
