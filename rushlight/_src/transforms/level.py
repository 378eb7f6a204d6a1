"""Level: an interpreter whose values wrap those of the interpreters below it."""
from __future__ import annotations

import inspect
import textwrap
from collections import deque

from ..core.interpret import Interpreter, Suspended, active
from ..core.kinds import P
from ..core.meta import product
from ..core.native import Op
from ..core.op import OPS, bind, body_of, declared_scalars, make, turning
from ..core.tensor import Tensor, blank
from ..ops.promotion import as_dtype


ENDED = -2  # the number shown of a level that has ended


class Wrapped(Tensor):
    """A tensor of one level.  ``value`` is what it stands for below; its Meta is what the function sees.

    A view of another wrapped tensor knows its ``parent`` and how to be made from it again (``replay``), since the
    values of a level are replaced, never written.  One that became a view of itself in place has what it was as its
    parent; views from before are of that.
    """

    level: "Level"
    value: Tensor
    place_shown = ""
    parent = replay = None
    detached = False  # True if it shares its parent's elements, and has a separate derivative
    writes = noticed = 0  # how often this was replaced; the count of the root when ``value`` was made
    turns = turn = 0  # how often this became a view of itself; the count of ``parent`` when this was made of it

    shown = "GradTrackingTensor"  # PyTorch's name

    def __new__(cls, level, value, meta=None):
        made = blank(cls)
        made.level, made.value = level, value
        made._rush_meta = meta or value._rush_meta
        made.itemsize = made._rush_meta.itemsize
        return made

    def __init__(self, *_):
        pass

    @property
    def _rush_turned(self) -> int:
        return self.current().value._rush_turned

    @property
    def weak(self):
        """True if this represents a Python scalar that is known at run time."""
        return getattr(self.value, "weak", False)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        raise RuntimeError("the .data of a tensor can't be set inside of a function that is being transformed")

    @property
    def _version(self):
        return self.root.writes

    def storage_offset(self):
        return self.current().value.storage_offset()

    def __repr__(self, **_):
        number = self.level.number if self.level in active() else ENDED
        return f"{self.shown}(lvl={number}, {self.place_shown}value=\n{textwrap.indent(repr(self.value), '    ')}\n)"

    def requires_grad_(self, requires_grad=True):
        raise RuntimeError(
            "Tensor.requires_grad_() was called on a tensor inside of a function that is being transformed, where "
            "transforms request gradients: "
            "use torch.func.grad, vjp, jacrev or hessian there, or call requires_grad_() outside.")

    def retain_grad(self):
        raise RuntimeError(
            "Tensor.retain_grad() was called on a tensor inside of a function that is being transformed: a transform "
            "returns gradients, use torch.func.grad or vjp there.")

    def backward(self, *_, **__):
        raise RuntimeError(
            "backward() was called inside of a function that is being transformed: use torch.func.grad or vjp there, "
            "or call backward() "
            "outside.")

    def untyped_storage(self):
        raise NotImplementedError(
            f"Cannot access storage of a {self.shown}: inside of a function that is being transformed a tensor stands "
            "for others, and has no memory of its own")

    storage = _typed_storage = untyped_storage

    def __deepcopy__(self, memo):
        return self.clone()

    def concrete(self) -> Tensor:
        """The tensor with storage that this represents."""
        value = self.current().value
        return value.concrete() if isinstance(value, Wrapped) else value

    def escaped(self) -> Tensor:
        """Value of this tensor after its level has ended."""
        return self.value

    def ancestors(self):
        """Yield the tensors that this is a view of, nearest first."""
        while self.source is not None:
            self = self.source
            yield self

    @property
    def source(self) -> "Wrapped | None":
        """Base of this view, in the state at the time of the view's creation."""
        found = self.parent
        while found is not None and found.turns > self.turn:
            found = found.parent
        return found

    @property
    def root(self) -> "Wrapped":
        return next(iter(deque(self.ancestors(), 1)), self)

    def holding(self, other: "Wrapped") -> "Wrapped":
        """A tensor with the elements of ``other``, and with the derivative of this one."""
        return other

    def value_holding(self, other: "Wrapped") -> Tensor:
        """The value of ``holding(other)``, whose derivatives at the levels below are those of this value."""
        value = self.value
        alike = isinstance(value, Wrapped) and type(other.value) is type(value)
        return value.holding(other.value) if alike else other.value

    def replace_value(self, other: "Wrapped"):
        """Become another value of the same level."""
        self.value, self._rush_meta = other.value, other._rush_meta

    def _rush_become(self, view: "Wrapped"):
        """Become ``view``, a view of this tensor."""
        if view is self:
            return
        former = blank(type(self))
        former.__dict__.update(self.__dict__)
        former.replace_value(self)
        self.replace_value(view)
        self.parent, self.replay, self.noticed = former, view.replay, view.noticed
        self.turn, self.turns = former.turns, former.turns + 1

    def current(self) -> "Wrapped":
        """Return this tensor, recomputed if it is a view of a tensor that was replaced since."""
        if self.parent is not None and self.noticed != self.root.writes:
            made = self.replay(self.source.current())
            self.replace_value(self.holding(made) if self.detached else made)
            self.noticed = self.root.writes
        return self

    def replace(self, new: "Wrapped"):
        """Take a new value, and pass it on to the base of this view."""
        root, target = self.root, self
        for ancestor in self.ancestors():
            ancestor.current()
        root.writes += 1
        while target is not None:
            parent = target.source
            written = None if parent is None else written_through(parent, target, new)
            if target.detached and parent is not None:
                written = parent.holding(written)
            target.replace_value(new)
            target.noticed = root.writes
            target, new = parent, written


