"""Batch: maps a program over a new first dimension (vmap).

A call with batched tensors becomes one call, below, of an operator derived from it, whose body runs the original's body
on batched values: a primitive is answered by the rule of its kind.  So a batched operator is planned, fused,
differentiated and batched again like any other.
"""
from __future__ import annotations

from ..core.kinds import P, is_tensor
from ..core.meta import Meta, product
from ..core.native import Op
from ..core.op import OPS, bind, body_of
from ..core.tensor import Tensor
from .level import READING, Level, Wrapped, derived, map_call, map_results, tensors_in

RANDOMNESS = ("error", "same", "different")


class Batched(Wrapped):
    """A tensor mapped over: the first dimension of ``value`` is the batch, the rest is what the function sees."""

    shown, place_shown = "BatchedTensor", "bdim=0, "

    def __new__(cls, level, value):
        meta = value._rush_meta
        return super().__new__(cls, level, value, meta.like(meta.shape[1:], meta.strides[1:]))

    @property
    def requires_grad(self):
        return self.value.requires_grad

    def holding(self, other):
        return Batched(self.level, self.value_holding(other))

    def escaped(self):
        raise RuntimeError(
            "vmap: a tensor from inside of a mapped function was used after vmap had ended: return it from the "
            "function instead.")


class Unreadable(RuntimeError):
    """A program reads elements of a tensor that differ between examples."""


def differs(value) -> bool:
    """True if a value is a tensor that differs between the examples of a vmap."""
    while isinstance(value, Wrapped):
        if isinstance(value, Batched):
            return True
        value = value.value
    return False


def unreadable(name):
    """Replace a method that reads elements, which differ between examples, by one that raises Unreadable."""
    def read(self, *args, **kwargs):
        raise Unreadable(
            f"vmap: {name}() reads the elements of a tensor, which differ from example to example. Control flow "
            "can't depend on "
            "them: use torch.where or another operator on tensors.")

    read.__name__ = name
    return read


Batched.concrete = unreadable("numpy")
for _name in READING:
    setattr(Batched, _name, unreadable(_name))


