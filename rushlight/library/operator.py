"""Operators that a user defines by a Python function on tensors: opaque to the compiler, with rules that the user
gives."""
from __future__ import annotations

import inspect

from .._inductor.decomposition import decompositions
from .._ops import OpOverloadPacket, ops
from .._src.aot.alias import whole
from .._src.autograd.function import Function
from .._src.core import devices, interpret
from .._src.core.exchange import from_numpy, to_numpy
from .._src.core.interpret import Suspended, recording
from .._src.core.kinds import Foreign, P
from .._src.core.meta import Meta, span
from .._src.core.native import Tensor, sharing
from .._src.core.op import make
from .._src.core.tensor import empty_of, resolved
from .._src.transforms.level import Level
from .schema import Schema

BACKENDS = ("CPU", "CompositeExplicitAutograd")


def positional(signature):
    """A signature whose parameters are all given by position."""
    return inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in signature.parameters])


class ArgumentLayout:
    """Positions of the tensors among the arguments of a call: the structure that stays when they are removed."""

    def __init__(self, arguments):
        self.tensors = []
        self.places = tuple(self.place(v) for v in arguments)

    def place(self, value):
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return Here
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            return List(self.place(v) for v in value)
        return tuple(value) if isinstance(value, list) else value

    def filled(self, tensors) -> list:
        """The arguments again, with other tensors."""
        given = iter(tensors)

        def at(place):
            return next(given) if place is Here else [at(p) for p in place] if type(place) is List else list(
                place) if type(place) is tuple else place
        return [at(p) for p in self.places]

    def taken(self, values) -> list:
        """Return the values of tensor arguments, in order, from values given for each argument."""
        found = []

        def take(place, value):
            if place is Here:
                found.append(value)
            elif type(place) is List:
                for k, p in enumerate(place):
                    take(p, None if value is None else value[k])
        for place, value in zip(self.places, values):
            take(place, value)
        return found


class Here:
    """The place of a tensor."""


class List(tuple):
    """The places in a list argument."""


class Outside:
    """A block in which no interpreter is active."""

    def __enter__(self):
        active = interpret.active()
        self.inner = Suspended(active[0]) if active else None
        if self.inner:
            self.inner.__enter__()

    def __exit__(self, *exception):
        if self.inner:
            self.inner.__exit__(*exception)


class Flags:
    """A block in which ``needs_input_grad`` is by the arguments of the schema, not by tensors."""

    def __init__(self, ctx, custom, tensors):
        self.ctx, self.custom, self.tensors = ctx, custom, tensors

    def __enter__(self):
        self.before = self.ctx.needs_input_grad
        self.ctx.needs_input_grad = self.custom.flags(self.ctx.layout, self.before[1:] or [True] * self.tensors)

    def __exit__(self, *exception):
        self.ctx.needs_input_grad = self.before


class Rules:
    """Rules that the user registered for an operator."""

    def __init__(self):
        self.kernels: dict = {}  # by device type or dispatch key
        self.fake = self.backward = self.setup = self.vmap = None
        self.dispatch: dict = {}
        self.autocast = None


def owner(tensor):
    """Return the base of a view in the program that its interpreter traces, or the tensor itself."""
    root = getattr(interpret.top(), "root", None)
    return whole(tensor) if root is None else root(tensor.node)


def overlap(one, other) -> bool:
    """Whether the elements of two tensors in a program may be the same memory."""
    if owner(one) is not owner(other):
        return False
    first, start = one.storage_offset(), other.storage_offset()
    return first < start + span(other.shape, other.stride()) and start < first + span(one.shape, one.stride())


def is_of_kind(value, annotation: str) -> bool:
    """True if a value is valid for an argument of this schema type: lists for lists, tensors and strings only for
    themselves."""
    kind, is_list = annotation.rstrip("?"), isinstance(value, (list, tuple))
    if kind.endswith("]"):
        return not isinstance(value, (Tensor, str))
    return not is_list and isinstance(value, Tensor) == (kind == "Tensor") and isinstance(value, str) <= (
        kind in ("str", "Device"))


