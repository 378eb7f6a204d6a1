"""Instances of classes with ``__torch_dispatch__`` as specs and the tensors that they wrap: programs compute with these
tensors, and with gradients of these tensors.

The gradient of an instance is an instance whose context follows from that of the value (``tangent_of``), so programs
know the metadata of its tensors. A gradient with another context is converted by its
``__coerce_same_metadata_as_tangent__``.
"""
from __future__ import annotations

from ...utils._python_dispatch import is_traceable_wrapper_subclass
from ..autograd.function import Function
from ..autograd.slow_paths import full_of
from ..core import overriding
from ..core.interpret import Unwatched, is_recording
from ..core.op import OPS
from ..transforms.trace import Trace
from .errors import Break


class WrapperSpec:
    """The structure of an instance: class, names of parts, context, metadata, the specs of its parts (None for a plain
    tensor), and the metadata of all plain tensors within."""

    def __init__(self, value):
        self.cls, self.meta = type(value), value._rush_meta
        self.names, self.context = value.__tensor_flatten__()
        self.parts = [spec_of(getattr(value, name)) for name in self.names]
        self.tangent = None  # the spec of its gradients, made on first use
        self.metas = [tensor._rush_meta for tensor in wrapped_by(value)]

    def close(self, tensors):
        """Return an instance, without history, of plain tensors in the order of ``metas``."""
        tensors, parts = iter(tensors), {}
        for name, part in zip(self.names, self.parts):
            parts[name] = next(tensors) if part is None else part.close([next(tensors) for _ in part.metas])
        with overriding.DisableTorchFunctionSubclass():
            made = self.cls.__tensor_unflatten__(parts, self.context, self.meta.shape, self.meta.strides)
        made._rush_meta, made._rush_needs_grad = self.meta, 0
        return made


def spec_of(value) -> WrapperSpec | None:
    """Return the spec of an instance; None for a plain tensor."""
    if not overriding.kind_of(type(value)) & overriding.DISPATCH or not is_traceable_wrapper_subclass(value):
        return None
    return WrapperSpec(value)


def wrapped_by(value) -> list:
    """Return the plain tensors that an instance wraps, recursively; a plain tensor by itself."""
    if not overriding.kind_of(type(value)) & overriding.DISPATCH or not is_traceable_wrapper_subclass(value):
        return [value]
    return [tensor for name in value.__tensor_flatten__()[0] for tensor in wrapped_by(getattr(value, name))]


def open_wrapper(value) -> list:
    """Return ``wrapped_by`` of a tensor under capture, with its history.  A Break for an instance that became a leaf
    here."""
    if not value._rush_needs_grad or not overriding.kind_of(type(value)) & overriding.DISPATCH:
        return wrapped_by(value)
    if not hasattr(value, "_rush_history"):
        raise Break("RB014", f"a {type(value).__name__} that requires grad, made in the compiled function")
    return list(value._rush_history)


def close_recorded(recorder, spec: WrapperSpec, fakes):
    """Return the instance of these tensors of a program, with their history: what it wraps has none itself."""
    made = spec.close([recorder.cut(fake) if fake._rush_needs_grad else fake for fake in fakes])
    if any(fake._rush_needs_grad for fake in fakes):
        made._rush_needs_grad, made._rush_history = 1, tuple(fakes)
    return made


def tangent_of(spec: WrapperSpec) -> WrapperSpec:
    """Return the spec of gradients: that of the values, unless the class changes it by
    ``__coerce_tangent_metadata__``."""
    if not hasattr(spec.cls, "__coerce_tangent_metadata__"):
        return spec
    if spec.tangent is None:
        spec.tangent = coerced(spec)
    return spec.tangent


def coerced(spec: WrapperSpec) -> WrapperSpec:
    """Return the spec of an instance after ``__coerce_tangent_metadata__``."""
    trace = Trace()  # its program is not used, only the resulting context
    with Unwatched(), trace:
        return WrapperSpec(spec.close(list(map(trace.input, spec.metas))).__coerce_tangent_metadata__())


def open_tangent(gradient, tangent: WrapperSpec) -> list:
    """Return the plain tensors that a gradient wraps with the context of ``tangent``.  RuntimeError if it cannot be
    converted to that."""
    convert = getattr(gradient, "__coerce_same_metadata_as_tangent__", None)
    if convert is not None:
        gradient = convert(tangent.context, tangent.cls)
    elif type(gradient) is not tangent.cls or gradient.__tensor_flatten__()[1] != tangent.context:
        gradient = None
    if gradient is None:
        raise RuntimeError(
            f"a gradient has another type or context than the {tangent.cls.__name__} that the compiled program expects "
            f"({tangent.context}): define {tangent.cls.__name__}.__coerce_same_metadata_as_tangent__ to convert it")
    return wrapped_by(gradient)


class OpenedPart(Function):
    """One plain tensor of an instance with a history."""

    @staticmethod
    def forward(ctx, value, index, tangent):
        ctx.index, ctx.tangent = index, tangent
        found = wrapped_by(value)[index]
        return OPS["view_as"](found, found)

    @staticmethod
    def backward(ctx, gradient):
        parts = [gradient if k == ctx.index else full_of(meta, 0) for k, meta in enumerate(ctx.tangent.metas)]
        return ctx.tangent.close(parts), None, None


class ClosedParts(Function):
    """An instance of plain tensors with a history."""

    @staticmethod
    def forward(ctx, spec, tangent, *parts):
        ctx.tangent = tangent
        return spec.close([OPS["detach"](part) for part in parts])

    @staticmethod
    def backward(ctx, gradient):
        return None, None, *open_tangent(gradient, ctx.tangent)


def open_part(value, index: int, tangent: WrapperSpec):
    """Return one of the plain tensors that an instance wraps, with its history."""
    if is_recording() and value._rush_needs_grad:
        return OpenedPart.apply(value, index, tangent)
    return wrapped_by(value)[index]


def close_parts(spec: WrapperSpec, tangent: WrapperSpec, *parts):
    """Return an instance with the history of the tensors it wraps."""
    if is_recording() and any(part._rush_needs_grad for part in parts):
        return ClosedParts.apply(spec, tangent, *parts)
    return spec.close(parts)
