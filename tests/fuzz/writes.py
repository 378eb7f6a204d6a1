"""Programs that write through views, in PyTorch, in Rushlight, and compiled: values, strides, what shares memory, and
gradients must agree.

``python -m tests.fuzz.writes`` runs the whole grid of one write and one result; ``--programs 5000 --seed 7`` random
programs of several.
"""
from __future__ import annotations

import argparse
import random
import warnings

WRITES = {  # a is the argument, b a second one of the same shape and dtype
    "add_": "a.add_(1)", "mul_": "a.mul_(b)", "copy_": "a.copy_(b)", "fill_": "a.fill_(1)", "zero_": "a.zero_()",
    "exp_": "a.exp_()", "neg_": "a.neg_()",
    "row": "a[0].mul_(2)", "last row": "a[-1:].copy_(b[:1])", "column": "a[..., 0].add_(b[..., 0])",
    "every second": "a[..., ::2].mul_(3)", "item": "a[0] = 1",
    "transposed": "a.transpose(0, -1).add_(b.transpose(0, -1))", "diagonal": "a.diagonal().mul_(2)",
    "second diagonal": "a.diagonal(1).fill_(1)",
    "diagonal of the last": "a.diagonal(0, -2, -1).mul_(2)", "masked": "a[b > 1] = 1",
    "masked_fill_": "a.masked_fill_(b > 1, 1)", "gathered": "a[[0, 1]] = b[:2]",
    "index_add_": "a.index_add_(0, torch.tensor([1, 0]), b[:2])", "flat": "a.reshape(-1)[1:].mul_(2)",
    "view of a view": "a[1:].transpose(0, -1)[0].add_(1)",
    "two": "a[0].add_(1); a[..., 1].mul_(2)", "view first": "v = a[0]; a.add_(1); v.mul_(2)",
    "unsqueezed": "a.unsqueeze(0)[0, 0].add_(b[0])", "unbound": "a.unbind(0)[1].add_(1)",
    "split": "a.split(1, -1)[1].mul_(2)", "windows": "a.unfold(0, 2, 2)[0].mul_(2)",
    "expanded": "a[:1].expand_as(b)[1].add_(1)", "clone": "a = a.clone(); a[0].add_(1)",
    "product": "a = a * 1; a.diagonal().mul_(2)", "nothing": "pass",
}
RESULTS = {
    "self": "a", "slice": "a[1:]", "last": "a[..., 1:]", "transposed": "a.transpose(0, -1)",
    "reversed": "a.permute(*range(a.dim() - 1, -1, -1))", "diagonal": "a.diagonal()",
    "flat": "a.reshape(-1)", "product": "a * 1", "copy": "a.transpose(0, -1).contiguous()", "clone": "a.clone()",
    "row": "a[0]", "expanded": "a.unsqueeze(0).expand(2, *a.shape)",
    "detached": "a.detach()", "several": "(a, a[1:], a * 2, a[0].sum(), a.transpose(0, -1))", "sum": "a.sum(-1)",
    "both": "(b, a.view_as(a))", "like": "torch.empty_like(a).fill_(1)",
}
INPUTS = {  # of the vector x of enough elements
    "2d": "x[:20].view(4, 5)", "square": "x[:16].view(4, 4)", "3d": "x[:60].view(3, 4, 5)",
    "cube": "x[:27].view(3, 3, 3)", "4d": "x[:48].view(2, 3, 2, 4)",
    "transposed": "x[:20].view(5, 4).t()", "permuted": "x[:60].view(5, 3, 4).permute(1, 2, 0)",
    "offset": "x[7:27].view(4, 5)", "sliced": "x[:48].view(4, 12)[:, 1:10:2]",
    "rows": "x[:40].view(8, 5)[1::2]", "channels last": "x[:48].view(2, 2, 4, 3).permute(0, 3, 1, 2)",
    "expanded": "x[3:8].expand(4, 5)", "expanded column": "x[:4].view(4, 1).expand(4, 5)",
    "strided": "x.as_strided((3, 4), (7, 2), 5)", "single": "x[:4].view(1, 4, 1).expand(1, 4, 3)[..., :2]",
}
DTYPES = ("float32", "int64", "bool", "complex64", "bfloat16")
ANY = "any"
SEVERAL = 2  # elements from which strides are compared


def function(package, text: str, result: str):
    """A program as a function of a and b."""
    space = {"torch": package}
    exec(f"def f(a, b):\n    {text}\n    return {result}", space)
    return space["f"]


def given(package, inputs: str, dtype: str, history: bool):
    """The leaf x (None without history), and the arguments a and b."""
    made = []
    for k in range(2):
        x = package.arange(64) % 7 + k
        x = x % 2 > 0 if dtype == "bool" else x.to(getattr(package, dtype)) / 4 if dtype not in ("int64",) else x
        leaf = x.clone().requires_grad_() if history else x
        made.append((leaf, eval(inputs, {"x": leaf * 1 if history else leaf})))
    (x, a), (y, b) = made
    return (x, y), a, b


def seen(package, value, a, b):
    """What is compared of a result: values, layout, history, and where it lies in the memory of the arguments."""
    place = next(((name, value.data_ptr() - other.data_ptr()) for name, other in (("a", a), ("b", b))
                  if value.numel() and value.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()), None)
    # compiled code may compute just the part of a value that is returned
    whole = value.untyped_storage().nbytes() == value.numel() * value.element_size()
    strides = tuple(s for s, n in zip(value.stride(), value.shape)
                    if n > 1) if value.numel() >= SEVERAL and (whole or place is not None) else ANY
    number = value.detach().to(package.complex64 if value.is_complex() else package.float32).tolist()
    return {"values": number, "shape": tuple(value.shape), "dtype": str(value.dtype), "strides": strides,
            "place": place, "requires_grad": value.requires_grad,
            "leaf": value.is_leaf, "is a": value is a}


