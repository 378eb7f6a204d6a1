"""Every entry of PyTorch's operator database at the edges: values, forms and arguments that programs rarely give,
beside torch's.

A sample is changed in one place: elements become infinities, NaN, zeros of both signs, the least and the greatest
numbers; tensors become empty, 0-dim, of size 1 or of another dtype; numbers become truths, floats, huge, negative or
nothing.  Values (NaN where NaN, the sign of each zero), dtypes, shapes and the types of errors must agree.

``python -m tests.fuzz.edges --most 400`` goes further than the test does; ``--only roll,repeat`` looks at some entries.
Entries run in processes of their own, since PyTorch's may end.
"""
from __future__ import annotations

import argparse
import copy
import itertools
import math
import multiprocessing
import random
import re
import resource
import warnings
import zlib

import numpy as np
import torch

from torch.testing._internal.common_methods_invocations import BinaryUfuncInfo, UnaryUfuncInfo, op_db

import rushlight as rl

DTYPES = ("float32", "int64", "int32", "bool", "complex64")  # of samples
OTHERS = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
CONSIDERED, ELEMENTS = 30, 150  # samples of an entry and dtype; elements that one may have
FLOATS = (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, -1.0, 0.5, -2.5, 1e-42, -1e-42, 1e30, -1e30,
          3.4028234663852886e38, 1.1754943508222875e-38)
NUMBERS = {int: (-1, 0, 1, 7, -9, 1 << 40, (1 << 63) - 1, -(1 << 63), 1 << 63, True, False, 1.0, 1.5, math.nan, None,
                 "a", 1j),
           float: (0.0, -0.0, -1.0, 0.5, 1e300, -1e300, 1e-300, math.inf, -math.inf, math.nan, 2, True, None, "a", 1j),
           bool: (True, False, 0, 1, None, 1.0), type(None): (0, -1, True, 0.5)}
ERRORS = (NotImplementedError, IndexError, TypeError, ValueError, OverflowError, RuntimeError)
UNIMPLEMENTED = re.compile(
    r"not implemented for|not supported|unsupported|not support|could not run|not yet implemented|NYI|only supports",
    re.I)


def place(package, name):
    """What users call by that name: a function where there is one, or a method."""
    found = package
    for part in name.split("."):
        found = getattr(found, part, None)
    found = found if callable(found) else getattr(package.Tensor, name, None)
    return found if callable(found) else None


def called(package, name, args, kwargs):
    if name == "__getitem__":
        return args[0][args[1]]
    if name == "einsum":
        return package.einsum(args[1], args[0])
    if name.endswith("polygamma"):
        args = [args[1], args[0], *args[2:]]
    if name == "where":
        args = [args[1], args[0], *args[2:]]
    if name == "nn.functional.embedding":
        args = [args[1], args[0], *args[2:]]
    if name.endswith("_") and not name.endswith("__"):
        args = [args[0].clone(), *args[1:]]
    return place(package, name)(*args, **kwargs)


# --- changes ----------------------------------------------------------------------------------------------------------
def leaves(value, path=()):
    """(path, value) of what is no list, tuple or dict among nested values; lists of numbers count as such, too."""
    if isinstance(value, (list, tuple, dict)):
        if path and isinstance(value, (list, tuple)) and len(path) > 1:
            yield path, value
        for k, v in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(v, (*path, k))
    else:
        yield path, value


def changed(value, path, change):
    if not path:
        return change(value)
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = changed(made[path[0]], path[1:], change)
    return tuple(made) if isinstance(value, tuple) else made


