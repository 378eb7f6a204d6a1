"""Random numbers from the counter-based stream."""
from __future__ import annotations

import math

import numpy as np

from ..core import devices, dtypes
from ..core.devices import on
from ..core.dtypes import bool_, finfo, float32, float64, iinfo, int64
from ..core.interpret import active, draws, top
from ..core.kinds import P
from ..core.meta import product
from ..core.op import OPS, Scalar, op
from ..core.random import default_generator
from ..core.runtime import has_value
from ..core.tensor import Tensor, empty as empty_tensor, refuse_where
from .create import checked_sizes, empty_like, finished, in_plain_rows, whole
from .histories import with_history
from .inplace import copy_
from .prims.primitive import binary
from .promotion import as_dtype, real
from .scalar.arrays import meaning

MANTISSAS = {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8}  # bits of each dtype's numbers


def draw(generator, count, words=1):
    """Reserve an RNG stream for ``count`` elements of ``words`` words each: (seed, block)."""
    blocks = (count * words * draws() + 3) // 4
    reserve = next((i.reserve for i in reversed(active()) if i.reserve is not None), None)
    if reserve is not None and generator in (None, default_generator):
        return reserve(blocks)
    where = devices.preferred()
    own = where.provider.generator(where.index)
    if generator in (None, default_generator) or not where.provider.has_data:
        generator = own
    elif generator.device is not where:
        raise RuntimeError(f"Expected a '{where}' device type for generator but found '{generator.device}'")
    return generator.reserve(blocks)


@op(method=False, name="_uniform", by_size=True)
def uniform_at(seed: Scalar, offset: Scalar, size, dtype, device=None):
    """Uniform in [0, 1) with the full precision of ``dtype``."""
    if dtype is float64:
        bits = P.random_bits(seed, offset, shape=(2, *size))
        high, low = (P.convert(P.reshape(part, shape=tuple(size)), dtype=float64) for part in two_words(bits, size))
        high = P.floor(P.mul(high, 2.0**-5))
        low = P.floor(P.mul(low, 2.0**-6))
        return P.mul(P.add(P.mul(high, 2.0**26), low), 2.0**-53)
    if dtype.itemsize == 1:
        raise NotImplementedError(f'"check_uniform_bounds" not implemented for {dtype}')
    bits = P.random_bits(seed, offset, shape=tuple(size))
    places = MANTISSAS[dtype.name]
    whole = P.convert(P.right_shift(bits, 32 - places), dtype=float32)
    out = P.mul(whole, 2.0**-places)
    return out if dtype is float32 else P.convert(out, dtype=dtype)


def two_words(bits, size):
    rank = len(size) + 1
    for k in range(2):
        yield P.slice(bits, starts=(k,) + (0,) * (rank - 1), steps=(1,) * rank, shape=(1, *size))


@op(method=False, name="_normal", by_size=True)
def normal_at(seed: Scalar, offset: Scalar, size, dtype, device=None):
    """Standard normal, by the transform of Box and Muller (1958)."""
    wide = float64 if dtype is float64 else float32
    bits = P.random_bits(seed, offset, shape=(2, *size))
    first, second = (P.convert(P.reshape(part, shape=tuple(size)), dtype=wide) for part in two_words(bits, size))
    radius = P.sqrt(P.mul(P.log(P.mul(P.add(first, 1.0), 2.0**-32)), -2.0))
    radius = P.maximum(radius, 0.0)
    out = P.mul(radius, P.cos(P.mul(second, 2 * math.pi * 2.0**-32)))
    return out if dtype is wide else P.convert(out, dtype=dtype)


@op(method=False, name="_integers", by_size=True)
def integers_at(seed: Scalar, offset: Scalar, low: Scalar, span: Scalar, size, dtype, device=None):
    """Integers in [low, low + span)."""
    bits = P.random_bits(seed, offset, shape=(2, *size))
    high, less = (P.reshape(part, shape=tuple(size)) for part in two_words(bits, size))
    wide = P.bitwise_xor(P.left_shift(P.right_shift(high, 1), 32), less)
    out = P.add(P.remainder(wide, span), low)
    return P.convert(out, dtype=dtype) if dtype is not int64 else out


@op(method=False, name="_most_integers", by_size=True)
def most_integers_at(seed: Scalar, offset: Scalar, low: Scalar, span: Scalar, size, dtype, device=None):
    """Integers in [low, low + 2^64 + span), more than 2^63 of them: unsigned words; those out of range wrap around."""
    bits = P.random_bits(seed, offset, shape=(2, *size))
    high, less = (P.reshape(part, shape=tuple(size)) for part in two_words(bits, size))
    word, least = P.bitwise_xor(P.left_shift(high, 32), less), -(1 << 63)
    within = P.lt(P.bitwise_xor(word, least), P.bitwise_xor(span, least))
    out = P.add(P.where(within, word, P.sub(word, span)), low)
    return P.convert(out, dtype=dtype) if dtype is not int64 else out


