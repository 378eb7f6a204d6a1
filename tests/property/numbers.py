"""States of an operator's numbers: nothing known of earlier calls, or enough different numbers seen that plans serve
all of them.  A call must give the same in each state."""
import contextlib
import itertools
import math

import numpy as np
import torch

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.core.op import forget as forget_plans
from rushlight._src.eager import numbers, plan, polymorphic
from tests.ops.database import function, ours

SAMPLES, ELEMENTS = 6, 150  # samples of an entry that are considered; elements that an input may have
SEEN, NEW = 12, 3  # valid numbers from which an operator learns; valid numbers that must make no plan afterwards
SPECIAL = {int: (0, 1, -1, 2, -9, 12, 1.5, "a"),
           float: (0.0, -0.0, 1.0, -1.0, 2.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 2, "a")}
RANDOM = ("dropout", "normal", "bernoulli", "uniform", "exponential", "geometric", "cauchy", "rrelu", "rand",
          "multinomial", "lowrank", "empty")  # parts of names of entries whose results are drawn, or undefined


class Place:
    """One number among the arguments of an entry of PyTorch's database.

    ``at``: its position after the input, or its keyword; ``base``: its value in the sample.
    """

    def __init__(self, info, sample, at, base):
        self.info, self.at, self.base, self.call = info, at, base, function(info.name)
        self.theirs = sample.input, sample.args, sample.kwargs
        self.mine = ours(sample.input), ours(list(sample.args)), ours(sample.kwargs)

    def __repr__(self):
        return f"{self.info.name} {self.at}={self.base!r}"

    def run(self, package, value):
        """The results of a call with another number, or its error as text."""
        input, args, kwargs = self.mine if package is rl else self.theirs
        args, kwargs = list(args), dict(kwargs)
        (args if type(self.at) is int else kwargs)[self.at] = value
        input = input.clone() if isinstance(input, package.Tensor) else input  # some write to it
        package.manual_seed(0)
        try:
            return (self.call if package is rl else self.info.op)(input, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - errors are compared
            return f"{type(error).__name__}: {error}"

    def outcome(self, value):
        """What a call of ours gives, for comparison: the error, or the bits of the results."""
        result = self.run(rl, value)
        if type(result) is str or not any(word in self.info.name for word in RANDOM):
            return bits(result)
        return "drawn"

    def take(self, start, count) -> int:
        """How many of ``count`` different numbers near that of the sample the operator takes, from the one numbered
        ``start`` on."""
        base = self.base
        values = (base + (k if base >= 0 else -k) if type(base) is int else base * (1 + k / 97) + (base == 0) * k / 1000
                  for k in range(start, start + count))
        return sum(type(self.run(rl, value)) is not str for value in values)


def bits(value):
    """Nested results by their bits; all NaN are one."""
    if isinstance(value, rl.Tensor):
        x = value.detach().resolve_conj().resolve_neg()
        if x.layout is not rl.strided or x.is_quantized or x.device.type == "meta":
            return repr(x)
        array = (x.float() if x.dtype is rl.bfloat16 else x).numpy()
        return str(x.dtype), array.shape, np.where(array == array, array, 0).tobytes(), (array != array).tobytes()
    if isinstance(value, dict):
        return {k: bits(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(bits, value))
    return value if type(value) is str else repr(value)


def places(info):
    """Each number that the samples of an entry give it, once for each type."""
    dtype = torch.float32 if torch.float32 in info.supported_dtypes("cpu") else torch.int64
    if function(info.name) is None or dtype not in info.supported_dtypes("cpu"):
        return
    seen = set()
    torch.manual_seed(0)
    for sample in itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES):
        if isinstance(sample.input, torch.Tensor) and sample.input.numel() > ELEMENTS:
            continue
        for at, value in itertools.chain(enumerate(sample.args), sample.kwargs.items()):
            if type(value) in SPECIAL and (at, type(value)) not in seen:
                seen.add((at, type(value)))
                with contextlib.suppress(NotImplementedError):  # of a sample that has no counterpart
                    yield Place(info, sample, at, value)


def forget():
    """No operator has a plan, nor knows of earlier calls."""
    forget_plans()
    for op in OPS.values():
        known = op.caches.pop("experience", None)
        if known is not None and known.learned:
            op.scalars &= ~sum(1 << place for place in known.learned)
            op.masks = {}


@contextlib.contextmanager
def planned_one_by_one(monkeypatch):
    """Within the block a plan is made for each number, and for it alone."""
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(numbers, "learned", lambda *_: False)
        patch.setattr(polymorphic.PendingCall, "symbols", lambda _: None)
        yield
    forget()


@contextlib.contextmanager
def counted_plans(monkeypatch):
    """The names of the operators that plans are made of within the block."""
    names, original = [], plan.make_plan
    with monkeypatch.context() as patch:
        patch.setattr(plan, "make_plan", lambda op, *rest: (names.append(op.name), original(op, *rest))[1])
        yield names
