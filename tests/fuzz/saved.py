"""Tensors written in place between the forward and the backward pass, for every entry of PyTorch's operator database.

A sample's differentiable tensors are made non-leaf inputs; then one of them, or one result, is written.  The gradients
must be those of the values at the time of the call (``expected``), or the backward pass must raise; it may raise only
if PyTorch's does.

``python -m tests.fuzz.saved`` prints all differences; ``--only relu,softmax --modes eager`` those of some entries and
modes.
"""
from __future__ import annotations

import argparse
import itertools
import warnings

import numpy as np
import torch

from torch.testing._internal.common_methods_invocations import op_db

import rushlight as rl
from rushlight._src.core.settings import settings

from ..ops.database import title
from .edges import called, changed, leaves, ours, place, plain

CONSIDERED, ELEMENTS = 40, 450  # samples of an entry that are considered; elements that one may have
WRITES = {"mul_": lambda x: x.mul_(2), "zero_": lambda x: x.zero_()}
FACTORS = {"mul_": 2.0, "zero_": 0.0}  # of the gradient through a result that was written so
DTYPES = ("float64", "float32", "complex64", "bfloat16")
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)


class WriteRefused(Exception):
    """The write itself raised."""


def is_differentiable(info):
    return (info.supports_autograd and not info.name.startswith(("_", "masked.", "signal."))
            and "sparse" not in info.name
            and place(rl, info.name) is not None and place(torch, info.name) is not None)


ENTRIES = [info for info in op_db if is_differentiable(info)]


def samples_of(info, dtype) -> list:
    """[(positional arguments, keywords)] of small samples that differ in form."""
    torch.manual_seed(0)
    made, forms = [], set()
    for s in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=True), CONSIDERED):
        sample = [s.input, *s.args], dict(s.kwargs)
        if not plain(sample) or not 0 < sum(v.numel() for _, v in tensors(sample)) <= ELEMENTS:
            continue
        form = str([(path, type(v).__name__, v.dim() if isinstance(v, torch.Tensor) else v)
                    for path, v in leaves(sample)])
        if form not in forms:
            forms.add(form)
            made.append(sample)
    return made


def tensors(sample):
    return [(path, v) for path, v in leaves(sample) if isinstance(v, (torch.Tensor, rl.Tensor))]


class Call:
    """One call of an entry by a package, with non-leaf inputs, in a mode (see ``MODES``)."""

    def __init__(self, package, name, sample, places, mode="eager"):
        package.manual_seed(0)
        self.package, self.inputs, self.mode = package, [], mode
        for path in places:
            sample = changed(sample, path, self.leaf)
        self.given = [x * 1 for x in self.inputs]

        def run(*given):
            filled = sample
            for path, x in zip(places, given):
                filled = changed(filled, path, lambda _, x=x: x)
            return tuple(y for _, y in leaves([called(package, name, *filled)]) if isinstance(y, package.Tensor))

        found = MODES[mode](package, run, self.given)
        self.results = [y for y in found if y.requires_grad]

    def leaf(self, x):
        self.inputs.append(x.detach().clone().requires_grad_())
        return self.inputs[-1]

    def loss(self, factors):
        """A sum of the results' elements with differing weights, each result times its factor."""
        return sum(self.weighted(y, factor) for y, factor in zip(self.results, factors))

    def weighted(self, y, factor=1.0):
        weights = self.package.linspace(0.5, 1.5, y.numel(), dtype=self.package.float32).reshape(y.shape) * factor
        return ((y.real if y.is_complex() else y) * weights).sum()

    def gradients(self, loss):
        again = self.mode == "double"
        found = self.package.autograd.grad(loss, self.inputs, allow_unused=True, create_graph=again)
        if again:
            wanted = [g for g in found if g is not None and g.requires_grad]
            if wanted:
                total = sum(map(self.weighted, wanted))
                found += self.package.autograd.grad(total, self.inputs, allow_unused=True)
        return [self.package.zeros(()) if g is None else g.detach().resolve_neg().resolve_conj().contiguous()
                for g in found]


def run_hooked(package, run, given):
    """With hooks that keep what they are given."""
    with package.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        return run(*given)


def run_checkpointed(package, run, given):
    from importlib import import_module
    checkpoint = import_module(f"{package.__name__}.utils.checkpoint").checkpoint
    return checkpoint(run, *given, use_reentrant=False)


def run_compiled(package, run, given):
    return (package.compile(run, backend="eager") if package is torch else package.compile(run))(*given)