def uniform_tensor(size, dtype, generator=None):
    seed, block = draw(generator, product(size), 2 if dtype is float64 else 1)
    return uniform_at(seed, block, tuple(size), dtype, *on(None))


def normal_tensor(size, dtype, generator=None):
    seed, block = draw(generator, product(size), 2)
    return normal_at(seed, block, tuple(size), dtype, *on(None))


@op(method=False, name="_few_integers", by_size=True)
def few_integers_at(seed: Scalar, offset: Scalar, low: Scalar, span: Scalar, size, dtype, device=None):
    """Integers in [low, low + span), of at most 2^31: the upper part of a word's product with ``span``."""
    bits = P.random_bits(seed, offset, shape=tuple(size))
    out = P.add(P.right_shift(P.mul(bits, span), 32), low)
    return P.convert(out, dtype=dtype) if dtype is not int64 else out


def integer_tensor(low, high, size, dtype, generator=None):
    if type(high - low) is int and high - low <= 1 << 31:
        seed, block = draw(generator, product(size))
        return few_integers_at(seed, block, low, high - low, tuple(size), dtype, *on(None))
    seed, block = draw(generator, product(size), 2)
    if type(high - low) is int and high - low >= 1 << 63:
        return most_integers_at(seed, block, low, high - low - (1 << 64), tuple(size), dtype, *on(None))
    return integers_at(seed, block, low, high - low, tuple(size), dtype, *on(None))


def located(size, dtype, device, make):
    """Draw a tensor on a device: ``make(size, dtype)``; a meta tensor draws nothing."""
    where = devices.placed(device)
    if not where.provider.has_data:
        return empty_tensor(size, dtype, device=where)
    if where is devices.preferred():
        return make(size, dtype)
    with where:
        return make(size, dtype)


def sampled(name, make, doc):
    def body(*size, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
             pin_memory=False, names=None):
        dtype = dtype or dtypes.Defaults.floating
        if not dtype.is_inexact:
            raise RuntimeError(f'"{name}" is not implemented for {dtype}')
        size = checked_sizes(size)

        def drawn(size, dtype):
            if not dtype.is_complex:
                return make(size, dtype, generator)
            from .complex_numbers import complex as join
            scale = 0.5**0.5 if make is normal_tensor else 1.0
            return join(make(size, dtype.to_real(), generator) * scale, make(size, dtype.to_real(), generator) * scale)

        return finished(located(size, dtype, device, drawn), requires_grad)
    body.__name__, body.__doc__ = name, doc
    return op(body, composite=True, method=False)


rand = sampled("rand", uniform_tensor, "Uniform in [0, 1).")
randn = sampled("randn", normal_tensor, "Standard normal.")


@op(composite=True, method=False)
def randint(low=0, high=None, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None,
            requires_grad=False, pin_memory=False):
    """Integers in [low, high); ``randint(high, size)`` starts at 0."""
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    if high is None:
        low, high = 0, low
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    made = located(checked_sizes((size,)), dtype or int64, device,
                   lambda size, dtype: integer_tensor(whole(low), whole(high), size, dtype, generator))
    return finished(made, requires_grad)


def stream_for(count: int, generator):
    """NumPy generator at an offset in the RNG stream that is reserved for ``count`` elements."""
    seed, block = draw(generator, max(count, 1), 2)
    return np.random.Generator(np.random.Philox(key=seed & ((1 << 64) - 1), counter=block))


@op(composite=True, method=False)
def randperm(n, *, generator=None, out=None, dtype=int64, layout=None, device=None, requires_grad=False,
             pin_memory=False):
    """A random permutation of the integers below n."""
    from .rearrange import to_dtype
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    return located((n,), dtype, device,
                   lambda size, dtype: to_dtype(OPS["argsort"](integer_tensor(0, 1 << 62, size, int64, generator)),
                                                dtype))


def as_like(name, make):
    def body(input, *args, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None,
             generator=None, pin_memory=False, **more):
        dtype = dtype or input.dtype
        device = device or input.device
        drawn = make(*args, size=tuple(input.shape), dtype=dtype, device=device, generator=generator, **more)
        if memory_format is None and in_plain_rows(input._rush_meta) and top() is None:
            return finished(drawn, requires_grad)
        out = empty_like(input, dtype=dtype, memory_format=memory_format, device=device)
        return finished(drawn if out._rush_meta is drawn._rush_meta else out.copy_(drawn), requires_grad)
    body.__name__, body.__doc__ = name, f"As {name[:-5]}, in the shape and layout of input."
    return op(body, composite=True, method=False, by_rows=True)


