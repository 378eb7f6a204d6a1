"""Random programs of views and in-place writes, run by PyTorch and by Rushlight and compared.

A program is a list of numbers; every step reads what it needs from them, so any list is a program and shorter ones are
simpler: what hypothesis shrinks to reads well.
"""
from __future__ import annotations

import warnings

VIEWS = {}
WRITES = {}
# of expanded tensors: PyTorch's answer depends on how it gets there
UNCERTAIN = {"masked_fill_", "setitem", "set_slice", "zero_", "fill_"}
SHAPES = [(), (4,), (3, 4), (2, 3, 4), (1, 4), (2, 1, 3), (0, 3)]


class Choices:
    """Numbers consumed one by one; zeros at the end."""

    def __init__(self, numbers):
        self.numbers, self.at = list(numbers), 0

    def below(self, count):
        self.at += 1
        return self.numbers[self.at - 1] % count if self.at <= len(self.numbers) and count else 0


def view(function):
    VIEWS[function.__name__] = function
    return function


def write(function):
    WRITES[function.__name__] = function
    return function


# --- each returns a text and a function of a tensor; what it chooses depends on the shape only ------------------------
@view
def select(shape, c):
    d = c.below(len(shape))
    k = c.below(shape[d]) if shape else 0
    return f"select({d}, {k})", lambda x: x.select(d, k)


@view
def slice_(shape, c):
    d = c.below(len(shape))
    start, length, step = c.below(3), c.below(4), 1 + c.below(2)
    key = (slice(None),) * d + (slice(start, start + length * step, step),)
    return f"[{d}: {start}:{start + length * step}:{step}]", lambda x: x[key]


@view
def transpose(shape, c):
    a, b = c.below(len(shape)), c.below(len(shape))
    return f"transpose({a}, {b})", lambda x: x.transpose(a, b)


@view
def permute(shape, c):
    rest, order = list(range(len(shape))), []
    while rest:
        order.append(rest.pop(c.below(len(rest))))
    return f"permute({order})", lambda x: x.permute(order)


@view
def unsqueeze(shape, c):
    d = c.below(len(shape) + 1)
    return f"unsqueeze({d})", lambda x: x.unsqueeze(d)


@view
def squeeze(shape, c):
    return "squeeze()", lambda x: x.squeeze()


@view
def expand(shape, c):
    sizes = [2 + c.below(2) if s == 1 else s for s in shape]
    lead = [2] * c.below(2)
    return f"expand({lead + sizes})", lambda x: x.expand(lead + sizes)


@view
def flat_view(shape, c):
    return "view(-1)", lambda x: x.view(-1)


@view
def reshape(shape, c):
    return "reshape(2, -1)", lambda x: x.reshape(2, -1)


@view
def diagonal(shape, c):
    offset = c.below(3) - 1
    return f"diagonal({offset})", lambda x: x.diagonal(offset)


@view
def unfold(shape, c):
    d, size, step = c.below(len(shape)), 1 + c.below(3), 1 + c.below(2)
    return f"unfold({d}, {size}, {step})", lambda x: x.unfold(d, size, step)


@view
def narrow(shape, c):
    d = c.below(len(shape))
    start = c.below(3)
    return f"narrow({d}, {start}, 1)", lambda x: x.narrow(d, start, 1)


@view
def as_strided(shape, c):
    sizes, strides, start = [1 + c.below(3) for _ in range(2)], [c.below(4) for _ in range(2)], c.below(3)

    def seen(x):
        if not x.is_contiguous():  # gradients of elements between those of x depend on how PyTorch got to x
            raise ValueError("not contiguous")
        return x.as_strided(sizes, strides, start)
    return f"as_strided({sizes}, {strides}, {start})", seen


@view
def detach(shape, c):
    return "detach()", lambda x: x.detach()


@view
def clone(shape, c):
    return "clone()", lambda x: x.clone()


@view
def contiguous(shape, c):
    return "contiguous()", lambda x: x.contiguous()


@view
def double(shape, c):
    return "* 2", lambda x: x * 2


@view
def sine(shape, c):
    return "sin()", lambda x: x.sin()


@view
def movedim(shape, c):
    return "movedim(0, -1)", lambda x: x.movedim(0, -1)


@view
def flatten(shape, c):
    return "flatten()", lambda x: x.flatten()


@write
def add_(shape, c):
    n = 1.0 + c.below(3)
    return f"add_({n})", lambda x, o: x.add_(n)


@write
def mul_(shape, c):
    n = 0.5 + c.below(3)
    return f"mul_({n})", lambda x, o: x.mul_(n)


@write
def mul_by_other_(shape, c):
    return "mul_(other)", lambda x, o: x.mul_(o)


@write
def add_other_(shape, c):
    return "add_(other)", lambda x, o: x.add_(o)


@write
def copy_(shape, c):
    return "copy_(other)", lambda x, o: x.copy_(o)


@write
def zero_(shape, c):
    return "zero_()", lambda x, o: x.zero_()


@write
def fill_(shape, c):
    return "fill_(3)", lambda x, o: x.fill_(3.0)


@write
def sin_(shape, c):
    return "sin_()", lambda x, o: x.sin_()


@write
def setitem(shape, c):
    return "[0] = 2", lambda x, o: x.__setitem__(0, 2.0)