MODES = {"eager": lambda package, run, given: run(*given), "double": lambda package, run, given: run(*given),
         "hooks": run_hooked, "checkpoint": run_checkpointed, "compiled": run_compiled}
JUDGED = ("eager", "double", "hooks")  # modes in which PyTorch says what may raise


def outcome(package, name, sample, places, where, how, mode):
    """The gradients after a write to input or result number ``where[1]``, or the error of the backward pass."""
    call = Call(package, name, sample, places, mode)
    ones = [1.0] * len(call.results)
    kind, k = where
    loss = call.loss(ones) if kind == "input" else None
    try:
        WRITES[how]((call.given if kind == "input" else call.results)[k])
    except REFUSALS as error:
        raise WriteRefused from error
    try:
        return call.gradients(call.loss(ones) if loss is None else loss)
    except RuntimeError as error:
        return error


def expected(name, sample, places, where, how, mode):
    """The gradients of the values at the time of the call."""
    call = Call(rl, name, sample, places, mode)
    factors = [FACTORS[how] if where == ("result", k) else 1.0 for k in range(len(call.results))]
    return call.gradients(call.loss(factors))


def shares_memory(call) -> bool:
    """True if elements of the results share memory with others."""
    owners = [y.untyped_storage().data_ptr() for y in call.results]
    return len(set(owners)) < len(owners) or any(len(positions(y)) < y.numel() for y in call.results)


def positions(y) -> set:
    """The offsets of a tensor's elements in its storage."""
    return {sum(k * s for k, s in zip(index, y.stride())) for index in np.ndindex(tuple(y.shape))}


def agree(a, b) -> bool:
    """True if two lists of gradients are the same up to rounding."""
    return len(a) == len(b) and all(
        x.shape == y.shape and np.allclose(x.double().numpy() if x.dtype is rl.bfloat16 else x.numpy(),
                                           y.double().numpy() if y.dtype is rl.bfloat16 else y.numpy(),
                                           rtol=1e-4, atol=1e-6, equal_nan=True) for x, y in zip(a, b))


def differences(info, dtype="float64", most=None, mode="eager"):
    """[(sample, place of the write, write, text)] of one entry."""
    if getattr(torch, dtype) not in info.supported_backward_dtypes("cpu"):
        return []
    parted = []
    with warnings.catch_warnings(), settings.set(kernels=False, store=False):
        warnings.simplefilter("ignore")
        for number, sample in enumerate(samples_of(info, getattr(torch, dtype))[:most]):
            places = [path for path, x in tensors(sample) if x.requires_grad]
            try:
                mirrored = ours(sample)
                call = Call(rl, info.name, mirrored, places, mode)
                call.gradients(call.loss([1.0] * len(call.results)))
            except (*REFUSALS, AttributeError):
                continue
            kinds = [("input", k) for k in range(len(places))]
            kinds += [("result", k) for k in range(len(call.results))] if not shares_memory(call) else []
            for where, how in itertools.product(kinds, WRITES):
                text = difference(info.name, sample, mirrored, places, where, how, mode)
                if text:
                    parted.append((number, where, how, text))
    return parted


def difference(name, sample, mirrored, places, where, how, mode):
    """How a write is answered otherwise than it may be, or None."""
    try:
        mine = outcome(rl, name, mirrored, places, where, how, mode)
    except WriteRefused:
        return None  # tests/fuzz/writes.py compares these
    if isinstance(mine, list):
        wanted = expected(name, mirrored, places, where, how, mode)
        return None if agree(mine, wanted) else f"silently wrong: {mine} instead of {wanted}"
    if mode not in JUDGED:
        return None
    try:
        theirs = outcome(torch, name, sample, places, where, how, mode)
    except (WriteRefused, *REFUSALS):
        return None
    return f"refused: {mine!r}" if isinstance(theirs, list) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of entries, separated by commas")
    parser.add_argument("--start", type=int, default=0, help="the number of the first entry")
    parser.add_argument("--most", type=int, help="samples of an entry")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    options = parser.parse_args()
    for info in ENTRIES[options.start:]:
        if options.only and not {info.name, title(info)} & set(options.only.split(",")):
            continue
        print("", title(info), end="\r", flush=True)
        for dtype, mode in itertools.product(options.dtypes.split(","), options.modes.split(",")):
            for number, where, how, text in differences(info, dtype, options.most, mode):
                print(f"{title(info)} {dtype} {mode}: sample {number}, {' '.join(map(str, where))}, {how}: "
                      f"{text[:300]}", flush=True)


if __name__ == "__main__":
    main()
