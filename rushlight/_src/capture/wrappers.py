"""Classes with ``__torch_dispatch__`` that declare the tensors they wrap: an instance is captured as these.

Such an instance is a Python object here too, over fake tensors, so its class runs as framework code does and calls
operators on the wrapped tensors, which are recorded. One that outlives the segment is rebuilt at its end.
"""
from __future__ import annotations

import inspect
import types

from ...utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type
from ..core import overriding
from ..core.native import Tensor, mine
from .classes import ABSENT, is_data_descriptor, static
from .constraints import constraints_of
from .errors import Break, CaptureError
from .fake import Fake
from .guards import TensorCheck
from .parts import ATTRIBUTES, Part
from .values import Constant, WrapperValue
from .wrapper_specs import spec_of, tangent_of, wrapped_by

HISTORY = frozenset(("grad", "grad_fn", "backward", "register_hook", "retain_grad", "retains_grad", "is_leaf", "data",
                     "register_post_accumulate_grad_hook", "requires_grad_"))
MEMORY = frozenset(("data_ptr", "untyped_storage", "storage", "numpy", "tolist", "set_", "__dict__"))


class Wrappers(Part, part="wrappers"):
    """Capture component for instances of such classes."""

    needs = "attributes", "framework", "guarding", "outside", "subclasses", "values"

    # --- from outside -------------------------------------------------------------------------------------------------
    def wrap(self, value, source):
        """Return the Value of an instance from outside, over fakes of the tensors that it wraps."""
        cls = type(value)
        if not is_traceable_wrapper_subclass(value) or type(value._rush_meta.shape) is not tuple and any(
                type(n) is not int for n in value.shape):
            raise Break("RB014", f"{cls.__name__}, which does not declare what it wraps by __tensor_flatten__")
        guard, name = self.guarding.guard, self.guarding.constant_name
        guard(f"type({{0}}) is {name(cls)} and {{0}}._rush_needs_grad == {value._rush_needs_grad}", source)
        self.subclasses.met = True
        names, context = value.__tensor_flatten__()
        guard(f"{name(described_as)}({{0}}, {name(list(names))}, {name(context)}, {name(checker(cls))})", source)
        # nodes that have the gradient of a class know the sizes of instances
        fixed = "static" in self.machine.rules or getattr(cls, "__tensor_fixed__", False) or value._rush_needs_grad
        free = frozenset() if fixed else self.machine.entry.free_sizes(source, value)
        meta = self.guarding.symbolic(value._rush_meta, free, source, constraints_of(value))
        check = TensorCheck(value._rush_meta, free)
        check.exact = True
        guard(f"{{0}}._rush_meta in {name(check)}.seen or {name(check)}({{0}}._rush_meta)", source)
        inner = {part: self.outside.wrap(getattr(value, part), source.attribute(part), fixed).fake for part in names}
        with overriding.DisableTorchFunctionSubclass():
            made = cls.__tensor_unflatten__(inner, context, meta.shape, meta.strides)
        made._rush_meta, made._rush_needs_grad = meta, value._rush_needs_grad
        if value._rush_needs_grad:
            made._rush_history = self.history_of(value, source, made)
        found = self.entered(made)
        found.source, found.real = source, value
        return found

    def history_of(self, value, source, instance) -> tuple:
        """Return the tensors that an instance from outside wraps as graph inputs with the history of the instance."""
        tangent = self.guarding.constant_name(tangent_of(spec_of(value)))
        history = []
        for index, part in enumerate(wrapped_by(instance)):
            fake = self.machine.recorder.input(part._rush_meta, part._rush_meta.dtype.is_inexact)
            self.outside.graph_inputs[fake.node], self.outside.real[fake.node] = (str(source), source), value
            self.outside.opened[fake.node] = f"OPEN({{}}, {index}, {tangent})"
            history.append(fake)
        return tuple(history)

    def entered(self, instance):
        """Return the Value of an instance over fake tensors, the same one each time."""
        known = self.outside.wrapped.get(id(instance))
        if known is None:
            known = self.outside.wrapped[id(instance)] = WrapperValue(instance)
            self.outside.alive.append(instance)
        return known

    def met(self, instance):
        """Return the Value of an instance that framework code returns."""
        known = self.outside.wrapped.get(id(instance))
        if known is not None:
            return known
        if not is_traceable_wrapper_subclass(instance):
            raise Break("RB014", type(instance).__name__)
        if not any(isinstance(part, Fake) for part in wrapped_by(instance)):
            return self.wrap(instance, self.guarding.constant_source(instance))
        return self.entered(instance)

    def make(self, cls, arguments, keywords):
        """Call such a class; None for another class."""
        if not overriding.kind_of(cls) & overriding.DISPATCH:
            return None
        if not is_traceable_wrapper_subclass_type(cls):
            raise Break("RB014", cls.__name__)
        made = self.framework.run_framework(cls, arguments, keywords)
        if mine.grad and any(part._rush_needs_grad for part in wrapped_by(made.fake)):
            raise Break("RB014", f"a {cls.__name__} over a tensor that requires grad")
        return made

    # --- attributes ---------------------------------------------------------------------------------------------------
    @ATTRIBUTES.by(WrapperValue)
    def attribute(self, owner, name):
        """Return an attribute: of the instance, of its class, or of all tensors."""
        cls, instance = type(owner.fake), owner.fake
        if name == "__class__":
            return self.values.from_python(cls)
        if name == "is_leaf" and owner.source is not None:
            self.guarding.guard(f"{{0}}.is_leaf is {owner.real.is_leaf}", owner.source.each_call())
            return Constant(owner.real.is_leaf)
        if name == "is_leaf" and hasattr(instance, "_rush_history"):
            return Constant(False)
        if name in MEMORY or name in HISTORY and instance._rush_needs_grad:
            raise Break("RB014", f"{name!r} of a {cls.__name__}")
        raw = static(cls, name)
        if name in instance.__dict__ and not is_data_descriptor(raw):
            return self.values.from_python(instance.__dict__[name])
        if raw is ABSENT:
            return self.attributes.fallback(owner, cls, name)
        if raw is static(Tensor, name) or getattr(getattr(raw, "fget", raw), "stands_for", None) is not None:
            found = self.subclasses.attribute(owner, name, cls) if self.subclasses.of(owner) else NotImplemented
            if found is not NotImplemented:
                return found
            if callable(raw) and not isinstance(raw, type):
                return self.attributes.bound(raw, owner, name, cls)
            return self.framework.run_framework(getattr, [owner, self.values.from_python(name)], {})
        if isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self.values.from_python(getattr(instance, name))
        return self.attributes.bound(raw, owner, name, cls)

    # --- instances that outlive the segment ---------------------------------------------------------------------------
    def written(self, value, write):
        """Return code that rebuilds an instance."""
        instance = value.fake
        if hasattr(instance, "_rush_history"):
            spec = spec_of(instance)
            given = [spec, tangent_of(spec)]
            return ", ".join((f"CLOSE({', '.join(map(self.guarding.constant_name, given))}",
                              *(write(self.values.from_python(part)) for part in instance._rush_history))) + ")"
        names, context = instance.__tensor_flatten__()
        pairs = ", ".join(f"{n!r}: {write(self.values.from_python(getattr(instance, n)))}" for n in names)
        rest = (write(self.values.from_python(part))
                for part in (context, instance._rush_meta.shape, instance._rush_meta.strides))
        return f"WRAPPER({', '.join((self.guarding.constant_name(type(instance)), f'{{{pairs}}}', *rest))})"


def checker(cls):
    """Return the class's own comparison of contexts, or None."""
    own = getattr(cls, "__metadata_guard__", None)
    if own is None:
        return None
    if not isinstance(static(cls, "__metadata_guard__"), classmethod):
        raise CaptureError("Tensor subclass method __metadata_guard__ must be a classmethod, which that of "
                           f"{cls.__name__} is not")
    if len(inspect.signature(own).parameters) != 2:
        raise CaptureError("Tensor subclass method __metadata_guard__ must take exactly two subclass metadata "
                           f"arguments, which that of {cls.__name__} does not")
    return own


def described_as(value, names, context, same) -> bool:
    """True if an instance wraps tensors by these names, in this context."""
    now, about = value.__tensor_flatten__()
    return list(now) == names and bool(about == context if same is None else same(context, about))