class Batch(Level):
    """One vmap: ``size`` examples; ``randomness`` is "error", "same" or "different"."""

    kind = Batched
    name = "vmap"

    def __init__(self, size, randomness="error"):
        self.size, self.randomness = size, randomness

    def check_random(self):
        """Raise for random operators in error mode."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness "
                "flags on vmap or perform the randomness operation out of vmap")

    @property
    def draws(self) -> int:
        """Number of examples for which random operators draw."""
        self.check_random()
        return self.size if self.randomness == "different" else 1

    def always(self, op):
        return self.randomness == "different" and op.traits.get("random", False)

    def composite(self, op, args, kwargs):
        """Run the body of a composite; if that reads elements, run the operator example by example."""
        if op.name.endswith("_") and "generator" in op.signature.parameters:
            self.check_random_target(args[0])
        if op.traits.get("sampler") and (tensors := tensors_in((*args, *kwargs.values()))):
            self.check_parameters(tensors)
            if op.traits["sampler"] == "batch":
                return self.sampled(op, tensors, args, kwargs)
        try:
            return body_of(op, args)(*args, **kwargs)
        except Unreadable:
            if op.traits.get("dynamic"):
                raise RuntimeError(
                    "vmap: We do not support batching operators that can output dynamic shape. The result shape of "
                    f"{op.name} depends on the elements, which differ from example to example: use an operator whose "
                    "result has a fixed shape, such as torch.where.") from None
            if op.name.endswith("_"):
                raise
            return self.each(op, args, kwargs)

    def check_random_target(self, target):
        """Raise for an in-place random operator that would draw for each example into one tensor."""
        self.check_random()
        if self.randomness == "different" and not self.owns(target):
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                "randomness. Make the tensor an input that vmap maps over, or set randomness=\"same\".")

    def check_parameters(self, tensors):
        """Raise for parameters of distributions that differ between examples if all examples draw alike."""
        self.check_random()
        if self.randomness == "same" and self.among(tensors):
            raise RuntimeError(
                "Vmap does not currently support same randomness with a batched tensor input. Draw numbers of a "
                "distribution without parameters, such as torch.rand, and compute with them instead.")

    def sampled(self, op, tensors, args, kwargs) -> Batched:
        """Draw once for all examples: with the parameters of the entire batch."""
        if self.randomness == "same":
            with self.below():
                return self.adopt(op(*args, **kwargs))
        rank = max(t.dim() for t in tensors)

        def whole(tensor):
            stacked = self.stacked(tensor.current() if self.owns(tensor) else tensor)
            return P.reshape(stacked, shape=(self.size, *(1,) * (rank - tensor.dim()), *tensor.shape))

        with self.below():
            args, kwargs = map_call(whole, args, kwargs)
            return Batched(self, op(*args, **kwargs))

    def fresh(self, op, model, *args, **kwargs):
        """New tensors for all examples, concatenated in one storage; each has the strides of a single one."""
        with self.below():
            one = op(OPS["select"](model.current().value, 0, 0) if self.size
                     else OPS["empty"](model.shape, dtype=model.dtype), *args, **kwargs)
            if op.traits["fresh"] == "filled":
                return Batched(self, OPS["clone"](OPS["expand"](one, (self.size, *one.shape))))
            extent = 1 + sum((n - 1) * s for n, s in zip(one.shape, one.stride())) if one.numel() else 0
            return Batched(self, OPS["new_empty_strided"](one, (self.size, *one.shape), (extent, *one.stride())))

    def each(self, op, args, kwargs):
        """Stack the results of each example."""
        def one(k):
            return map_call(lambda t: OPS["select"](t.value, 0, k) if self.owns(t) else t, args, kwargs)

        with self.below():
            found = []
            for k in range(self.size):
                chosen, named = one(k)
                found.append(op(*chosen, **named))
            stacked = restack(found)
        return map_results(lambda r: Batched(self, r), stacked)

    def refuse(self, op, target):
        raise RuntimeError(
            f"vmap: inplace arithmetic: {op.name} would write values that differ from example to example into one "
            "tensor of shape "
            f"{list(target.shape)}. Use the operator that returns a new tensor, or make the written tensor an input "
            "that vmap maps over.")

    def answer(self, op: Op, tensors, args, kwargs):
        if op.traits.get("by_size") and self.always(op) and not self.among(tensors):
            return self.drawn(op, args, kwargs)
        mask = tuple([self.owns(t) for t in tensors])
        operator = batched(op, mask, self.randomness, None if True in mask else self.size)
        with self.below():
            results = operator(*args, **kwargs)
        return map_results(lambda r: Batched(self, r), results)

    def drawn(self, op, args, kwargs) -> Batched:
        """Draw once for all examples: the values of a draw of the full size outside of vmap, whatever the number of RNG
        words for each element."""
        bound = op.signature.bind(*args, **kwargs)
        bound.arguments["size"] = (self.size, *bound.arguments["size"])
        with self.below():
            return Batched(self, op(*bound.args, **bound.kwargs))

    def stacked(self, value) -> Tensor:
        """Return a value with the batch as its first dimension, batched or not.  Called below this level."""
        if self.owns(value):
            return value.value
        return P.expand(value, shape=(self.size, *value.shape))

    def lowered(self, value):
        return self.stacked(value) if isinstance(value, Tensor) else value


def restack(results):
    """Combine results of examples (tensors, or tuples of them) into one result over the batch."""
    first = results[0]
    if isinstance(first, Tensor):
        return OPS["stack"](list(results))
    parts = [restack(column) for column in zip(*results)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def batched(op: Op, mask, randomness, size=None) -> Op:
    """Derive the operator over a batch of the tensor arguments in ``mask``; ``size`` is needed if no argument is
    batched."""
    known = op.caches.setdefault("batched", {})
    key = mask, randomness, size
    if key not in known:
        known[key] = make_batched(op, mask, randomness, size)
    return known[key]


def make_batched(op: Op, mask, randomness, size) -> Op:
    def enter(args, kwargs):
        """Return the level of one call, and the arguments as its values."""
        flags = iter(mask)
        tensors = tensors_in((*args, *kwargs.values()))
        level = Batch(next((t.shape[0] for t, flag in zip(tensors, mask) if flag), size), randomness)
        return level, *map_call(lambda t: Batched(level, t) if next(flags) else t, args, kwargs)

    def body(*args, **kwargs):
        level, args, kwargs = enter(args, kwargs)
        if op.kind is not None:
            return primitive(level, op, bind(op, args, kwargs))
        with level:
            results = body_of(op, args)(*args, **kwargs)
        return map_results(level.stacked, results)

    def vjp(g, y, *args):
        level, args, _ = enter(args, {})
        wrap = lambda v: None if v is None else map_results(lambda t: Batched(level, t), v)
        with level:
            found = op.rules["vjp"](wrap(g), wrap(y), *args)
        return [gradient(level, f, a) for f, a in zip(found, every_tensor(args))]

    made = derived(f"batched.{op.name}", body, op)
    if op.kind is None and "vjp" in op.rules:
        made.rules["vjp"] = vjp
    return made


def every_tensor(values):
    """Yield the tensors among arguments, run-time scalars included: those that a vjp rule has results for."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from every_tensor(value)