def outcome(package, program, inputs, dtype, history):
    """What a program gives, leaves in its arguments, and has for gradients; the kind of its error."""
    leaves, a, b = given(package, inputs, dtype, history)
    try:
        return looked_at(package, leaves, a, b, program(a, b))
    except (RuntimeError, IndexError, TypeError) as error:
        kind = next(kind for kind in (IndexError, TypeError, RuntimeError) if isinstance(error, kind))
        refused = "returns multiple views", "single memory location"  # which are taken here
        return {"error": ANY if any(text in str(error) for text in refused) else "RuntimeError" if kind is IndexError
                else kind.__name__}


def looked_at(package, leaves, a, b, results):
    """What is compared of a program's results, and of its arguments afterwards."""
    results = results if isinstance(results, tuple) else (results,)
    found = {f"result {k}": seen(package, value, a, b) for k, value in enumerate(results)}
    found |= {"a": seen(package, a, a, b), "b": seen(package, b, a, b)}
    carrying = [r for r in results if r.requires_grad]
    if carrying:
        total = sum((r * r).sum().real if r.is_complex() else (r * r).sum() for r in carrying)
        total.backward()
        found["gradients"] = [None if x.grad is None
                              else x.grad.to(package.complex64 if x.is_complex() else package.float32).tolist()
                              for x in leaves]
    return found


def close(x, y) -> bool:
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        return len(x) == len(y) and all(map(close, x, y))
    if isinstance(x, dict) and x.get("error") == ANY:
        return True
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(close(x[k], y[k]) for k in x)
    if ANY in (x, y):
        return True
    if isinstance(x, (float, complex)) and isinstance(y, (float, complex)):
        return x == y or abs(x - y) <= 1e-2 * max(1.0, abs(x)) or (x != x and y != y)
    return x == y


def difference(x, y) -> str:
    """Where two outcomes part."""
    if x.keys() != y.keys():
        return f"{x.get('error', 'a result')} / {y.get('error', 'a result')}"
    parts = [(name, key) for name in x for key in (x[name] if isinstance(x[name], dict) else ("",))
             if not close(x[name][key] if key else x[name], y[name][key] if key else y[name])]
    return "; ".join(
        f"{name} {key}: {str(x[name][key] if key else x[name])[:160]} / {str(y[name][key] if key else y[name])[:160]}"
        for name, key in parts[:2])


def parted(theirs, ours, text, result, inputs, dtype, history, compiled=True):
    """{form: how it parts from PyTorch} for one program."""
    expected = outcome(theirs, function(theirs, text, result), inputs, dtype, history)
    plain = function(ours, text, result)
    forms = {"eager": plain, **({"compiled": ours.compile(plain)} if compiled else {})}
    found = {}
    for form, program in forms.items():
        try:
            got = outcome(ours, program, inputs, dtype, history)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            got = {"error": repr(error)[:200]}
        # PyTorch warns that such a write is not to be relied on
        refused = got.get("error") == ANY and history and "expand" in inputs
        if not refused and not close(expected, got):
            found[form] = difference(expected, got)
    return found


def grid():
    """Each write with each result on one kind of argument, in turn; then each write on each kind of argument of each
    dtype, with results in turn."""
    kinds, results = list(INPUTS.items()), list(RESULTS.items())
    count = 0
    for name, text in WRITES.items():
        for shown, result in results:
            for history in (False, True):
                count += 1
                place, inputs = kinds[count * 7 % len(kinds)]
                yield (name, shown, place, "float32", history), (text, result, inputs, "float32", history)
        for place, inputs in kinds:
            for dtype in DTYPES:
                for history in (False, True)[:1 + (dtype in ("float32", "complex64"))]:
                    count += 1
                    shown, result = results[count * 5 % len(results)]
                    yield (name, shown, place, dtype, history), (text, result, inputs, dtype, history)


def random_case(rng):
    """A program of several writes."""
    names = [rng.choice(list(WRITES)) for _ in range(rng.choice((1, 2, 2, 3)))]
    shown = [rng.choice(list(RESULTS)) for _ in range(rng.choice((1, 1, 2)))]
    place, dtype = rng.choice(list(INPUTS)), rng.choice(DTYPES + ("float32",) * 3)
    history = dtype not in ("int64", "bool") and rng.random() < 0.5
    text, result = "; ".join(WRITES[n] for n in names), ", ".join(RESULTS[s] for s in shown)
    result = result if len(
        shown) == 1 else f"tuple(r for one in ({result}) for r in (one if isinstance(one, tuple) else (one,)))"
    return (names, shown, place, dtype, history), (text, result, INPUTS[place], dtype, history)


def run(theirs, ours, cases, show=False):
    """The cases in which a form parts from PyTorch: (case, form, how); ``show`` prints each at once."""
    found, count, shown = [], 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in cases:
            count += 1
            found += [(name, form, how) for form, how in parted(theirs, ours, *case).items()]
            if show and len(found) > shown:
                print(*(f"{form} {case} | {how}" for case, form, how in found[shown:]), sep="\n", flush=True)
                shown = len(found)
    return found, count


def main():
    import torch

    import rushlight
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = (random_case(rng) for _ in range(options.programs)) if options.programs else grid()
    found, count = run(torch, rushlight, cases, show=True)
    print(f"{count} programs, {len(found)} differences")


if __name__ == "__main__":
    main()
