"""Random functions that take views of an argument and write through them, for plain and compiled runs.

A function is drawn from a seed; what it does depends on shapes alone, so that PyTorch runs the same one.
"""
from __future__ import annotations

import random

# inputs as views of a vector of 48 elements
INPUTS = {"contiguous": lambda b: b[:24].view(4, 6), "offset": lambda b: b[5:29].view(4, 6),
          "transposed": lambda b: b[:24].view(6, 4).t(), "transposed, offset": lambda b: b[7:31].view(6, 4).t(),
          "permuted": lambda b: b[3:27].view(2, 3, 4).permute(2, 0, 1), "vector": lambda b: b[4:12],
          "gaps": lambda b: b.view(6, 8)[1:5, 1:7], "steps": lambda b: b.view(6, 8)[1::2, ::3],
          "expanded": lambda b: b[2:8].view(1, 6).expand(4, 6), "column": lambda b: b.view(6, 8)[1:, 2],
          "overlapping": lambda b: b.as_strided((4, 5), (2, 1), 3)}
OVERLAPPING = {"expanded", "overlapping"}


def select(x, r):
    d = r.randrange(x.dim())
    k = r.randrange(x.shape[d])
    return lambda x: x.select(d, k)


def cut(x, r):
    d = r.randrange(x.dim())
    start, step = r.randrange(x.shape[d]), r.randint(1, 2)
    key = (slice(None),) * d + (slice(start, None, step),)
    return lambda x: x[key]


def transpose(x, r):
    a, b = r.randrange(x.dim()), r.randrange(x.dim())
    return lambda x: x.transpose(a, b)


def turn(x, r):
    return (lambda x: x.t()) if x.dim() <= 2 else transpose(x, r)


def unbind(x, r):
    d = r.randrange(x.dim())
    k = r.randrange(x.shape[d])
    return lambda x: x.unbind(d)[k]


def unsqueeze(x, r):
    d = r.randint(0, x.dim())
    return lambda x: x.unsqueeze(d)


def diagonal(x, r):
    offset = r.randint(-1, 1)
    return (lambda x: x.diagonal(offset)) if x.dim() > 1 else unsqueeze(x, r)


def flatten(x, r):
    return (lambda x: x.view(-1)) if x.is_contiguous() else (lambda x: x.view(x.shape))


def expand(x, r):
    n = r.randint(1, 2)
    return lambda x: x.unsqueeze(0).expand(n, *x.shape)


def restride(x, r):
    """``as_strided`` within what the tensor reaches over, or within the argument's storage."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))
    shape, strides, last = [], [], 0
    for _ in range(r.randint(1, 2)):
        stride = r.randint(1, 4)
        size = r.randint(1, max(1, min(3, (reach - 1 - last) // stride + 1)))
        shape.append(size)
        strides.append(stride)
        last += (size - 1) * stride
    room = reach - 1 - last
    if r.random() < 0.5:
        return lambda x: x.as_strided(shape, strides)
    start = x.storage_offset() + r.randint(0, room)
    return lambda x: x.as_strided(shape, strides, start)


VIEWS = (select, cut, transpose, turn, unbind, unsqueeze, diagonal, flatten, expand, restride, restride)
WRITES = (lambda x: x.add_(1.5), lambda x: x.mul_(2), lambda x: x.fill_(3.0), lambda x: x.copy_(x * 0.5 + 1),
          lambda x: x.__setitem__(0, 7.0), lambda x: x.neg_())
INPLACE_VIEWS = (lambda x: x.unsqueeze_(0), lambda x: x.transpose_(0, -1), lambda x: x.squeeze_())


def distinct(x) -> bool:
    """True if no two elements of a tensor are one element of its storage."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(x.shape, x.stride()) if size > 1):
        if stride < reach:
            return False
        reach += (size - 1) * stride
    return True


def draw(seed, x):
    """Draw a function of a tensor like x: returns it and whether it uses ``as_strided``.

    x is used up: steps are tried on it.
    """
    r, steps, tensors, restrided = random.Random(seed), [], [x], False
    for _ in range(r.randint(2, 6)):
        k = r.randrange(len(tensors))
        one, kind = tensors[k], r.random()
        if kind < 0.55:
            if one.dim() == 0 or one.numel() == 0:
                continue
            maker = r.choice(VIEWS)
            made = maker(one, r)
            restrided |= maker is restride
            steps.append(("view", k, made))
            tensors.append(made(one))
        elif kind < 0.65 and k:
            made = r.choice(INPLACE_VIEWS)
            if one.dim() < 4 and one.dim() > 0:
                steps.append(("inplace", k, made))
                made(one)
        elif one.dim() and one.numel() and distinct(one):
            steps.append(("write", k, r.choice(WRITES)))
        if kind > 0.9:
            steps.append(("value", k, lambda x: x * 2 + 1))
            tensors.append(one * 2 + 1)

    def function(x):
        found = [x]
        for kind, k, step in steps:
            made = step(found[k])
            if kind in ("view", "value"):
                found.append(made)
        return tuple(found[1:]) + (found[0] * 1,)

    return function, restrided


def facts(package, name, function, way=lambda f: f, tracked=False):
    """What a function of an input gives: results, the storage of the input after the call, and its gradient; the class
    of the error where it raises one."""
    leaf = package.arange(48, dtype=package.float64).div(7).sin()
    leaf.requires_grad_(tracked)
    base = leaf * 1
    x = INPUTS[name](base)
    gradient = None
    try:
        results = way(function)(x)
        if tracked:
            total = sum((t * (k + 1)).sum() for k, t in enumerate(results))
            gradient = package.autograd.grad(total, leaf, allow_unused=True)[0]
            gradient = None if gradient is None else gradient.tolist()
    except RuntimeError as error:
        return "RuntimeError", type(error).__name__, str(error)
    layouts = [(tuple(t.shape), tuple(s for s, n in zip(t.stride(), t.shape) if n > 1), t.storage_offset())
               for t in (*results, x)]
    return layouts, [t.tolist() for t in results], base.tolist(), gradient
