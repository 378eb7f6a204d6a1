"""Gradients of every entry of PyTorch's operator database at the edges of its domain, beside torch's.

A sample's differentiable tensors are filled with zeros of both signs, ties, ones of both signs, infinities or NaN; the
gradients of the sum of the results must agree, NaN where NaN, infinite where infinite.

``python -m tests.fuzz.gradients`` prints all differences; ``python -m tests.fuzz.gradients var,std`` those of some
entries.
"""
from __future__ import annotations

import itertools
import math
import sys
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


def is_differentiable(info):
    return compared(info) and info.supports_autograd and torch.float32 in info.supported_backward_dtypes("cpu")


ENTRIES = [info for info in op_db if is_differentiable(info)]


def sample_of(info):
    """(positional arguments, keywords) of a small sample, or None."""
    torch.manual_seed(0)
    made = [([s.input, *s.args], dict(s.kwargs)) for s in
            itertools.islice(info.sample_inputs("cpu", torch.float32, requires_grad=True), CONSIDERED)]
    fitting = [s for s in made if plain(s) and 0 < sum(v.numel() for _, v in tensors(s)) <= ELEMENTS]
    return fitting[len(fitting) // 2] if fitting else None


def tensors(sample):
    return [(path, v) for path, v in leaves(sample) if isinstance(v, torch.Tensor)]


def filled(x, values):
    """A tensor of the same shape whose elements are these numbers in turn."""
    return torch.tensor([values[k % len(values)] for k in range(x.numel())], dtype=x.dtype).reshape(x.shape)


def gradients(package, name, sample, places):
    """The gradients of the tensors at these places as arrays (zeros where there is none), or the error."""
    try:
        inputs = []
        for path in places:
            sample = changed(sample, path, lambda x: inputs.append(x.requires_grad_()) or x)
        results = [y for _, y in leaves([called(package, name, *sample)]) if isinstance(y, package.Tensor)]
        total = sum((y.real if y.is_complex() else y).sum() for y in results if y.requires_grad)
        if not isinstance(total, package.Tensor):
            return None
        found = package.autograd.grad(total, inputs, allow_unused=True)
        return [(package.zeros_like(x) if g is None else g.resolve_neg()).detach().numpy()
                for x, g in zip(inputs, found)]
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return error


def differences(info):
    """{fill: text} of the gradients of an entry that part from torch's."""
    sample, parted = sample_of(info), {}
    if sample is None:
        return parted
    places = [path for path, x in tensors(sample) if x.requires_grad]
    for fill, values in FILLS.items():
        made = sample
        for path, x in tensors(sample):
            made = changed(made, path, lambda x: filled(x, values) if path in places else x.detach())
        with warnings.catch_warnings(), settings.set(kernels=False, store=False):
            warnings.simplefilter("ignore")
            mine = gradients(rl, info.name, ours(made), places)
            theirs = gradients(torch, info.name, made, places)
        text = difference(theirs, mine)
        if text:
            parted[fill] = text
    return parted


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
    only = sys.argv[1].split(",") if len(sys.argv) > 1 else None
    for info in ENTRIES[int(sys.argv[2]) if len(sys.argv) > 2 else 0:]:
        if only is None or info.name in only or title(info) in only:
            print("", title(info), end="\r", flush=True)
            for fill, text in differences(info).items():
                print(f"{title(info)}: {fill}: {text}", flush=True)


if __name__ == "__main__":
    main()