def gradient(level, found, argument):
    """Return a cotangent with the shape of the argument: summed over the batch if that is not batched."""
    if found is None:
        return None
    if level.owns(argument):
        return level.stacked(found)
    if not level.owns(found):
        return P.mul(found, level.size)
    return P.reshape(P.sum(found.value, (0,)), shape=tuple(found.shape))


def primitive(level, op: Op, bound):
    """A primitive over the batch, by the rule of its kind."""
    names, count = list(bound), op.traits["arity"]
    args = tuple(bound[k] for k in names[:count])
    params = {k: bound[k] for k in names[count:]}
    return RULES[op.kind.name](level, op, args, params)


# --- the kinds --------------------------------------------------------------------------------------------------------
def elementwise(level, op, args, params):
    rank = max(len(a.shape) for a in args if is_tensor(a))

    def spread(a):
        if not level.owns(a):
            return a
        missing = rank - len(a.shape)
        return P.reshape(a.value, shape=(level.size, *(1,) * missing, *a.shape)) if missing else a.value

    return op(*map(spread, args), **params)


def view(level, op, args, params):
    x, = args
    value, rank = x.value, len(x.shape)
    name = op.name.split(".")[-1]
    if name == "expand":
        lead = len(params["shape"]) - rank
        value = P.reshape(value, shape=(level.size, *(1,) * lead, *x.shape)) if lead else value
    if name == "unfold" and not rank:
        value = P.reshape(value, shape=(level.size, 1))
        return P.slice(value, starts=(0, 0), steps=(1, 1), shape=(level.size, params["size"]))
    return op(value, **{k: SHIFTED[k](v, level.size, value) if k in SHIFTED else v for k, v in params.items()})


def first(added):
    return lambda v, size, value: (added(size, value), *v)


def later(v, size, value):
    return tuple(d + 1 for d in v)


SHIFTED = {  # parameters of views, with a first dimension more
    "shape": first(lambda size, value: size), "strides": first(lambda size, value: value._rush_meta.strides[0]),
    "starts": first(lambda size, value: 0),
    "steps": first(lambda size, value: 1), "low": first(lambda size, value: 0), "high": first(lambda size, value: 0),
    "inner": first(lambda size, value: 0),
    "dims": later, "dim": lambda v, size, value: v + 1}


def permute(level, op, args, params):
    return op(args[0].value, dims=(0, *(d + 1 for d in params["dims"])))


def views(level, op, args, params):
    return (permute if op is P.permute else view)(level, op, args, params)


def join(level, op, args, params):
    return op(tuple(map(level.stacked, args[0])), dim=params["dim"] + 1)


def reduce(level, op, args, params):
    return op(args[0].value, tuple(d + 1 for d in params["dims"]))


def scan(level, op, args, params):
    x, = args
    if not x.shape:
        return x
    return op(x.value, dim=params["dim"] % len(x.shape) + 1)


def gather(level, op, args, params):
    x, index = args
    dim = params["dim"]
    if op is P.gather:
        if not x.shape:
            return op(P.reshape(level.stacked(x), shape=(level.size, 1)),
                      P.reshape(level.stacked(index), shape=(level.size, product(index.shape))), dim=1)
        return op(level.stacked(x), level.stacked(index), dim=dim + 1)
    if not level.owns(index):
        return op(x.value, index, dim=dim + 1)
    before, after = tuple(x.shape[:dim]), tuple(x.shape[dim + 1:])
    found = P.gather(level.stacked(x), rows(level, index, before, after), dim=dim + 1)
    return P.reshape(found, shape=(level.size, *before, *index.shape, *after))


def rows(level, index, before, after):
    """Convert a batched row index to an index of elements: [batch, *before, count, *after]."""
    count = product(index.shape)
    at = P.reshape(index.value, shape=(level.size, *(1,) * len(before), count, *(1,) * len(after)))
    return P.expand(at, shape=(level.size, *before, count, *after))


def scatter(level, op, args, params):
    x, index, source = args
    dim = params["dim"]
    if op is P.scatter:
        return op(*map(level.stacked, args), dim=dim + 1, combine=params["combine"])
    if not level.owns(index):
        return op(level.stacked(x), index, level.stacked(source), dim=dim + 1, combine=params["combine"])
    before, after = tuple(x.shape[:dim]), tuple(x.shape[dim + 1:])
    count = product(index.shape)
    spread = P.reshape(level.stacked(source), shape=(level.size, *before, count, *after))
    return P.scatter(level.stacked(x), rows(level, index, before, after), spread, dim=dim + 1,
                     combine=params["combine"])


