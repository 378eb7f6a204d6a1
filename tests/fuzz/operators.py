"""Random programs of operators, run by PyTorch and by Rushlight: values, dtypes, shapes and the types of errors must
agree.

``python -m tests.fuzz.operators --seconds 600 --seed 7`` looks further than the test does.
"""
from __future__ import annotations

import argparse
import math
import random
import time
import warnings

DTYPES = ["float32", "float64", "int64", "int32", "bool", "uint8", "float16", "bfloat16"]
SHAPES = [(), (1,), (5,), (3, 4), (4, 1), (1, 4), (2, 3, 4), (4, 3), (0, 4), (7, 13), (2, 1, 4)]
UNARY = ["abs", "neg", "exp", "log1p", "sqrt", "sin", "cos", "tanh", "sigmoid", "floor", "ceil", "round", "sign",
         "square", "relu", "reciprocal", "rsqrt", "erf",
         "isnan", "logical_not", "atan", "expm1", "trunc", "frac", "bitwise_not"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "fmod", "remainder", "eq", "lt", "ge", "logical_and",
          "atan2", "floor_divide", "bitwise_and", "hypot",
          "copysign", "where"]
REDUCTIONS = ["sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "std", "logsumexp", "cumsum", "norm",
              "var", "count_nonzero", "softmax", "cumprod", "argmin"]
RANK_CHANGING = ["t", "flatten", "squeeze", "unsqueeze", "transpose", "flip", "roll", "expand", "reshape", "narrow",
                 "select", "stride"]
SEVERAL = ["cat", "stack", "matmul", "einsum", "index_select", "masked_fill", "gather", "index", "clamp", "linear",
           "layer_norm", "outer", "scatter_add", "tril"]
LOOSE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-4, "float64": 1e-7}


class Program:
    """Values on both sides, and the steps that made them."""

    def __init__(self, rng, theirs, ours):
        self.rng, self.packages, self.values, self.text = rng, (theirs, ours), [], []
        for _ in range(3):
            self.fresh()

    def fresh(self):
        theirs, ours = self.packages
        shape, name = self.rng.choice(SHAPES), self.rng.choice(DTYPES)
        value = theirs.randn(shape, dtype=theirs.float64) * 3
        value = value > 0 if name == "bool" else value.abs() if name == "uint8" else value
        value = value.to(getattr(theirs, name))
        plain = value.to(theirs.float64) if name in ("float16", "bfloat16") else value
        self.values.append((value, ours.from_numpy(plain.numpy().copy()).to(getattr(ours, name))))
        self.text.append(f"v{len(self.values) - 1} = {name}{list(shape)}")

    def step(self):
        """One more call; a text that tells how the sides part, or None."""
        kind, name = self.pick()
        chosen = [self.rng.randrange(len(self.values)) for _ in range(3)]
        numbers = [self.rng.choice([0, 1, -1, 2]), self.rng.choice([0.5, 2, -1.5, 3]), self.rng.random() < 0.5]
        self.text.append(f"v{len(self.values)} = {name}({', '.join(f'v{k}' for k in chosen)}; {numbers})")
        results = []
        for side, package in enumerate(self.packages):
            arguments = [self.values[k][side] for k in chosen]
            try:
                results.append(kind(package, name, arguments, numbers))
            except Exception as error:  # noqa: BLE001 - its type is compared
                results.append(error)
        return self.compare(name, *results)

    def pick(self):
        kind, names = self.rng.choice([(unary, UNARY), (binary, BINARY), (binary, BINARY), (reduction, REDUCTIONS),
                                       (shaped, RANK_CHANGING), (several, SEVERAL)])
        return kind, self.rng.choice(names)

    def compare(self, name, theirs, ours):
        if isinstance(theirs, Exception) or isinstance(ours, Exception):
            self.text.pop()
            if isinstance(theirs, Exception) and isinstance(ours, Exception):
                return None if kind_of(theirs) == kind_of(ours) or loosely(
                    theirs) else f"{name}: theirs {theirs!r}, ours {ours!r}"
            return f"{name}: theirs {short(theirs)}, ours {short(ours)}"
        if tuple(theirs.shape) != tuple(ours.shape) or str(theirs.dtype) != str(ours.dtype):
            return f"{name}: theirs {theirs.dtype} {list(theirs.shape)}, ours {ours.dtype} {list(ours.shape)}"
        torch = self.packages[0]
        a, b = theirs.detach(), torch.tensor(ours.to(self.packages[1].float64).tolist() if ours.dtype.is_floating_point
                                             else ours.tolist(), dtype=torch.float64 if a_float(theirs)
                                             else theirs.dtype)
        if a_float(a):
            wide, tolerance = a.to(torch.float64), LOOSE[str(a.dtype).split(".")[-1]]
            close = torch.isclose(wide, b.reshape(wide.shape), rtol=tolerance, atol=tolerance, equal_nan=True)
            if not bool(close.all()):
                at = int((~close).reshape(-1).nonzero()[0])
                return f"{name}: element {at}: theirs {wide.reshape(-1)[at].item()}, ours {b.reshape(-1)[at].item()}"
        elif not torch.equal(a, b.reshape(a.shape)):
            return f"{name}: theirs {a.reshape(-1)[:8].tolist()}, ours {b.reshape(-1)[:8].tolist()}"
        self.values.append((theirs, ours) if a_float(a) is False
                           else (a, self.packages[1].from_numpy(a.to(torch.float64).numpy().copy()).to(ours.dtype)))
        return None