def written_through(parent: Wrapped, view: Wrapped, new: Wrapped):
    """Return the parent with the elements of a view of it replaced."""
    count = product(parent.shape)
    at = view.replay(OPS["arange"](count).reshape(tuple(parent.shape)))
    bits = parent._rush_turned ^ view._rush_turned
    if bits:
        at, new = OPS["abs"](at), turning(new, bits)
    size = (product(view.shape),)
    flat = P.put(parent.reshape((count,)), at.reshape(size), new.reshape(size), dim=0, combine="set")
    return flat.reshape(tuple(parent.shape))


def reading(name):
    """Return a method that reads elements, of the value below."""
    def read(self, *args, **kwargs):
        with self.level.outside():
            return getattr(self.current().value, name)(*args, **kwargs)

    read.__name__ = name
    return read


READING = ("item", "tolist", "__bool__", "__int__", "__float__", "__complex__", "__index__", "numpy", "__array__",
           "data_ptr")
for _name in READING:
    setattr(Wrapped, _name, reading(_name))


class Level(Interpreter):
    """Base class of levels: composites run unchanged, and ``answer`` handles other operators."""

    kind: type  # the class of its values
    name = "a transform"

    @property
    def number(self) -> int:
        """Number of active levels up to this one."""
        stack = active()
        return sum(isinstance(one, Level) for one in stack[:stack.index(self) + 1])

    def owns(self, value) -> bool:
        return isinstance(value, self.kind) and value.level is self

    def call(self, op: Op, args, kwargs):
        traits = op.traits
        if kwargs:
            kwargs = self.keywords(op, kwargs)
        if traits.get("fresh") and self.owns(args[0]):
            return self.fresh(op, *args, **kwargs)
        if traits.get("composite"):
            result = self.composite(op, args, kwargs)
            return result if tensors_in(args) or tensors_in(kwargs.values()) else self.adopt(result)
        otherwise = traits.get("otherwise")
        if otherwise is not None:
            function = otherwise(*args[1:])
            if function is not None:
                return function(args[0])
        if traits.get("into") is not None:
            return self.mutate(op, args, kwargs)
        tensors = []
        below = self.opened(args, tensors)
        named = dict(zip(kwargs, self.opened(kwargs.values(), tensors))) if kwargs else kwargs
        if not (self.among(tensors) or self.always(op)):
            with self.below():
                result = op(*args, **kwargs)
            return result if traits.get("view") else self.adopt(result)
        result = self.answer(op, tensors, below, named)
        if (traits.get("view") and self.owns(result) and self.owns(args[0]) and result is not args[0]
                and not self.separates(op)):
            result.parent, result.noticed, result.turn = args[0], args[0].root.writes, args[0].turns
            result.detached = bool(traits.get("detaches"))
            result.replay = lambda parent: op(parent, *args[1:], **kwargs)
        return result

    def composite(self, op: Op, args, kwargs):
        """Run an operator as its body."""
        return body_of(op, args)(*args, **kwargs)

    def fresh(self, op: Op, model: Wrapped, *args, **kwargs):
        """Make a tensor like one of this level; it is of this level, too, so that it can be written here."""
        with self.below():
            result = op(model.current().value, *args, **kwargs)
        return self.adopt(result)

    def keywords(self, op: Op, kwargs) -> dict:
        """Return keyword arguments in the order of the operator's parameters, without ``out``, which raises."""
        if kwargs.get("out") is not None and "library" not in op.traits:
            raise RuntimeError(
                f"{op.name}(): out= can't be used inside of a function that is being transformed by {self.name}; use "
                "the value that "
                "the operator returns.")
        return ordered(op, {k: v for k, v in kwargs.items() if k != "out"})

    def refreshed(self, value):
        return value.current() if self.owns(value) else value

    def opened(self, values, tensors: list) -> list:
        """Return arguments with values of this level replaced by the values that they wrap; append their tensors to
        ``tensors``.

        Run-time scalars of a trace are not tensors here.
        """
        out = []
        for value in values:
            kind = type(value)
            if kind is self.kind and value.level is self:
                tensors.append(value if value.parent is None else value.current())
                value = value.value
            elif kind is list or kind is tuple:
                value = kind(self.opened(value, tensors))
            elif isinstance(value, Tensor) and not getattr(value, "weak", False):
                tensors.append(value)
            out.append(value)
        return out

    def among(self, tensors) -> bool:
        """True if one of the tensors is of this level."""
        for tensor in tensors:
            if type(tensor) is self.kind and tensor.level is self:
                return True
        return False

    def carries(self, tensors) -> bool:
        """True if a tensor from outside of this level can't take what these hold."""
        return self.among(tensors)

    def separates(self, op: Op) -> bool:
        """True if writes to a view that ``op`` made reach the viewed tensor through memory alone."""
        return False

    def always(self, op: Op) -> bool:
        """True if this level also handles calls without values of its own (others go to the interpreter below)."""
        return False

    def adopt(self, results):
        """Convert the results of a call without values of this level to the form that this level needs."""
        return results

    def answer(self, op: Op, tensors, args, kwargs):
        """Return the result of a call: ``args`` and ``kwargs`` are ``opened``, ``tensors`` their tensors before
        that."""
        raise NotImplementedError

    def mutate(self, op: Op, args, kwargs):
        """Run an in-place operator: its target takes the value that the operator would have written."""
        target = args[op.traits["into"]]
        tensors = []
        below = self.opened(args, tensors)
        named = dict(zip(kwargs, self.opened(kwargs.values(), tensors)))
        if not self.owns(target):
            if self.carries(tensors):
                self.refuse(op, target)
            with self.below():
                return op(*args, **kwargs)
        target.replace(self.answer(written(op), tensors, below, named))
        return target

    def refuse(self, op: Op, target):
        raise RuntimeError(
            f"{op.name}: a function transformed by {self.name} tried to mutate a captured Tensor, one from outside of "
            "it. Make the "
            "tensor an argument of the function, or use the operator that returns a new tensor.")

    def below(self) -> Suspended:
        """A block that runs under the interpreters below this one."""
        return Suspended(self)

    def outside(self):
        """Like ``below``, also after this level has ended."""
        from contextlib import nullcontext

        return Suspended(self) if self in active() else nullcontext()


