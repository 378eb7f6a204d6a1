"""Custom operators: defined by a Python function, with a gradient, a fake implementation and a vmap rule."""
from __future__ import annotations

import functools

from .._src.core.later import facade
from .._src.core.options import accept_only
from .._ops import Callable, OpOverload, OpOverloadPacket, ops
from .check import opcheck  # noqa: F401
from .operator import CustomOperator
from .schema import infer_schema, parse


def operator_of(op) -> CustomOperator:
    """The user's operator that a name, packet, overload or definition means.  RuntimeError where none is defined."""
    if isinstance(op, CustomOpDef):
        return op.custom
    if isinstance(op, OpOverload):
        op = op.overloadpacket
    if isinstance(op, str):
        namespace, _, name = op.partition("::")
        stem, _, label = name.partition(".")
        op = getattr(ops, namespace).packets.get(stem)
        if op is not None and (label or "default") != op.label:
            op = op.siblings.get(label or "default", None if label else op)
        found = None if op is None else op.custom
        if found is None:
            raise RuntimeError(
                f"Could not find the operator {namespace}::{name}: define it first with torch.library.custom_op or "
                "torch.library.define")
        return found
    if not isinstance(op, OpOverloadPacket) or op.custom is None:
        raise RuntimeError(
            f"{op!r} is not an operator that was defined with torch.library: the framework's own operators carry "
            "their rules already")
    return op.custom


def entered(operator, name, function):
    """Notes a rule; as a decorator where no function is given."""
    if function is None:
        return lambda later: entered(operator, name, later)
    setattr(operator_of(operator).rules, name, function)
    return function


class CustomOpDef(Callable):
    """What ``custom_op`` gives: callable, and the place to register rules."""

    def __init__(self, custom: CustomOperator, function):
        self.custom, self._init_fn = custom, function
        self._namespace, self._name = custom.namespace, custom.name
        self._qualname, self._opoverload = custom.op.name, custom.packet.overload(custom.packet.label)
        self.op = custom.op
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        return self.custom.op(*args, **kwargs)

    def register_fake(self, fn=None, /):
        """The fake implementation: the same parameters, results of the right shape and dtype."""
        return entered(self, "fake", fn)

    def register_autograd(self, backward, /, *, setup_context=None):
        """The gradient: ``backward(ctx, *gradients)`` returns one for each argument,
        ``setup_context(ctx, inputs, output)`` keeps what it needs."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func=None):
        """The rule for batches: ``func(info, in_dims, *args)`` returns results and their batch dimensions."""
        return entered(self, "vmap", func)

    def register_kernel(self, device_types, fn=None, /):
        """A function for some device types (None: all)."""
        return register_kernel(self, device_types, fn)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """The rule for a class with ``__torch_dispatch__``."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_autocast(self, device_type, cast_inputs, /):
        return register_autocast(self, device_type, cast_inputs)

    def set_kernel_enabled(self, device_type, enabled=True):
        """Refuses: there is one kind of device."""
        raise NotImplementedError("kernels cannot be switched on and off: there is only the CPU")

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"