@write
def set_slice(shape, c):
    return "[1:] = other", lambda x, o: x.__setitem__(slice(1, None), o)


@write
def masked_fill_(shape, c):
    return "masked_fill_(> 1, 0)", lambda x, o: x.masked_fill_(x.detach() > 1, 0.0)


@write
def add_without_recording_(shape, c):
    return "data.add_(1)", lambda x, o: x.data.add_(1.0)


class Side:
    """One package's run of a program."""

    def __init__(self, package, shape, tracked):
        self.package = package
        count = 1
        for s in shape:
            count *= s
        self.leaf = package.arange(count, dtype=package.float64).reshape(shape).div(7)
        if tracked:
            self.leaf.requires_grad_()
        self.tensors = [self.leaf]

    def step(self, act):
        """Runs one step; the name of the error's class, or None."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return act(self)
            except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
                return type_of(error), str(error)

    def finish(self):
        """The backward pass from everything."""
        wanted = [t.sum() for t in self.tensors if t.requires_grad]
        if not wanted:
            return None
        total = wanted[0]
        for w in wanted[1:]:
            total = total + w
        total.backward()
        return None


def type_of(error):
    return next(k.__name__ for k in type(error).__mro__ if k in (NotImplementedError, RuntimeError, IndexError,
                                                                 ValueError, TypeError))


def facts(side, tensor):
    """Everything about a tensor that both sides must agree on."""
    shape = tuple(tensor.shape)
    strides = tuple(s for s, n in zip(tensor.stride(), shape) if n > 1) if 0 not in shape else None
    return {"shape": shape, "strides": strides, "requires_grad": tensor.requires_grad, "is_leaf": tensor.is_leaf,
            "is_view": tensor._is_view(),
            "offset": tensor.storage_offset() if tensor.numel() else None, "version": tensor._version,
            "shared": [tensor.numel() > 0 and tensor.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
                       for t in side.tensors if t.numel() and t.dim() < 9],
            "values": tensor.detach().tolist()}


def differing(a, b):
    for key in a:
        if key == "values":
            if not near(a[key], b[key]):
                return key, a[key], b[key]
        elif a[key] != b[key]:
            return key, a[key], b[key]
    return None


def near(a, b):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(near, a, b))
    return a == b or (a != a and b != b) or abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))


def run(numbers, theirs, ours):
    """Runs a program on both; AssertionError with the program's text where they part."""
    c = Choices(numbers)
    shape, tracked = SHAPES[c.below(len(SHAPES))], c.below(2)
    sides = [Side(theirs, shape, tracked), Side(ours, shape, tracked)]
    text = [f"t0 = arange{shape}" + (" requires_grad" if tracked else "")]
    if tracked and c.below(2):
        for s in sides:
            s.tensors.append(s.leaf * 1)
        text.append("t1 = t0 * 1")
    while c.at < len(c.numbers):
        number = c.below(len(sides[0].tensors))
        own = tuple(sides[0].tensors[number].shape)
        if c.below(3) < 2:
            name = list(VIEWS)[c.below(len(VIEWS))]
            what, function = VIEWS[name](own, c)
            text.append(f"t{len(sides[0].tensors)} = t{number}.{what}")
            outcome = [s.step(lambda s: s.tensors.append(function(s.tensors[number]))) for s in sides]
        else:
            name = list(WRITES)[c.below(len(WRITES))]
            what, function = WRITES[name](own, c)
            other = c.below(len(sides[0].tensors))
            recorded = c.below(4)
            if 0 in sides[0].tensors[number].stride() and name in UNCERTAIN or entangled(sides[0].tensors[number],
                                                                                         sides[0].tensors[other]):
                continue
            text.append(f"t{number}.{what}, other = t{other}" + ("" if recorded else " without recording"))
            outcome = [s.step(lambda s: changed(s, function, number, other, recorded)) for s in sides]
        compare(text, sides, outcome)
    outcome = [s.step(Side.finish) for s in sides]
    text.append("backward of the sum of all")
    compare(text, sides, outcome)
    grads = [None if s.leaf.grad is None else s.leaf.grad.tolist() for s in sides]
    assert near_or_none(*grads), story(text, f"gradient: theirs {grads[0]}, ours {grads[1]}")


def entangled(a, b):
    """Whether what b holds while a is written depends on the order: PyTorch promises nothing then."""
    shared = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    return a is not b and shared and not (a.is_contiguous() and b.is_contiguous())


def near_or_none(a, b):
    return a is b if a is None or b is None else near(a, b)


def changed(side, function, number, other, recorded):
    if recorded:
        function(side.tensors[number], side.tensors[other])
        return
    with side.package.no_grad():
        function(side.tensors[number], side.tensors[other])


def compare(text, sides, outcome):
    kinds = [o[0] if o else None for o in outcome]
    assert kinds[0] == kinds[1], story(text, f"theirs {outcome[0]}, ours {outcome[1]}")
    for k, (a, b) in enumerate(zip(*(s.tensors for s in sides))):
        found = differing(facts(sides[0], a), facts(sides[1], b))
        assert found is None, story(text, f"t{k}: {found[0]}: theirs {found[1]}, ours {found[2]}")


def story(text, why):
    return "\n".join([*text, why])