class CustomOperator:
    """One user-defined operator: ``op`` is what runs, traces and differentiates it."""

    def __init__(self, namespace, name, schema: Schema, tags=(), label=""):
        self.tags = list(tags)  # members of ``torch.Tag``, or their names
        self.namespace, self.name, self.schema, self.rules = namespace, name, schema, Rules()
        self.primitives: dict = {}
        self.op = make(f"{namespace}::{name}", self.run, None, schema.signature, 0, composite=True)
        self.functional = make(f"{namespace}::{name}", self.opaque, None, positional(schema.signature), 0,
                               in_place=self.call_in_place)
        self.packet = self.op.traits["library"] = OpOverloadPacket(namespace, name, self.op)
        self.packet.custom, self.packet.label = self, label or "default"
        getattr(ops, namespace).enter(self.packet)

    # --- running ------------------------------------------------------------------------------------------------------
    def arguments(self, args, kwargs):
        try:
            bound = self.schema.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.op.name}() {error}. Its schema is {self.schema}.") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if self.schema.signature.parameters[name].annotation == "Tensor" and not isinstance(value, Tensor):
                raise RuntimeError(
                    f"{self.op.name}() Expected a value of type 'Tensor' for argument '{name}' but instead found type "
                    f"'{type(value).__name__}'. Its schema is "
                    f"{self.schema}.")
        return bound.arguments

    def fits(self, args, kwargs) -> bool:
        """True if the arguments are of the kinds that the schema says.  TypeError or RuntimeError for arguments that
        it cannot take at all."""
        return all(value is None or is_of_kind(value, self.schema.signature.parameters[name].annotation)
                   for name, value in self.arguments(args, kwargs).items())

    def run(self, *args, **kwargs):
        """The operator on tensors, or under the interpreter on top."""
        given = self.arguments(args, kwargs)
        composite = self.rules.kernels.get("CompositeImplicitAutograd") or self.rules.kernels.get("Autograd")
        if composite is not None:
            return self.python(composite, list(given.values()))
        if not isinstance(interpret.top(), (type(None), Level)):
            return self.program(given)
        layout = ArgumentLayout(given.values())
        if self.schema.mutated:
            return self.call(list(given.values()))
        return self.function().apply(layout.places, *layout.tensors)

    def kernel(self, tensors):
        """The function that computes the operator for tensors like these."""
        if tensors and not any(t.device.provider.has_data for t in tensors):
            if self.rules.fake is None:
                raise NotImplementedError(
                    f"{self.op.name}: there is no fake impl registered, which gives the metadata of its results. "
                    "Register one with "
                    f"torch.library.register_fake({self.op.name!r})")
            return self.rules.fake
        kinds = dict.fromkeys(t.device.type for t in tensors)
        for key in (*kinds, *BACKENDS, None) if kinds else ("cpu", *BACKENDS, None):
            if key in self.rules.kernels:
                return self.rules.kernels[key]
        raise NotImplementedError(
            f"Could not run '{self.op.name}' on the CPU: it has kernels for "
            f"{sorted(map(str, self.rules.kernels)) or 'no device'}. Register one "
            f"with torch.library.impl({self.op.name!r}, 'CPU')")

    def python(self, function, given):
        """The user's function with arguments in the order of the schema."""
        args, kwargs = [], {}
        for value, parameter in zip(given, self.schema.signature.parameters.values()):
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return function(*args, **kwargs)

    def call(self, given):
        """Computes the operator, unrecorded."""
        tensors = ArgumentLayout(given).tensors
        with recording(False):
            results = self.python(self.kernel(tensors), given)
        for tensor in self.written(given):
            sharing.count_write(tensor)
        for result in results if isinstance(results, (tuple, list)) else (results,):
            if isinstance(result, Tensor) and any(result is t for t in tensors):
                raise RuntimeError(
                    f"{self.op.name}: a result is one of the arguments, which an operator may not return: return a "
                    "clone() of it, or name it in "
                    "mutates_args and return nothing")
        return results

    # --- gradients in eager mode --------------------------------------------------------------------------------------
    def function(self):
        """The operator as an ``autograd.Function`` of (places, *tensors)."""
        found = self.__dict__.get("made")
        if found is None or found.rules != (self.rules.backward, self.rules.setup, self.rules.vmap):
            found = self.made = self.make_function()
        return found

    def make_function(self):
        custom = self

        def forward(places, *tensors):
            return custom.call(custom.layout(places).filled(tensors))

        def setup_context(ctx, inputs, output):
            places, *tensors = inputs
            ctx.layout = custom.layout(places)
            if custom.rules.setup is not None:
                with Flags(ctx, custom, len(tensors)):
                    custom.set_up(ctx, ctx.layout.filled(tensors), output)

        def backward(ctx, *gradients):
            with Flags(ctx, custom, 0):
                return None, *ctx.layout.taken(custom.gradients(ctx, gradients))

        def vmap(info, in_dims, places, *tensors):
            layout = custom.layout(places)
            if custom.rules.vmap is None:
                raise RuntimeError(
                    f"{custom.op.name}: there is no vmap rule: register one with "
                    f"torch.library.register_vmap({custom.op.name!r})")
            dims = [d if d is Here else d for d in layout.filled(in_dims[1:])]
            given = layout.filled(tensors)
            flat = tuple(d if isinstance(v, (Tensor, list)) and ArgumentLayout([v]).tensors else None
                         for v, d in zip(given, dims))
            return custom.python(lambda *a, **k: custom.rules.vmap(info, flat, *a, **k), given)

        made = type(f"{self.namespace}_{self.name}", (Function,),
                    {n.__name__: staticmethod(n) for n in (forward, setup_context, backward, vmap)})
        made.rules = self.rules.backward, self.rules.setup, self.rules.vmap
        return made

    def layout(self, places):
        made = ArgumentLayout(())
        made.places = places
        return made

    def flags(self, layout, flags) -> tuple:
        """For each argument whether it needs a gradient."""
        given = iter(flags)
        return tuple(any([next(given) for _ in place]) if type(place) is List else place is Here and bool(next(given))
                     for place in layout.places)

    def set_up(self, ctx, given, output):
        """Calls the user's ``setup_context``."""
        names = self.schema.signature.parameters
        only = {n: v for (n, p), v in zip(names.items(), given) if p.kind is inspect.Parameter.KEYWORD_ONLY}
        inputs = tuple(v for n, v in zip(names, given) if n not in only)
        if only:
            self.rules.setup(ctx, inputs, only, output)
        else:
            self.rules.setup(ctx, inputs, output)

    def gradients(self, ctx, gradients):
        """The user's gradients, one for each argument."""
        if self.rules.backward is None:
            raise RuntimeError(
                f"Trying to backward through {self.op.name}.default but no autograd formula was registered. Please "
                "use register_autograd to add one.")
        found = self.rules.backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        count = sum(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in self.schema.signature.parameters.values())
        if len(found) != count:
            raise RuntimeError(
                f"{self.op.name}: the registered backward returned {len(found)} gradients for {count} positional "
                "arguments: return one for each, None for those without")
        return found

    # --- in a program -------------------------------------------------------------------------------------------------
    def program(self, given):
        """Trace the operator as one opaque node; mutated arguments get their new values afterwards."""
        if self.schema.returns == "()" and not self.schema.mutated:
            raise NotImplementedError(
                f"{self.op.name} neither returns nor writes anything that a program could depend on: call it outside "
                "of the compiled function, or "
                "let it return a tensor")
        self.check_apart(given.values())
        results = self.functional(*given.values())
        results = results if isinstance(results, tuple) else (results,)
        written = self.written(given.values())
        for tensor, value in zip(written, results):
            tensor.copy_(value)
        return self.shaped(results[len(written):])

    def check_apart(self, given):
        """NotImplementedError for an argument that is written and overlaps another: a program knows one value of
        each."""
        tensors, written = ArgumentLayout(given).tensors, self.written(given)
        for one in written:
            if sum(overlap(one, other) for other in tensors) > 1:  # itself is among them
                raise NotImplementedError(
                    f"{self.op.name} writes an argument that shares memory with another one: call it outside of the "
                    "compiled function, or give it a clone() of one of them")

    def opaque(self, *given):
        """The values that the operator writes, then those that it returns."""
        simpler = None if self.schema.mutated else decompositions.get(self.packet.overload(self.packet.label))
        if simpler is not None:
            return self.python(simpler, given)
        layout = ArgumentLayout(given)
        return self.primitive(layout)(*layout.tensors)

    def call_in_place(self, *given):
        """The same as ``opaque`` on tensors that share memory: the operator writes into them, and they are the values
        that it writes."""
        results = self.call(given)
        results = () if results is None else tuple(results) if isinstance(results, (tuple, list)) else (results,)
        made = (*self.written(given), *results)
        return made[0] if len(made) == 1 else made

    def written(self, given) -> list:
        """The tensors among arguments that the operator writes into."""
        return ArgumentLayout([v for n, v in zip(self.schema.signature.parameters, given)
                               if n in self.schema.mutated]).tensors

    def shaped(self, results):
        """Results in the form that the schema says."""
        returns = self.schema.returns
        if returns == "()":
            return None
        if returns.startswith("("):
            return tuple(results)
        return list(results) if returns.endswith("[]") else results[0]

    def primitive(self, layout):
        """The primitive for calls of this layout and these dtypes."""
        dtypes = tuple(t.dtype for t in layout.tensors)
        key = layout.places, dtypes, self.rules.fake, self.rules.backward
        found = self.primitives.get(key)
        if found is None:
            kind = Opaque(self, layout.places, dtypes)
            signature = inspect.Signature([inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY)
                                           for k in range(len(dtypes))])
            found = self.primitives[key] = make(self.op.name, None, kind, signature, arity=len(dtypes),
                                                library=self.packet)
        return found

    def described(self, layout, metas):
        """The Metas of what the operator gives, by its fake function."""
        fakes = [empty_of(Meta(tuple(m.shape), m.strides, m.dtype, devices.meta)) for m in metas]
        if self.rules.fake is None and not self.schema.returns == "()":
            raise NotImplementedError(
                f"{self.op.name}: there is no fake impl registered, so that nothing is known of its results before it "
                "runs. Register one with "
                f"torch.library.register_fake({self.op.name!r})")
        with Outside(), recording(False):
            given = layout.filled(fakes)
            results = None if self.rules.fake is None else self.python(self.rules.fake, given)
        results = () if results is None else tuple(results) if isinstance(results, (tuple, list)) else (results,)
        written = self.written(given)
        return [Meta(tuple(t.shape), t._rush_meta.strides, t.dtype, metas[0].device) for t in (*written, *results)]