def a_float(tensor):
    return tensor.dtype.is_floating_point


def kind_of(error):
    return next(k.__name__ for k in type(error).__mro__ if k in (NotImplementedError, RuntimeError, IndexError,
                                                                 ValueError, TypeError, Exception))


def loosely(error):
    """PyTorch's NotImplementedError for a dtype is a RuntimeError elsewhere, depending on the version of the kernel."""
    return isinstance(error, RuntimeError)


def short(value):
    return repr(value)[:200] if isinstance(value, Exception) else f"{value.dtype} {list(value.shape)}"


def unary(p, name, v, n):
    return getattr(p, name)(v[0])


def binary(p, name, v, n):
    if name == "where":
        return p.where(v[2].bool(), v[0], v[1])
    if name in ("pow", "floor_divide", "remainder", "fmod") and not v[0].dtype.is_floating_point:
        return getattr(p, name)(v[0].double().abs() + 1, 2.0)
    return getattr(p, name)(v[0], v[1] if n[2] else n[1]) if name not in ("maximum", "minimum", "logical_and", "atan2",
                                                                          "hypot", "bitwise_and") else getattr(p, name)(
                                                                              v[0], v[1])


def reduction(p, name, v, n):
    x = v[0]
    if name in ("cumsum", "cumprod", "logsumexp", "softmax"):
        return getattr(p, name)(x, n[0])
    if name in ("argmax", "argmin"):
        return getattr(p, name)(x.double() + p.arange(x.numel(), dtype=p.float64).reshape(x.shape) * 1e-6, n[0])
    if name == "norm":
        return p.linalg.vector_norm(x) if hasattr(p.linalg, "vector_norm") else x
    return getattr(p, name)(x, n[0], keepdim=n[2]) if name != "count_nonzero" else p.count_nonzero(x, n[0])


def shaped(p, name, v, n):
    x = v[0]
    return {"t": lambda: x.t(), "flatten": lambda: x.flatten(), "squeeze": lambda: x.squeeze(n[0]),
            "unsqueeze": lambda: x.unsqueeze(n[0]),
            "transpose": lambda: x.transpose(0, n[0]), "flip": lambda: x.flip(n[0]), "roll": lambda: x.roll(1, n[0]),
            "expand": lambda: x.expand(2, *x.shape),
            "reshape": lambda: x.reshape(-1, 2), "narrow": lambda: x.narrow(n[0], 0, 1),
            "select": lambda: x.select(n[0], -1), "stride": lambda: x[::2]}[name]()


def several(p, name, v, n):
    a, b, c = v
    return {"cat": lambda: p.cat([a, b], n[0]), "stack": lambda: p.stack([a, a], n[0]),
            "matmul": lambda: p.matmul(a.double(), b.double()),
            "einsum": lambda: p.einsum("ij,kj->ik", a.double(), b.double()),
            "index_select": lambda: p.index_select(a, n[0], p.tensor([0, 0])),
            "masked_fill": lambda: a.masked_fill(b > 0, n[1] if a.dtype.is_floating_point else 1),
            "gather": lambda: p.gather(a, n[0], p.zeros_like(a, dtype=p.int64)),
            "index": lambda: a[p.tensor([0, 1, 0])], "clamp": lambda: p.clamp(a, -1, n[1]),
            "linear": lambda: p.nn.functional.linear(a.double(), b.double()),
            "layer_norm": lambda: p.nn.functional.layer_norm(a.double(), tuple(a.shape[-1:])),
            "outer": lambda: p.outer(a, b),
            "scatter_add": lambda: p.zeros_like(a).scatter_add(0, p.zeros_like(a, dtype=p.int64), a),
            "tril": lambda: p.tril(a, n[0])}[name]()


def fuzz(theirs, ours, seed, seconds=math.inf, length=12, limit=math.inf):
    """Run ``limit`` programs, or as many as begin within ``seconds``; return the sources of those on which the sides
    differ, by what the last call was, and how many ran."""
    rng, found, count, end = random.Random(seed), {}, 0, time.monotonic() + seconds
    theirs.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while count < limit and time.monotonic() < end:
            program = Program(rng, theirs, ours)
            for _ in range(length):
                parted = program.step()
                if parted:
                    found.setdefault(parted.split(":")[0], "\n".join([*program.text, parted]))
            count += 1
    return found, count


def main():
    import torch

    import rushlight
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found, count = fuzz(torch, rushlight, options.seed, options.seconds)
    for text in found.values():
        print(text, "\n")
    print(f"{count} programs, {len(found)} operators on which the sides part")


if __name__ == "__main__":
    main()