rand_like = as_like("rand_like", lambda size, **named: rand(size, **named))
randn_like = as_like("randn_like", lambda size, **named: randn(size, **named))
randint_like = as_like("randint_like", lambda low, high=None, *, size, **named: randint(low if high is not None else 0,
                                                                                        high if high is not None
                                                                                        else low, size, **named))


@op(composite=True, out_any=True, sampler="batch")
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with the given probability (each element's, or p), else 0."""
    if not input.is_floating_point():
        raise RuntimeError(f"bernoulli is not implemented for {input.dtype}")
    chance = input if p is None else p
    if not has_value(chance):
        refuse_where(~((chance >= 0) & (chance <= 1)),
                     RuntimeError("bernoulli expects probabilities in [0, 1], but found one outside"))
    elif not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli expects p to be in [0, 1], but got p={chance}")
    uniform = uniform_tensor(tuple(input.shape), float32, generator)
    return with_history((uniform < chance).to(input.dtype), input)


@op(composite=True, inplace=True)
def bernoulli_(input, p=0.5, *, generator=None):
    """In place: 1 with probability p, else 0."""
    if has_value(p) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return unrecorded(input, (uniform_tensor(tuple(input.shape), float32, generator) < p))


def unrecorded(target, values):
    """Write into a tensor (possibly a leaf) without history if it needs none."""
    return copy_(target, values)


@op(into=0, method=False, name="_uniform_into")
def uniform_into(input, seed: Scalar, offset: Scalar, low: Scalar, width: Scalar):
    """In place: uniform in [low, low + width), drawn and written at once."""
    wide = float64 if input.dtype is float64 else float32
    return as_dtype(uniform_at(seed, offset, tuple(input.shape), wide) * width + low, input.dtype)


@op(into=0, method=False, name="_normal_into")
def normal_into(input, seed: Scalar, offset: Scalar, mean: Scalar, std: Scalar):
    """In place: normal with a mean and a standard deviation, drawn and written at once."""
    wide = float64 if input.dtype is float64 else float32
    return as_dtype(normal_at(seed, offset, tuple(input.shape), wide) * std + mean, input.dtype)


def limits(name, ends, named) -> tuple:
    """(from, to) of a call, by position or by keyword; None for one that is not given.  One positional argument is
    ``to`` for ``random_``, ``from`` for others.  TypeError for other keywords, and duplicate arguments."""
    first = "to" if name == "random_" and len(ends) == 1 and "to" not in named else "from"
    given = dict(zip((first, "to"), ends))
    if len(ends) > 2 or not named.keys() <= {"from", "to"} or named.keys() & given.keys():
        raise TypeError(f"{name}() takes 'from' and 'to', each once, and 'generator'; got {len(ends)} by position and "
                        f"the keyword arguments {sorted(named)}")
    given.update(named)
    return given.get("from"), given.get("to")


@op(composite=True, inplace=True)
def uniform_(input, *ends, generator=None, **named):
    """In place: uniform in [from, to), which are 0 and 1 by default."""
    a, b = (default if end is None else end for end, default in zip(limits("uniform_", ends, named), (0.0, 1.0)))
    if a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    seed, block = draw(generator, input.numel(), 2 if input.dtype is float64 else 1)
    return uniform_into(input, seed, block, real(a), real(b - a))


@op(composite=True, inplace=True)
def normal_(input, mean=0.0, std=1.0, *, generator=None):
    """In place: normal with a mean and a standard deviation."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    seed, block = draw(generator, input.numel(), 2)
    return normal_into(input, seed, block, real(mean), real(std))


def check_deviation(std):
    """RuntimeError for an invalid standard deviation, such as NaN."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


@op(composite=True, method=False, sampler="batch")
def normal(mean, std=1.0, size=None, *, generator=None, out=None, dtype=None, device=None, requires_grad=False,
           layout=None, pin_memory=False):
    """Normal with the given means and standard deviations (tensors or numbers)."""
    if size is not None:
        check_deviation(std)
        made = located(checked_sizes((size,)), dtype or dtypes.Defaults.floating, device,
                       lambda size, dtype: normal_tensor(size, dtype, generator) * std + mean)
        return finished(made, requires_grad)
    from ..core.meta import broadcast
    wrong = RuntimeError("normal expects all elements of std >= 0.0")
    if not has_value(std):
        refuse_where(std < 0, wrong)
    else:
        check_deviation(std)
    shapes = [v.shape for v in (mean, std) if isinstance(v, Tensor)]
    like = mean if isinstance(mean, Tensor) else std
    parameters = mean, std
    mean, std = (v.detach() if isinstance(v, Tensor) else v for v in parameters)
    return with_history(normal_tensor(broadcast(*shapes), like.dtype, generator) * std + mean, *parameters)


def bounds_of(dtype):
    """Minimum and maximum of a dtype."""
    if dtype is bool_:
        return 0, 1
    found = finfo(dtype) if dtype.is_floating_point else iinfo(dtype)
    return found.min, found.max


def greatest_drawn(dtype) -> int:
    """Greatest integer up to which a dtype represents all integers."""
    return 1 << MANTISSAS[dtype.name] if dtype.is_floating_point else bounds_of(dtype)[1]


@op(composite=True, inplace=True)
def random_(input, *ends, generator=None, **named):
    """In place: integers in [0, to) or [from, to); without an end, up to and including the greatest below which the
    dtype represents all integers."""
    a, b = limits("random_", ends, named)
    a, b = 0 if a is None else a, greatest_drawn(input.dtype) + 1 if b is None else b
    if a >= b:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={a} >= to={b}")
    low, high = bounds_of(input.dtype)
    for name, value in (("from", a), ("to - 1", b - 1)):
        if not low <= value <= high:
            raise RuntimeError(f"{name} is out of bounds for {input.dtype}: {value} is not in [{low}, {high}]")
    return unrecorded(input, integer_tensor(int(a), int(b), tuple(input.shape), int64, generator))


def transformed(name, make):
    def body(input, *args, generator=None, **kwargs):
        wide = float64 if input.dtype is float64 else float32
        u = uniform_tensor(tuple(input.shape), wide, generator)
        return unrecorded(input, make(u, *args, **kwargs))
    body.__name__, body.__doc__ = (
        name, f"In place: random numbers of the {name.strip('_').replace('_', ' ')} distribution.")
    return op(body, composite=True, inplace=True)


def positive(name, what, value):
    if not value > 0:
        raise RuntimeError(f"{name} expects {what} > 0.0, but found {what}={value}")


def exponential_of(u, lambd=1.0):
    positive("exponential_", "lambda", lambd)
    return -((1 - u).log()) / lambd


def cauchy_of(u, median=0.0, sigma=1.0):
    positive("cauchy_", "sigma", sigma)
    return median + sigma * ((u - 0.5) * math.pi).tan()


def geometric_of(u, p):
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return ((1 - u).log() / math.log1p(-p)).floor() + 1


exponential_, cauchy_, geometric_ = (transformed(n, f) for n, f in (("exponential_", exponential_of),
                                                                    ("cauchy_", cauchy_of),
                                                                    ("geometric_", geometric_of)))


@op(composite=True, inplace=True)
def log_normal_(input, mean=1.0, std=2.0, *, generator=None):
    """In place: exp of a normal variable."""
    positive("log_normal_", "std", std)
    return unrecorded(input, (normal_tensor(tuple(input.shape), float64 if input.dtype is float64 else float32,
                                            generator) * std + mean).exp())


@op(composite=True, sampler="rows")
def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn with probabilities proportional to each row."""
    if not 0 < input.dim() <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not input.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    if not replacement and num_samples > input.size(-1):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    p = input.detach()
    refuse_where(~((p >= 0) & (p < math.inf)),
                 RuntimeError("probability tensor contains either `inf`, `nan` or element < 0"))
    refuse_where(p.sum(-1) == 0, RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)"))
    if replacement:
        edges = p.double().cumsum(-1)
        u = uniform_tensor((*p.shape[:-1], num_samples), float64, generator) * edges[..., -1:]
        return OPS["searchsorted"](edges, u, right=True).clamp(max=p.size(-1) - 1)
    noise = exponential_of(uniform_tensor(tuple(p.shape), float64, generator))
    if num_samples == 1:
        return (p.double() / noise).argmax(-1, keepdim=True)
    from .sort import topk
    return topk(p.double() / noise, num_samples, -1)[1]


binary("poisson_quantile", meaning("poisson_quantile"))


@op(method=False, name="_poisson")
def poisson_at(seed: Scalar, offset: Scalar, rate):
    """Poisson variables by inversion: each takes one uniform variable with the precision of float64."""
    u = uniform_at(seed, offset, tuple(rate.shape), float64)
    return as_dtype(P.poisson_quantile(u, as_dtype(rate, float64)), rate.dtype)


@op(composite=True, sampler="batch")
def poisson(input, generator=None):
    """Poisson variables with the given rates: [*] float -> [*].  RuntimeError for a negative rate."""
    if not input.is_floating_point():
        raise NotImplementedError(f"poisson is not implemented for {input.dtype}: rates are floats")
    rate = input.detach()
    refuse_where(~(rate >= 0), RuntimeError("invalid Poisson rate, expected rate to be non-negative"))
    seed, block = draw(generator, input.numel(), 2)
    return with_history(poisson_at(seed, block, rate), input)
