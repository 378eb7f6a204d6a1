"""Forward: carries a tangent with every value (jvp).

As for Batch, a call becomes one call, below, of a derived operator that computes values and tangents together.
Elementwise primitives multiply by their partials; linear ones act on the tangent as on the value.  Whatever else has a
vjp rule is differentiated by transposing that rule, which is linear in its cotangent: the transpose of ``g -> g J`` is
``t -> J t``.
"""
from __future__ import annotations

from contextlib import contextmanager

from ..core.kinds import P, is_tensor
from ..core.interpret import carrying, recording
from ..core.native import Op
from ..core.op import OPS, bind, body_of
from ..core.tensor import Tensor
from ..graph.graph import Graph
from .level import Level, Wrapped, derived, map_call, map_results, with_parameter
from .trace import Trace


@contextmanager
def carrying_tangents(on: bool):
    """Set the flag in a block."""
    before, carrying.on = carrying.on, on
    try:
        yield
    finally:
        carrying.on = before


class Dual(Wrapped):
    """A value and its tangent (None: zero)."""

    def __new__(cls, level, value, tangent=None):
        made = super().__new__(cls, level, value)
        made.tangent = tangent
        return made

    def holding(self, other):
        return Dual(self.level, self.value_holding(other), self.tangent)

    def replace_value(self, other):
        super().replace_value(other)
        self.tangent = other.tangent

    def replace(self, new: "Dual"):
        """Replace the value.  In a ``dual_level`` block it is written into the storage of the old one, and its tangent
        into that of the old tangent."""
        if not self.level.takes_contexts:
            return super().replace(new)
        self.current()
        root = self.root
        if self.tangent is None and new.tangent is not None:
            with self.level.below():
                root.tangent = OPS["zeros_like"](root.value)
            root.writes += 1
            self.current()  # views of the root take their part of its tangent
        with self.level.below():
            self.value.copy_(new.value)
            if self.tangent is not None:
                self.tangent.copy_(new.tangent) if new.tangent is not None else self.tangent.zero_()

    @property
    def _version(self):
        return self.value._version if self.level.takes_contexts else super()._version

    def untyped_storage(self):
        """The memory of the value, in a ``dual_level`` block."""
        return self.value.untyped_storage() if self.level.takes_contexts else super().untyped_storage()

    def _rush_memory_bytes(self):
        return self.value._rush_memory_bytes() if self.level.takes_contexts else super()._rush_memory_bytes()

    def storage(self):
        """Like ``untyped_storage``, counting elements."""
        return self.value.storage() if self.level.takes_contexts else super().storage()

    @property
    def requires_grad(self):
        return self.value.requires_grad

    def requires_grad_(self, requires_grad=True):
        """Set whether the value requires a gradient; ``torch.func`` transforms need to request gradients instead."""
        if not self.level.takes_contexts:
            return super().requires_grad_(requires_grad)
        self.value.requires_grad_(requires_grad)
        return self

    def retain_grad(self):
        """Keep the gradient of the value, in a ``dual_level`` block."""
        return self.value.retain_grad() if self.level.takes_contexts else super().retain_grad()

    is_leaf = property(lambda self: self.value.is_leaf)
    grad_fn = property(lambda self: self.value.grad_fn)
    grad = property(lambda self: self.value.grad, lambda self, gradient: setattr(self.value, "grad", gradient))

    def backward(self, *args, **kwargs):
        """Accumulate gradients of the value; ``torch.func`` transforms need to request gradients instead."""
        if not self.level.takes_contexts:
            return super().backward(*args, **kwargs)
        with self.level.below():
            return self.value.backward(*args, **kwargs)

    def __repr__(self, **_):
        if not self.level.takes_contexts:
            return super().__repr__()
        return repr(self.value) if self.tangent is None else f"{repr(self.value)[:-1]}, tangent={self.tangent!r})"