class Opaque(Foreign):
    """The kind of a user's operator: it runs on tensors over the arrays that it is given."""

    def __init__(self, custom, places, dtypes):
        super().__init__(self.compute, self.describe, self.differentiate)
        self.custom, self.layout, self.dtypes = custom, custom.layout(places), dtypes

    def compute(self, *arrays):
        tensors = [tensor_over(a if a.flags.writeable else a.copy(), d) for a, d in zip(arrays, self.dtypes)]
        given = self.layout.filled(tensors)
        names = self.custom.schema.signature.parameters
        given = [copied(v) if n in self.custom.schema.mutated else v for n, v in zip(names, given)]
        results = self.custom.call(given)
        results = () if results is None else tuple(results) if isinstance(results, (tuple, list)) else (results,)
        written = self.custom.written(given)
        made = tuple(array_of(t) for t in (*written, *results))
        return made[0] if len(made) == 1 else made

    def describe(self, *metas):
        found = self.custom.described(self.layout, metas)
        return found[0] if len(found) == 1 else tuple(found)

    def differentiate(self, g, y, *tensors):
        custom, ctx = self.custom, TracedContext()
        ctx.needs_input_grad = custom.flags(self.layout, [True] * len(tensors))
        results = y if isinstance(y, tuple) else (y,)
        if custom.rules.setup is not None:
            custom.set_up(ctx, self.layout.filled(tensors), custom.shaped(results))
        gradients = g if isinstance(g, (tuple, list)) else (g,)
        gradients = [P.full(shape=tuple(r.shape), value=0, dtype=r.dtype) if one is None else one
                     for one, r in zip(gradients, results)]
        return self.layout.taken(custom.gradients(ctx, gradients))


class TracedContext:
    """The context of a traced backward."""

    def __init__(self):
        self._saved = ()

    def save_for_backward(self, *tensors):
        self._saved = tensors

    saved_tensors = property(lambda self: tuple(self._saved))

    def set_materialize_grads(self, value):
        """Gradients that are missing arrive as zeros in a program."""

    def mark_non_differentiable(self, *tensors):
        """Nothing to do: whether a result carries a gradient is decided by its dtype in a program."""


def copied(value):
    return [v.clone() for v in value] if isinstance(value, list) else value.clone() if isinstance(
        value, Tensor) else value


def tensor_over(array, dtype) -> Tensor:
    """A tensor over an array's memory; halves come as float32."""
    made = from_numpy(array)
    return made if made.dtype is dtype else made.to(dtype)


def array_of(tensor):
    return to_numpy(resolved(tensor.detach().float() if tensor.dtype.is_half else tensor.detach()))
