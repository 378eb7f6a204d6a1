"""Entries of PyTorch's operator database, eager and compiled, with gradients, on arguments in memory that faults where
it is read or written out of bounds.

``python -m tests.fuzz.bounds_database`` runs all entries; ``--only roll,pad --forms eager --most 5`` some of them,
``--start N`` those from the N-th on.  A fault ends the process; the last line that it wrote names the entry.
"""
from __future__ import annotations

import argparse
import itertools
import sys
import warnings

import numpy as np
import torch

from torch.testing._internal.common_methods_invocations import op_db

import rushlight as rl

from ..ops.database import elements, filled, function, ours, tensors, title
from .bounds import ENDS, GuardedArray

CONSIDERED, ELEMENTS = 40, 2000  # samples of an entry that are considered; elements that one may have
DTYPES = torch.float32, torch.int64, torch.complex64, torch.bool
LAYOUTS = {"contiguous": lambda rank: (range(rank)[::-1], 1), "permuted": lambda rank: (range(rank), 1),
           "with gaps": lambda rank: (range(rank)[::-1], 2)}  # dimensions, innermost first; step between elements
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError, AssertionError)


def guarded(x, layout, at):
    """A tensor's elements in guarded memory."""
    array = x.detach().numpy()
    order, stride = LAYOUTS[layout](array.ndim)
    strides = [0] * array.ndim
    for d in order:
        strides[d], stride = stride * array.itemsize, stride * max(array.shape[d], 1)
    reach = sum(s * (n - 1) for s, n in zip(strides, array.shape)) // array.itemsize + 1 if array.size else 0
    memory = GuardedArray(np.zeros(reach, array.dtype), at).array
    laid = np.lib.stride_tricks.as_strided(memory, array.shape, strides)
    laid[...] = array
    return rl.from_numpy(laid).requires_grad_(x.requires_grad)


def samples_of(info, most: int):
    """Small samples of the first dtype that an entry takes."""
    dtype = next((d for d in DTYPES if d in info.dtypes), None)
    if dtype is None or function(info.name) is None:
        return []
    grad = info.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    made = []
    for s in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=grad), CONSIDERED):
        if 0 < elements((s.input, s.args, s.kwargs)) <= ELEMENTS:
            try:
                made.append((ours([s.input, *s.args]), ours(s.kwargs)))
            except (NotImplementedError, TypeError):
                continue
    return made[::max(len(made) // most, 1)][:most]


def outcome(call, sample, given):
    """Results and gradients as arrays, or the kind of the error."""
    rl.manual_seed(3)
    try:
        args, kwargs = filled(sample, given)
        results = [y for _, y in tensors([call(*args, **kwargs)])]
        wanted = [x for x in given.values() if x.requires_grad]
        live = [y for y in results if y.requires_grad]
        if wanted and live:
            results += [g for g in rl.autograd.grad([(y.real if y.is_complex() else y).sum() for y in live], wanted,
                                                    allow_unused=True) if g is not None]
        return [y.detach().resolve_conj().resolve_neg().numpy().copy() for y in results
                if y.layout is rl.strided and y.dtype is not rl.bfloat16]
    except REFUSALS as error:
        return type(error).__name__


def same(a, b) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return len(a) == len(b) and all(x.shape == y.shape and np.allclose(x, y, 1e-3, 1e-4, equal_nan=True)
                                    for x, y in zip(a, b))


def differences(info, most=2, forms=("eager", "compiled")):
    """The samples whose results on guarded memory are not those on ordinary memory, and how many were tried."""
    call, found, count = function(info.name), [], 0
    for k, sample in enumerate(samples_of(info, most)):
        plain = {path: x.detach().clone().requires_grad_(x.requires_grad) for path, x in tensors(sample)}
        wanted = outcome(call, sample, plain)
        for (form, at), layout in itertools.product(itertools.product(forms, ENDS),
                                                    list(LAYOUTS) if k == 0 else ["contiguous"]):
            given = {path: guarded(x, layout, at) for path, x in tensors(sample)}
            got = outcome(rl.compile(call) if form == "compiled" else call, sample, given)
            count += 1
            if not same(got, wanted):
                found.append((title(info), k, form, at, layout, got, wanted))
    return found, count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of entries, separated by commas")
    parser.add_argument("--start", type=int, default=0, help="the number of the first entry")
    parser.add_argument("--most", type=int, default=2, help="samples of an entry")
    parser.add_argument("--forms", default="eager,compiled")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    total = parted = 0
    for k, info in enumerate(op_db[options.start:], options.start):
        if options.only and not {info.name, title(info)} & set(options.only.split(",")):
            continue
        print(k, title(info), total, file=sys.stderr, flush=True)
        found, count = differences(info, options.most, options.forms.split(","))
        total, parted = total + count, parted + len(found)
        for one in found:
            print(*(str(part)[:200] for part in one), flush=True)
    print(f"{total} calls, {parted} differences")
    sys.exit(bool(parted))


if __name__ == "__main__":
    main()