def names(name: str) -> tuple:
    """Namespace, name and label of the overload ("" for the default one).  ValueError without a namespace."""
    namespace, separator, rest = name.partition("::")
    if not separator or not rest:
        raise ValueError(f"an operator's name has a namespace: 'mylib::name', not {name!r}")
    name, _, label = rest.partition(".")
    return namespace, name, label


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes a function an operator: one step for autograd and for the compiler, whatever it does inside.

    ``mutates_args`` names the arguments that it writes into (``()`` for none); ``schema`` is read off the annotations
    where it is not given.  ValueError for a name without namespace, or for annotations that make no schema.

    >>> import numpy, rushlight as torch
    >>> @torch.library.custom_op("readme::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 3)
    >>> cube(torch.tensor([2.0]))
    tensor([8.])
    >>> torch.ops.readme.cube(torch.tensor([3.0]))
    tensor([27.])
    """
    if fn is None:
        return functools.partial(custom_op, name, mutates_args=mutates_args, device_types=device_types, schema=schema,
                                 tags=tags)
    namespace, short, label = names(name)
    found = parse(short + (schema if schema is not None else infer_schema(fn, mutates_args=mutates_args)))
    made = CustomOperator(namespace, short, found, ["pt2_compliant_tag", *listed_tags(tags)], label)
    for kind in (device_types,) if isinstance(device_types, str) or device_types is None else device_types:
        made.rules.kernels[kind] = fn
    return CustomOpDef(made, fn)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Register an operator's fake implementation: same parameters, results of the right shape and dtype.
    RuntimeError if it has one already and ``allow_override`` is False."""
    custom = operator_of(op)
    if not allow_override and custom.rules.fake is not None:
        raise RuntimeError(f"register_fake(...): the operator {custom.op.name} already has a fake impl registered: pass "
                           "allow_override=True to replace it")
    return entered(op, "fake", func)


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """``register_fake`` by its older name."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Registers an operator's gradient; see ``CustomOpDef.register_autograd``.  RuntimeError for one that writes into
    its arguments.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("readme::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.library.register_autograd("readme::twice", lambda ctx, g: g * 2)
    >>> x = torch.ones(1, requires_grad=True)
    >>> twice(x).backward()
    >>> x.grad
    tensor([2.])
    """
    custom = operator_of(op)
    if custom.schema.mutated:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {custom.op.name} with schema "
            f"{custom.schema}: please create a functional "
            "operator and register an autograd formula for that.")
    custom.rules.backward, custom.rules.setup = backward, setup_context