class Forward(Level):
    """One forward derivative."""

    kind = Dual
    name = "jvp"
    # True if functions whose ``forward`` takes the context run here: no other transform can be below
    takes_contexts = False

    def adopt(self, results):
        return map_results(lambda r: Dual(self, r) if not isinstance(r, Dual) else r, results)

    def carries(self, tensors) -> bool:
        return any(self.owns(t) and t.tangent is not None for t in tensors)

    def separates(self, op: Op) -> bool:
        # a detached tensor shares the value's memory and has a tangent of its own
        return self.takes_contexts and bool(op.traits.get("detaches"))

    def answer(self, op: Op, tensors, args, kwargs):
        on = carrying.on
        mask = tuple([on and self.owns(t) and t.tangent is not None for t in tensors])
        tangents = tuple([t.tangent for t, flag in zip(tensors, mask) if flag])
        with self.below():
            if not any(mask) or op.traits.get("detaches"):
                return self.adopt(op(*args, **kwargs))
            if op.traits.get("view") and len(tensors) == 1:  # linear, and results that share memory stay so
                return Dual(self, op(*args, **kwargs), op(like(tangents[0], args[0]), *args[1:], **kwargs))
            operator = forward(op, mask)
            results = operator(*args, **kwargs, **{operator.traits["tangents"]: tangents})
        return paired(self, op, results)


def like(tangent, value):
    """Return a tangent with the strides of its value, if that is row-major."""
    return OPS["contiguous"](tangent) if value._rush_meta.contiguous and not tangent._rush_meta.contiguous else tangent


def paired(level, op, results):
    """Return the duals of a derived operator's results: each result is followed by its tangent if its dtype has one."""
    left, duals = iter(results), []
    for value in left:
        duals.append(Dual(level, value, next(left) if value.dtype.is_inexact else None))
    return tuple(duals) if len(duals) > 1 or op.traits.get("several") else duals[0]


def forward(op: Op, mask) -> Op:
    """Derive the operator with tangents of the tensor arguments in ``mask``: it returns each result, then its
    tangent."""
    known = op.caches.setdefault("forward", {})
    if mask not in known:
        known[mask] = make_forward(op, mask)
    return known[mask]


def make_forward(op: Op, mask) -> Op:
    name = "tangents"
    while name in op.signature.parameters:  # the forward derivative of a forward derivative
        name += "_"

    def body(*args, **kwargs):
        level = Forward()
        flags, given = iter(mask), iter(kwargs.pop(name))
        args, kwargs = map_call(lambda t: Dual(level, t, next(given) if next(flags) else None), args, kwargs)
        if op.kind is not None or "vjp" in op.rules or "jvp" in op.rules:
            results = ruled(op, bind(op, args, kwargs))
        else:
            with level:
                results = body_of(op, args)(*args, **kwargs)
            results = [(r.value, r.tangent) if level.owns(r) else (r, None)
                       for r in (results if isinstance(results, (tuple, list)) else [results])]
        return tuple(value for pair in results for value in with_zeros(*pair))

    return derived(f"forward.{op.name}", body, op, with_parameter(op.signature, name), view=False, into=None,
                   several=True, tangents=name)


def with_zeros(value, tangent):
    """Return a value and its tangent; the value alone if its dtype has none."""
    if not value.dtype.is_inexact:
        return (value,)
    if tangent is None:
        tangent = P.full(shape=tuple(value.shape), value=0, dtype=value.dtype)
    return value, tangent


def ruled(op: Op, bound):
    """Return pairs of results and tangents of a primitive, or an operator with its own rule, called below the level."""
    count = op.traits["arity"] if op.kind is not None else len(bound)
    names = list(bound)
    duals, params = tuple(bound[k] for k in names[:count]), {k: bound[k] for k in names[count:]}
    args = map_call(primal, duals, {})[0]
    results = op(*args, **params)
    several = isinstance(results, (tuple, list))
    rule = op.rules.get("jvp") or (None if "vjp" in op.rules else RULES.get(op.kind.name))
    tangents = rule and rule(op, results, args, map_call(tangent, duals, {})[0], params)
    if tangents is None:
        tangents = transposed(op, results, args, duals, params)
    return list(zip(results, tangents)) if several else [(results, tangents)]


def primal(value):
    return value.value if isinstance(value, Dual) else value


def tangent(value):
    return value.tangent if isinstance(value, Dual) else None


# --- the kinds: ``rule(op, y, args, tangents, params)`` returns the tangent of y, or None to transpose the vjp rule ---
def elementwise(op, y, args, tangents, params):
    if not y.dtype.is_inexact:
        return P.full(shape=(), value=0, dtype=y.dtype)
    if op.kind.partials is None:
        return op(tangents[0], **params)
    total = None
    for t, p in zip(tangents, op.kind.partials(y, *args, **params)):
        if not is_tensor(t) or p is None or type(p) is int and p == 0:  # 0: no multiple of a tangent, which may be NaN
            continue
        if p is NotImplemented:
            name = op.name.rpartition(".")[2]
            raise NotImplementedError(
                f"Trying to use forward AD with {name} that does not support it because it has not been implemented "
                f"yet: the derivative of {name} by this argument is not implemented")
        part = (t if p == 1 else P.neg(t)) if type(p) is int and p in (1, -1) else P.mul(t, p)
        total = part if total is None else P.add(total, part)
    if total is None:
        return P.full(shape=tuple(y.shape), value=0, dtype=y.dtype)
    return total if tuple(total.shape) == tuple(y.shape) else P.expand(total, shape=tuple(y.shape))