def edged(x, shift):
    """A tensor of the same shape and dtype, filled with what lies at the edges of that dtype."""
    if x.dtype is torch.bool:
        values = [False, True]
    elif x.dtype.is_floating_point or x.dtype.is_complex:
        values = FLOATS
    else:
        info = torch.iinfo(x.dtype)
        values = [v for v in (0, 1, -1, 2, -7, info.min, info.max, 3, 40, 64) if info.min <= v <= info.max]
    filled = [values[(k * (1 + shift) + 3 * shift + k // len(values)) % len(values)] for k in range(x.numel())]
    made = torch.tensor(filled, dtype=torch.float64 if x.dtype.is_complex else x.dtype).reshape(x.shape)
    return torch.complex(made.float(), made.flip(0).float() if made.dim()
                         else made.float()).to(x.dtype) if x.dtype.is_complex else made


FORMS = {"empty": lambda x: x.narrow(0, 0, 0) if x.dim() else x.new_empty(0),
         "0-dim": lambda x: x.reshape(-1)[:1].sum().to(x.dtype), "size 1": lambda x: x[(slice(0, 1),) * x.dim()],
         "one more dimension": lambda x: x.unsqueeze(0), "one less": lambda x: x[0],
         "longer": lambda x: torch.cat([x, x[:1]]),
         "no last": lambda x: x[..., :0], "as number": lambda x: x.item(), "as list": lambda x: x.tolist(),
         "None": lambda x: None}


def changes(sample):
    """(name, arguments) of every change of one place, and of all tensors together."""
    tensors = [(p, v) for p, v in leaves(sample) if isinstance(v, torch.Tensor)]
    yield "as it is", sample
    for shift in range(4):
        for chosen in ([0], range(len(tensors))):
            made = sample
            for k in [c for c in chosen if c < len(tensors)]:
                made = changed(made, tensors[k][0], lambda x, k=k: edged(x, shift + 2 * k))
            yield f"edges {shift} {'first' if chosen == [0] else 'all'}", made
    for name, form in FORMS.items():
        for chosen in ([k] for k in range(len(tensors))):
            yield from attempted(f"{name} {chosen}", sample, [tensors[k][0] for k in chosen], form)
        if len(tensors) > 1:
            yield from attempted(f"{name} all", sample, [p for p, _ in tensors], form)
    for dtype in OTHERS:
        for path, _ in tensors:
            yield from attempted(f"{dtype} {path}", sample, [path], lambda x: x.to(getattr(torch, dtype)))
    for path, x in tensors:
        if not x.dtype.is_floating_point and not x.dtype.is_complex and x.dtype is not torch.bool and x.numel():
            for number in (-1, -100, 100, torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max):
                yield from attempted(f"{number} in {path}", sample, [path],
                                     lambda x: torch.cat([x.reshape(-1)[:-1], torch.full((1,), number, dtype=x.dtype)])
                                     .reshape(x.shape))
    for path, v in leaves(sample):
        for other in NUMBERS.get(type(v), ()):
            yield f"{other!r} at {path}", changed(sample, path, lambda _: other)
        if isinstance(v, (list, tuple)) and v and not any(isinstance(i, torch.Tensor) for i in v):
            for name, other in {"none": v[:0], "one": v[:1], "more": v + v[:1], "first": v[0],
                                "as list": list(v)}.items():
                yield f"{name} of {path}", changed(sample, path, lambda _: other)


def attempted(name, sample, paths, form):
    try:
        made = sample
        for path in paths:
            made = changed(made, path, form)
    except (IndexError, RuntimeError, ValueError):
        return
    yield name, made


# --- outcomes ---------------------------------------------------------------------------------------------------------
def ours(value):
    """What PyTorch's samples hold, as ours."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        plain = value.to(torch.float32) if value.dtype is torch.bfloat16 else value
        return rl.from_numpy(plain.numpy().copy()).to(getattr(rl, str(value.dtype).split(".")[-1]))
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(rl, str(value).split(".")[-1])
    if isinstance(value, dict):
        return {k: ours(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(ours, value))
    return value


def outcome(package, name, args, kwargs):
    """What a call gives: the kind of its error, or its results."""
    try:
        found = called(package, name, args, kwargs)
        return list(results(package, found))
    except Exception as error:  # noqa: BLE001 - its type is compared
        return error


def results(package, value):
    if isinstance(value, package.Tensor):
        x = value.detach()
        if x.layout is not package.strided:
            x = x.to_dense()
        x = x.resolve_conj().resolve_neg() if package is torch else x
        x = x.contiguous()
        name = str(x.dtype).split(".")[-1]
        yield name, tuple(x.shape), (x.to(package.float32) if name == "bfloat16" else x).numpy()
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from results(package, v)
    elif isinstance(value, (bool, int, float, complex)):
        yield type(value).__name__, (), np.asarray(value)
    else:
        yield type(value).__name__, (), np.asarray(0)


LOOSE = {"float32": 1e-3, "complex64": 1e-3, "float16": 2e-2, "bfloat16": 1e-1, "float64": 1e-6, "complex128": 1e-6}


def kind_of(error):
    return next((k for k in ERRORS if isinstance(error, k)), type(error))


def difference(theirs, mine, signs=True):
    """(category, text) of how two outcomes part, or None."""
    if isinstance(theirs, Exception) and isinstance(mine, Exception):
        if kind_of(theirs) is kind_of(mine) or UNIMPLEMENTED.search(str(theirs)):
            return None
        return "error", f"theirs {told(theirs)}, ours {told(mine)}"
    if isinstance(theirs, Exception):
        return None if UNIMPLEMENTED.search(str(theirs)) else ("accepts", f"theirs {told(theirs)}, ours {told(mine)}")
    if isinstance(mine, Exception):
        return "refuses", f"theirs {told(theirs)}, ours {told(mine)}"
    if [t[:2] for t in theirs] != [m[:2] for m in mine]:
        return "form", f"theirs {[t[:2] for t in theirs]}, ours {[m[:2] for m in mine]}"
    for (dtype, _, a), (_, _, b) in zip(theirs, mine):
        parted = elements_part(a, b, LOOSE.get(dtype, 1e-6), signs)
        if parted is not None:
            return "value", f"theirs {a.reshape(-1)[parted]}, ours {b.reshape(-1)[parted]} at {parted}"
    return None


def elements_part(a, b, tolerance, signs):
    """Where two arrays differ first, or None: NaN and infinities as such (of complex numbers that they are not finite),
    with ``signs`` the sign of zero."""
    if a.dtype.kind not in "fc":
        same = a == b
    else:
        with np.errstate(all="ignore"):
            a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
            near = np.abs(a - b) <= tolerance * np.abs(a) + tolerance * 1e-4
            if a.dtype.kind == "c":
                same = np.where(np.isfinite(a), near, ~np.isfinite(b))
            else:
                same = np.where(np.isnan(a), np.isnan(b), np.where(np.isfinite(a), near, a == b))
                same &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b)) | (not signs)
    return None if same.all() else int(np.flatnonzero(~same.reshape(-1))[0])


def told(value):
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value).splitlines()[0][:150] if str(value) else ''}"
    return str([(d, s, a.reshape(-1)[:6].tolist()) for d, s, a in value])[:200]


# --- the hunt ---------------------------------------------------------------------------------------------------------
def plain(value):
    """Whether samples are of what has a counterpart."""
    return all(not isinstance(v, torch.Tensor)
               and (v is None or isinstance(v, (bool, int, float, complex, str, torch.dtype, torch.memory_format,
                                                slice)) or v is Ellipsis)
               or isinstance(v, torch.Tensor) and v.layout is torch.strided for _, v in leaves(value)
               if not isinstance(v, (list, tuple)))


def samples(info, rng, count):
    for dtype in DTYPES:
        kind = getattr(torch, dtype)
        if kind not in info.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        made = [([s.input, *s.args], dict(s.kwargs))
                for s in itertools.islice(info.sample_inputs("cpu", kind), CONSIDERED)]
        fitting = [s for s in made if plain(s) and sum(v.numel() for _, v in leaves(s) if isinstance(v, torch.Tensor))
                   <= ELEMENTS]
        for s in rng.sample(fitting, min(count, len(fitting))):
            yield dtype, s


def hunted(info, seed=0, most=60, count=2, kinds="", report=lambda *_: None):
    """Differences of one entry: [(category, dtype, change, text)]."""
    rng, pattern = random.Random(zlib.crc32(info.name.encode()) + seed), re.compile(kinds)
    cases = [(dtype, name, made) for dtype, sample in samples(info, rng, count) for name, made in changes(sample)
             if pattern.search(name)]
    differences = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype, name, made in rng.sample(cases, min(most, len(cases))):
            report(dtype, name)
            try:
                mirrored = ours(copy.deepcopy(made))
            except (TypeError, AttributeError):
                continue
            mine = outcome(rl, info.name, *mirrored)
            report(dtype, name, "torch")
            found = difference(outcome(torch, info.name, *made), mine,
                               isinstance(info, (UnaryUfuncInfo, BinaryUfuncInfo)))
            if found:
                differences.append((found[0], dtype, name, found[1]))
    return differences


def work(names, pipe, options):
    resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))
    torch.set_num_threads(1)
    for info in [i for i in op_db if (i.name, i.variant_test_name) in names]:
        report = lambda *what: pipe.send(("at", (info.name, info.variant_test_name), what))  # noqa: E731
        pipe.send(("found", (info.name, info.variant_test_name),
                   hunted(info, options.seed, options.most, options.samples, kinds=options.changes, report=report)))
    pipe.send(("end", None, None))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--changes", default="", help="a pattern: which changes")
    options = parser.parse_args()
    wanted = [(i.name, i.variant_test_name) for i in op_db if compared(i)
              and (not options.only or i.name in options.only.split(","))]
    total = 0
    while wanted:
        pipe, end = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=work, args=(set(wanted), end, options))
        process.start()
        end.close()
        at = None
        while True:
            try:
                what, at_, data = pipe.recv() if pipe.poll(30) else ("dead", None, None)
            except EOFError:
                what = "dead"
            if what == "at":
                at = at_, data
            elif what == "found":
                wanted.remove(at_)
                for category, dtype, name, text in data:
                    total += 1
                    print(f"{category}: {'.'.join(at_).rstrip('.')} {dtype} {name}: {text}", flush=True)
            elif what == "end":
                wanted = []
                break
            else:
                process.kill()
                process.join()
                print(f"{'ended' if process.exitcode != -9 else 'stuck'}: {at} {process.exitcode}", flush=True)
                wanted = [w for w in wanted if at is None or w != at[0]]
                break
    print(f"{total} differences")


SKIPPED = {"empty_like", "new_empty", "new_empty_strided", "empty", "empty_strided", "empty_permuted", "resize_",
           "resize_as_", "normal", "bernoulli", "multinomial", "cauchy", "exponential",
           "geometric", "log_normal", "uniform", "rand_like", "randn_like", "randn", "randint", "randint_like",
           "svd_lowrank", "pca_lowrank", "nn.functional.multi_head_attention_forward"}


def compared(info):
    return (info.name not in SKIPPED and not info.name.startswith(("_", "masked.", "signal."))
            and not any(part in info.name for part in ("dropout", "rrelu", "fractional", "sparse"))
            and place(rl, info.name) is not None and place(torch, info.name) is not None)


if __name__ == "__main__":
    main()