def create(level, op, args, params):
    return op(*args, **{k: (level.size, *v) if k == "shape" else v for k, v in params.items()})


def contract(level, op, args, params):
    if op in (P.matmul, P.int_matmul):
        return matmul(level, op, *args)
    return CONVOLUTIONS[op](level, op, *args, **params)


def matmul(level, op, a, b):
    if level.owns(a) and not level.owns(b) and len(b.shape) == 2:  # one product of all rows
        rows, inner = a.shape
        out = op(P.reshape(a.value, shape=(level.size * rows, inner)), b)
        return P.reshape(out, shape=(level.size, rows, b.shape[-1]))
    return op(level.stacked(a), level.stacked(b))


def merged(level, x, dim):
    """Merge the batch into dimension ``dim`` of a value, in front of it."""
    value, rank = level.stacked(x), len(x.shape)
    order = (*range(1, dim + 1), 0, *range(dim + 1, rank + 1))
    return P.reshape(P.permute(value, dims=order),
                     shape=(*x.shape[:dim], level.size * x.shape[dim], *x.shape[dim + 1:]))


def parted(level, out, dim):
    """The inverse of ``merged``."""
    shape = tuple(out.shape)
    apart = P.reshape(out, shape=(*shape[:dim], level.size, shape[dim] // level.size, *shape[dim + 1:]))
    return P.permute(apart, dims=(dim, *range(dim), *range(dim + 1, len(shape) + 1)))


def conv(level, op, x, w, groups, **geometry):
    if not level.owns(w):
        return parted(level, op(merged(level, x, 0), w, groups=groups, **geometry), 0)
    return parted(level, op(merged(level, x, 1), merged(level, w, 0), groups=groups * level.size, **geometry), 1)


def conv_input(level, op, g, w, shape, groups, **geometry):
    if not level.owns(w):
        return parted(level, op(merged(level, g, 0), w, shape=(level.size * shape[0], *shape[1:]), groups=groups,
                                **geometry), 0)
    shape = (shape[0], level.size * shape[1], *shape[2:])
    return parted(level, op(merged(level, g, 1), merged(level, w, 0), shape=shape, groups=groups * level.size,
                            **geometry), 1)


def conv_weight(level, op, g, x, shape, groups, **geometry):
    shape = (level.size * shape[0], *shape[1:])
    return parted(level, op(merged(level, g, 1), merged(level, x, 1), shape=shape, groups=groups * level.size,
                            **geometry), 0)


def conv_last(level, op, x, w, groups, shape=None, **geometry):
    """Channels-last convolution; ``shape`` is that of a gradient of the input."""
    if not level.owns(w):
        more = {} if shape is None else {"shape": (level.size * shape[0], *shape[1:])}
        return parted(level, op(merged(level, x, 0), w, groups=groups, **more, **geometry), 0)
    last, more = len(x.shape) - 1, {} if shape is None else {"shape": (*shape[:-1], level.size * shape[-1])}
    return parted(level, op(merged(level, x, last), merged(level, w, 0), groups=groups * level.size, **more,
                            **geometry), last)


CONVOLUTIONS = {P.int_conv: conv_last, P.conv_last: conv_last, P.conv_last_input: conv_last, P.conv: conv,
                P.conv_input: conv_input, P.conv_weight: conv_weight}


def foreign(level, op, args, params):
    """Rule of operators with a dimension: shift it by one.  Operators that map over leading dimensions run unchanged,
    others example by example."""
    if "dim" in params or "dims" in params or op.traits.get("leading"):
        shifted = {k: SHIFTED[k](v, level.size, None) if k in ("dim", "dims") else v for k, v in params.items()}
        return op(*map(level.stacked, args), **shifted)
    values = tuple(level.stacked(a) if is_tensor(a) else a for a in args)
    found = [op(*(example(v, k) if is_tensor(v) else v for v in values), **params) for k in range(level.size)]
    if isinstance(found[0], Tensor):
        return stack(found)
    return tuple(map(stack, zip(*found)))


def example(value, k):
    """Return slice k of the batch."""
    rank, rest = len(value.shape), tuple(value.shape[1:])
    part = P.slice(value, starts=(k,) + (0,) * (rank - 1), steps=(1,) * rank, shape=(1, *rest))
    return P.reshape(part, shape=rest)


def stack(values):
    return P.cat(tuple(P.reshape(v, shape=(1, *v.shape)) for v in values), dim=0)


def recast(level, op, args, params):
    return op(args[0].value, **params)


RULES = {"bytes": recast, "elementwise": elementwise, "view": views, "recast": recast, "join": join, "reduce": reduce,
         "gather": gather, "scatter": scatter, "create": create,
         "contract": contract, "foreign": foreign, "scan": scan}