def written(op: Op) -> Op:
    """The out-of-place form of an in-place operator, as an operator of its own."""
    found = op.caches.get("written")
    if found is None:
        at = op.traits["into"]

        def body(*args, **kwargs):
            target = list(bind(op, args, kwargs).values())[at]
            result = body_of(op, args)(*args, **kwargs)
            if tuple(result.shape) != tuple(target.shape):
                raise RuntimeError(
                    f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}")
            return as_dtype(result, target.dtype) if result is not target else P.copy(target)

        found = op.caches["written"] = derived(op.name, body, op, into=None)
    return found


def ordered(op: Op, kwargs: dict) -> dict:
    """Return keyword arguments in the order of the operator's parameters."""
    if len(kwargs) < 2 or op.signature is None:
        return kwargs
    names = list(op.signature.parameters)
    return {k: kwargs[k] for k in sorted(kwargs, key=lambda k: names.index(k) if k in names else len(names))}


def tensors_in(values) -> list:
    """The tensors among arguments, looking into lists; run-time scalars of a trace are not tensors here."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            if not getattr(value, "weak", False):
                found.append(value)
        elif type(value) in (list, tuple):
            found += tensors_in(value)
    return found


def map_tensors(function, values):
    """Return arguments with each tensor (as ``tensors_in`` finds them) replaced by ``function(tensor)``, in order."""
    return tuple([mapped(function, value) for value in values])


def mapped(function, value):
    """One argument of ``map_tensors``."""
    if isinstance(value, Tensor):
        return value if getattr(value, "weak", False) else function(value)
    if type(value) in (list, tuple):
        return type(value)([mapped(function, v) for v in value])
    return value


def map_call(function, args, kwargs):
    """``map_tensors`` over positional, then keyword arguments."""
    args = map_tensors(function, args)
    return args, dict(zip(kwargs, map_tensors(function, kwargs.values()))) if kwargs else kwargs


def map_results(function, results):
    """Apply ``function`` to each tensor of the results; named tuples keep their names."""
    if isinstance(results, Tensor):
        return function(results)
    if isinstance(results, (list, tuple)):
        parts = [map_results(function, r) for r in results]
        return type(results)(*parts) if hasattr(results, "_fields") else tuple(parts)
    return results


# traits that hold of derived operators too
PASSED_ON = ("view", "random", "detaches", "number_first", "out_of_range", "into", "several")


def derived(name: str, body, op: Op, signature=None, **traits) -> Op:
    """Make an operator from another one by a transform: the same parameters with another body."""
    kept = {k: op.traits[k] for k in PASSED_ON if k in op.traits}
    return make(name, body, None, signature or op.signature, declared_scalars(op),
                **{**kept, "derived": True, **traits})


def with_parameter(signature: inspect.Signature, name: str) -> inspect.Signature:
    """Return a signature with one more keyword parameter."""
    extra = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
    listed = list(signature.parameters.values())
    at = len(listed) - (bool(listed) and listed[-1].kind is inspect.Parameter.VAR_KEYWORD)
    return signature.replace(parameters=[*listed[:at], extra, *listed[at:]])
