"""Tensors that modules own."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.core.native.hooks import connect
from .._src.core.overriding import PLAIN, disabled, kind_of
from .._src.core.tensor import blank, show


class _ParameterMeta(type(Tensor)):
    """Makes ``isinstance(t, Parameter)`` true for tensors of other classes that are marked as parameters."""

    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or (isinstance(instance, Tensor)
                                                       and getattr(instance, "_is_param", False) and cls is Parameter)


def taken_over(kind, data, requires_grad):
    """A tensor of another class over the memory of ``data``."""
    made = blank(kind)
    show(made, data)
    made.requires_grad = requires_grad
    return made


def marked(data, requires_grad):
    """A tensor of an overriding class as a parameter: it keeps its class and is marked."""
    made = data.detach().requires_grad_(requires_grad)
    if type(made) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
            "instance of the same type, but it "
            f"returned {type(made).__name__}: handle detach in the class.")
    made._is_param = True
    return made


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a Module registers as a parameter when assigned as an attribute; requires a gradient by default.

    >>> torch.nn.Parameter(torch.ones(2)).requires_grad
    True
    """

    __torch_function__ = classmethod(disabled)  # results of parameters are plain tensors, of subclasses too

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            from .._src.ops.create import empty
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"a Parameter is made from a Tensor, not {type(data).__name__}")
        if kind_of(type(data)) != PLAIN:
            return marked(data, requires_grad)
        return taken_over(cls, data, requires_grad)

    def __init__(self, *args, **kwargs):  # what a subclass gives to its own ``__new__``
        pass

    def __deepcopy__(self, memo):
        """A Parameter over a copy of the data, without gradient and without attributes of its own."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents=None):
        return "Parameter containing:\n" + Tensor.__repr__(self)

    def __reduce_ex__(self, protocol):
        return rebuild_parameter, (Tensor.detach(self), bool(self._rush_needs_grad), dict(self.__dict__))


def rebuild_parameter(data, requires_grad, attributes):
    """A Parameter from what pickling kept of it."""
    made = Parameter(data, requires_grad)
    made.__dict__.update(attributes)
    return made


class BufferMeta(type(Tensor)):
    """Makes ``isinstance(t, Buffer)`` true for tensors that are marked as buffers, which keep their class."""

    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or (isinstance(instance, Tensor)
                                                       and getattr(instance, "_is_buffer", False) and cls is Buffer)


class Buffer(Tensor, metaclass=BufferMeta):
    """A tensor that a Module registers as a buffer when assigned as an attribute: ``data``, marked, of data's class.

    >>> import rushlight as torch
    >>> made = torch.nn.Buffer(torch.ones(2), persistent=False)
    >>> type(made) is torch.Tensor, isinstance(made, torch.nn.Buffer), made.persistent
    (True, True, False)
    """

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            from .._src.ops.create import empty
            data = empty(0)
        made = data.detach().requires_grad_(bool(data._rush_needs_grad))
        made.persistent, made._is_buffer = persistent, True
        return made


ANSWERED = frozenset(("dtype", "device", "requires_grad", "requires_grad_", "is_floating_point", "is_complex",
                      "is_leaf", "grad", "grad_fn", "layout", "data", "to", "cpu",
                      # what has no need of a shape
                      "float", "double", "half", "bfloat16", "detach", "copy_", "__repr__", "__deepcopy__", "__get__",
                      "__set__"))


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: ValueError for what needs one."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", str(function))
        if name in ANSWERED:
            return super().__torch_function__(function, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}. Its shape is not known until the module that "
            "owns it has been called: call the "
            "module once with an example input before you count or change its parameters.")

    def materialize(self, shape, device=None, dtype=None):
        """Gives the tensor its shape; its contents are undefined."""
        from .._src.ops.create import empty
        data = empty(shape, dtype=dtype or self.dtype, device=device or self.device)
        show(self, data)
        self.__class__ = self.cls_to_become

    def share_memory_(self):
        """RuntimeError: there is no memory yet."""
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
                           "parameters before calling `module.share_memory()`.")

    def __reduce_ex__(self, protocol):
        where = self.device, self.dtype
        return rebuild_uninitialized, (type(self), bool(self.requires_grad), *where, dict(self.__dict__))

    def __repr__(self):
        return f"<{type(self).__name__}>"

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to "
            "load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters "
            "before accessing their attributes.")


def rebuild_uninitialized(kind, requires_grad, device, dtype, attributes):
    """A tensor without a shape from what pickling kept of it."""
    made = kind(requires_grad=requires_grad, device=device, dtype=dtype)
    made.__dict__.update(attributes)
    return made


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        from .._src.ops.create import empty
        return taken_over(cls, empty(0, dtype=dtype, device=device), requires_grad)

    def __init__(self, requires_grad=True, device=None, dtype=None):
        pass

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        from .._src.ops.create import empty
        made = taken_over(cls, empty(0, dtype=dtype, device=device), requires_grad)
        made.persistent, made._is_buffer = persistent, True
        return made

    def __init__(self, *args, **kwargs):
        pass


def is_lazy(param) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


connect("nn/parameter.py", parameter=Parameter)