def view(op, y, args, tangents, params):
    if op is P.pad:
        params = {**params, "value": 0}
    return op(tangents[0], **params)


def join(op, y, args, tangents, params):
    return op(tuple(t if t is not None else P.full(shape=tuple(a.shape), value=0, dtype=a.dtype)
                    for t, a in zip(tangents[0], args[0])), **params)


def reduce(op, y, args, tangents, params):
    return op(tangents[0], **params) if op is P.sum else None


def gather(op, y, args, tangents, params):
    return op(tangents[0], args[1], **params)


def scatter(op, y, args, tangents, params):
    """Where several elements are written to one place, the tangent there is that of the element which stays."""
    if params["combine"] not in ("set", "add"):
        return None
    x, source = (t if t is not None else P.full(shape=tuple(a.shape), value=0, dtype=a.dtype)
                 for t, a in ((tangents[0], args[0]), (tangents[2], args[2])))
    return op(x, args[1], source, **params)


def contract(op, y, args, tangents, params):
    total = None
    for k, t in enumerate(tangents):
        if t is not None:
            part = op(*args[:k], t, *args[k + 1:], **params)
            total = part if total is None else P.add(total, part)
    return total


RULES = {"bytes": lambda op, y, args, tangents, params: None, "elementwise": elementwise, "view": view, "recast": view,
         "join": join, "reduce": reduce, "gather": gather, "scatter": scatter, "contract": contract}


# --- transposition ----------------------------------------------------------------------------------------------------
def transposed(op: Op, results, args, duals, params):
    """Return the tangents of the results, by transposing the operator's vjp rule."""
    from ..aot.joint import differentiate

    several = isinstance(results, (tuple, list))
    outputs = list(results) if several else [results]
    floating = [k for k, r in enumerate(outputs) if r.dtype.is_inexact]
    trace = Trace()
    enter = lambda t: trace.input(t._rush_meta, weak=getattr(t, "weak", False))
    inputs = map_every(enter, args)
    ys = [enter(r) for r in outputs]
    cotangents = [enter(r) if k in floating else None for k, r in enumerate(outputs)]
    given = [d.tangent for d in every(duals) if isinstance(d, Dual) and d.tangent is not None]
    moved = [enter(t) for t in given]
    with trace, recording(1):
        g, y = (cotangents, tuple(ys)) if several else (cotangents[0], ys[0])
        rule = op.rules.get("vjp")
        found = rule(g, y, *inputs, **params) if rule else op.kind.vjp(op, g, y, *inputs, **params)
        answers = list(cotangents_of(inputs, found)) if op.kind is not None else list(found)
        wanted = [isinstance(d, Dual) and d.tangent is not None for d in every(duals)]
        pairs = [(a.node, t) for a, t in zip((a for a, w in zip(answers, wanted) if w), moved) if a is not None]
        sources = [cotangents[k].node for k in floating]
        pushed = differentiate(list(trace.nodes), [n for n, _ in pairs], [t for _, t in pairs],
                               sources) if pairs else [None] * len(floating)
    nodes = [p.node for p in pushed if p is not None]
    values = iter(Graph(trace.inputs, trace.nodes,
                        nodes).prune().run([*every(args), *outputs,
                                            *(r for k, r in enumerate(outputs) if k in floating), *given]))
    tangents = [None] * len(outputs)
    for k, p in zip(floating, pushed):
        tangents[k] = next(values) if p is not None else None
    return tangents if several else tangents[0]


def cotangents_of(args, found):
    """Yield the result of a primitive's rule for each tensor among its arguments."""
    for argument, answer in zip(args, found):
        if isinstance(argument, Tensor):
            yield answer
        elif type(argument) in (list, tuple):
            yield from cotangents_of(argument, answer or (None,) * len(argument))


def every(values):
    """Yield the tensors among arguments, run-time scalars included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from every(value)


def map_every(function, values):
    return tuple(function(v) if isinstance(v, Tensor) else map_every(function, v) if type(v) in (list, tuple) else v
                 for v in values)