def register_vmap(op, func=None, /, *, lib=None):
    """Registers an operator's rule for batches: ``func(info, in_dims, *args)`` returns results and their batch
    dimensions."""
    return entered(op, "vmap", func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Registers the function that computes an operator on some device types (a name, several, or None for all)."""
    if func is None:
        return lambda later: register_kernel(op, device_types, later)
    for kind in (device_types,) if isinstance(device_types, str) or device_types is None else device_types:
        operator_of(op).rules.kernels[kind] = func
    return func


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Registers how a class with ``__torch_dispatch__`` answers an operator:
    ``func(cls, func, types, args, kwargs)``."""
    if func is None:
        return lambda later: register_torch_dispatch(op, torch_dispatch_class, later)
    operator_of(op).rules.dispatch[torch_dispatch_class] = func
    return func


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Registers the dtype that an operator's floating-point arguments are cast to under autocast."""
    operator_of(op).rules.autocast = device_type, cast_inputs


def get_kernel(op, dispatch_key):
    """The function registered for a device type or dispatch key; KeyError where there is none."""
    return operator_of(op).rules.kernels[dispatch_key.lower() if dispatch_key in ("CPU",) else dispatch_key]


def get_ctx():
    """Refuses: results whose sizes depend on data end the graph instead."""
    raise NotImplementedError(
        "operators whose result sizes depend on data have no place in a compiled graph: call them outside of it")


def fallthrough_kernel(*args, **kwargs):
    """A kernel that leaves the call to the next one; refuses to be called itself."""
    raise NotImplementedError("fallthrough_kernel() marks a dispatch key as without a function; it is not called")


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """Refuses: Triton kernels of the program's own are not launched."""
    raise NotImplementedError(
        f"triton_op({name!r}): Triton kernels of the program's own are not launched. Define the operator with "
        "torch.library.custom_op, or write "
        "it with tensor operators and let torch.compile fuse them.")


def wrap_triton(triton_kernel, /):
    """Refuses, as ``triton_op`` does."""
    raise NotImplementedError(
        "wrap_triton(): Triton kernels of the program's own are not launched: write the computation with tensor "
        "operators")


def define(qualname, schema=None, *, lib=None, tags=()):
    """Defines an operator by its schema: ``define("mylib::sin", "(Tensor x) -> Tensor")``; ``impl`` gives it a
    function."""
    if isinstance(qualname, Library):
        return qualname.define(schema, tags=tags)
    namespace, name, label = names(qualname)
    if lib is not None:
        lib.defined.append(qualname.partition("::")[2])
    return CustomOperator(namespace, name, parse(name + schema), listed_tags(tags), label).op.name


def listed_tags(tags) -> list:
    """Return the ``torch.Tag`` members of one or several; TypeError for others."""
    if not tags:
        return []
    kind = facade().Tag
    found = [tags] if isinstance(tags, kind) else list(tags)
    wrong = next((tag for tag in found if not isinstance(tag, kind)), None)
    if wrong is not None:
        raise TypeError(f"tags: expected members of torch.Tag, got {wrong!r}")
    return found


KEYS = {"CPU": "cpu", "default": None, "types": None}


def impl(qualname, types, func=None, *, lib=None):
    """Gives a defined operator its function for device types (``"cpu"``, ``"default"``) or a dispatch key (``"CPU"``,
    ``"CompositeImplicitAutograd"``).  The older form takes a Library, the name in it and a key, and is a decorator."""
    if isinstance(qualname, Library):
        return functools.partial(entered_into, qualname, types, func or "")
    if func is None:
        return lambda later: impl(qualname, types, later)
    custom = operator_of(qualname)
    for kind in (types,) if isinstance(types, str) else types:
        if kind == "Meta":
            custom.rules.fake = func
        else:
            custom.rules.kernels[KEYS.get(kind, kind)] = func
    return func


def is_implemented(custom, kind) -> bool:
    """True if a custom operator has a function for a dispatch key."""
    return custom.rules.fake is not None if kind == "Meta" else KEYS.get(kind, kind) in custom.rules.kernels


def entered_into(library, name, key, function):
    """A function as what computes an operator of a library; returns it."""
    library.impl(name, function, key)
    return function


class Library:
    """A namespace of operators: ``define`` by schemas, ``impl`` by functions.

    >>> import rushlight as torch
    >>> lib = torch.library.Library("readme_lib", "DEF")
    >>> lib.define("plus(Tensor x, float by=1.0) -> Tensor")
    'plus'
    >>> lib.impl("plus", lambda x, by=1.0: x + by, "CompositeImplicitAutograd")
    >>> torch.ops.readme_lib.plus(torch.ones(1), by=2.0)
    tensor([3.])
    """

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}; choose DEF, IMPL or FRAGMENT")
        if ns in ("prim", "prims") or kind == "DEF" and ns == "aten":
            raise ValueError(f"{ns} is a reserved namespace: choose another")
        self.ns, self.kind, self.dispatch_key, self.defined = ns, kind, dispatch_key, []

    def define(self, schema, alias_analysis="", *, tags=()):
        """Defines an operator; returns its name."""
        if self.kind == "IMPL":
            raise RuntimeError("define() needs a Library of kind DEF or FRAGMENT; this one is IMPL")
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}: choose FROM_SCHEMA or CONSERVATIVE")
        found = parse(schema)
        name = found.name.rpartition("::")[2]
        stem, _, label = name.partition(".")
        CustomOperator(self.ns, stem, found, listed_tags(tags), label)
        self.defined.append(name)
        return name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=True):
        """Gives an operator its function.  RuntimeError for another one for the same key unless ``allow_override``."""
        accept_only("Library.impl", "the function is called with the operator's arguments",
                    with_keyset=(with_keyset, False))
        if isinstance(op_name, (OpOverload, OpOverloadPacket)):
            op_name = op_name.name() if isinstance(op_name, OpOverload) else op_name.opname
        name = op_name.rpartition("::")[2]
        if self.ns == "aten":
            raise NotImplementedError(
                f"aten::{name} cannot be given another implementation: it is declared once, by its body. Use a "
                "TorchDispatchMode or TorchFunctionMode to "
                "answer it differently in a block.")
        if fn is fallthrough_kernel:
            return
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if not allow_override and is_implemented(operator_of(f"{self.ns}::{name}"), key):
            raise RuntimeError(f"This is not allowed since there's already a kernel registered from python overriding "
                               f"{name}'s behavior for {key} dispatch key and {self.ns} namespace.")
        impl(f"{self.ns}::{name}", key, fn)

    def _destroy(self):
        """Removes the operators that this library defined."""
        for name in self.defined:
            stem, _, label = name.partition(".")
            getattr(ops, self.ns).forget(stem, label or "default")


def _scoped_library(*args, **kwargs):
    """A Library whose operators are there for a block."""
    import contextlib

    @contextlib.contextmanager
    def block():
        made = Library(*args, **kwargs)
        try:
            yield made
        finally:
            made._destroy()
    return block()
