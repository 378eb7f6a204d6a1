"""``torch.ops``: operators by namespace, packet and overload, as objects that can be called, compared and used as
keys."""
from __future__ import annotations

from ._src.core.cached import cached_property
from ._src.core.later import room
from ._src.core.meta import Meta
from ._src.core.native import Tensor
from ._src.core.op import OPS
from ._src.core.overriding import NOBODY, answered

PLACES = ("", "nn.functional.", "linalg.", "special.", "fft.", "prims.")
PREFIXES = ("linalg", "special", "fft")
LIBRARIES = ("_c10d_functional", "quantized_decomposed")
OTHER_NAMES = {"_to_copy": "_to_dtype", "_unsafe_view": "reshape", "_local_scalar_dense": "item", "_softmax": "softmax",
               "_log_softmax": "log_softmax",
               "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
               "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
               "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
               "__ilshift__": "bitwise_left_shift_", "__irshift__": "bitwise_right_shift_",
               "embedding": "nn.functional.embedding", "lift_fresh": "alias", "convert": "_to_dtype",
               "_scaled_dot_product_flash_attention_for_cpu":
               "nn.functional.scaled_dot_product_attention", "slice": "narrow"}
OVERLOADS = frozenset((
    "default", "Tensor", "Scalar", "out", "int", "dim", "dims", "dim_IntList", "dim_DimnameList", "other", "unary_out",
    "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor",
    "Tensor_mode", "Scalar_mode", "self", "ScalarSelf", "ScalarOther", "memory_format", "names", "start", "start_step",
    "correction", "values", "stable", "self_int",
    "self_Tensor", "Tensor_out", "Scalar_out", "int_Scalar", "int_Tensor", "int_out", "dtype", "dtype_layout", "device",
    "prim_Device", "other_layout", "value",
    "reduce", "src", "vec", "padding", "indices", "sections", "ScalarOpt_dim", "ScalarOpt_dim_dtype", "p", "sizes",
    "size", "generator", "from", "to", "float",
    "dim_max", "dim_min", "all", "any", "copy", "input", "list", "names_dim", "dim_dtype", "grad_input", "ListTensor",
    "tensor", "tensor2", "no_fuse", "List", "ScalarList", "Sequence", "Storage", "mode", "half_to_float"))
# other libraries use them as keys
NAMES_ONLY = {
    "aten": frozenset(("_pin_memory", "_sparse_addmm", "_sparse_mm_reduce_impl", "_sparse_mm", "_values", "_indices",
                       "_coalesced_", "_efficientzerotensor", "cudnn_batch_norm", "miopen_batch_norm",
                       "_mkldnn_transpose")),
    "c10d": frozenset(("allgather_", "_allgather_base_", "allreduce_", "alltoall_", "alltoall_base_", "barrier",
                       "broadcast_", "gather_", "recv_", "reduce_", "_reduce_scatter_base_", "reduce_scatter_",
                       "scatter_", "send")),
    "_c10d_functional": frozenset(("_wrap_tensor_autograd",)),
    "c10d_functional": frozenset((  # what _c10d_functional took the place of
        "all_gather_into_tensor", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter_tensor",
        "wait_tensor"))}
CHECKS = frozenset(("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range",
                    "sym_constrain_range_for_size"))  # operators that raise, and give nothing
SCALARS = {"pow": "Tensor_Scalar"}
BY_DIM = {"sum": "dim_IntList", "prod": "dim_int", "mean": "dim", "max": "dim", "min": "dim", "any": "dim",
          "all": "dim", "median": "dim", "nanmedian": "dim",
          # when a dimension is given
          "squeeze": "dim", "var": "correction", "std": "correction", "var_mean": "correction",
          "std_mean": "correction", "unique": "dim"}
FIXED = {"split": "Tensor", "slice": "Tensor", "index": "Tensor", "where": "self", "scatter": "src", "transpose": "int",
         "select": "int", "softmax": "int",
         "log_softmax": "int", "unbind": "int", "index_put": "default"}


class Schema:
    """Schema of an overload: its name, its parameters, and its mutated arguments."""

    def __init__(self, overload):
        operator, known = overload.op, overload.schema
        self.returns = [] if known is None else known.returns
        self.name, self.overload_name = (f"{overload.namespace}::{overload._opname}",
                                         "" if overload._overloadname == "default" else overload._overloadname)
        self.is_mutable = bool(operator is not None and operator.traits.get("into") is not None
                               or known is not None and known.is_mutable)
        self.known, signature = known, None if operator is None else operator.signature
        ours = [] if signature is None else list(signature.parameters.values())
        self.arguments = ours if known is None else known.arguments

    def __str__(self):
        if self.known is not None:
            return f"aten::{self.known.text}"
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(map(str, self.arguments))})"


class Callable:
    """A callable operator: a call is forwarded to the wrapped function."""


class OpOverload(Callable):
    """One overload of an operator, such as ``torch.ops.aten.add.Tensor``.  There is one object for each."""

    def __init__(self, packet, name):
        self.overloadpacket, self._overloadname = packet, name
        self.namespace, self._opname, self.op = packet.namespace, packet.opname, packet.op
        self.__name__ = f"{self._opname}.{name}"
        self.__qualname__, self.__module__ = self.__name__, f"torch._ops.{self.namespace}"

    def __call__(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    @property
    def effect(self) -> bool:
        """Whether a call is made for what it checks, and stays where nothing reads it."""
        return self.namespace == "aten" and self._opname in CHECKS

    @cached_property
    def tags(self) -> list:
        """Tags of the overload: members of ``torch.Tag``."""
        known, custom = room("library.tags"), self.overloadpacket.custom
        if custom is not None:
            return known.members_of(custom.tags)
        return known.tags_of(self._opname, self._overloadname) if self.schema is not None else []

    redispatch = __call__

    @cached_property
    def run(self):
        """What a call of it runs: our operator, with its arguments as ours where they differ."""
        run, known = self.overloadpacket.run, self.schema
        if self.op is None or known is None or run is not self.op:
            return run
        conventions = room("library.conventions")
        if conventions.plain(self.op, known):
            return run
        opened = self.op.name in conventions.OPENED

        def call(*args, **kwargs):
            found = conventions.ours(self.op, known, args, kwargs)
            if found is None and opened:
                raise TypeError(f"{self}: the arguments are none of aten::{known.text}, or cannot be passed on")
            return run(*args, **kwargs) if found is None else run(*found[0], **found[1])

        return call

    @cached_property
    def schema(self):
        """PyTorch's schema of it, or None."""
        if self.namespace != "aten":
            return None
        return room("library.overloads").overloads(self._opname).get(self._overloadname)

    def spelled(self, args, kwargs) -> tuple:
        """Positional and named arguments of a call as its schema has them: lists for sizes, and no defaults."""
        bound = self.schema and self.schema.bind(args, kwargs)
        return self.schema.call(bound) if bound is not None else (args, kwargs)

    @property
    def _schema(self):
        return Schema(self)

    @cached_property
    def is_view(self) -> bool:
        """True if results share the memory of an argument, and none is written."""
        if self.schema is None:
            return bool(self.op is not None and self.op.traits.get("view"))
        aliased = [argument for argument in self.schema.arguments if argument.alias_info is not None]
        return bool(aliased) and not any(argument.is_write for argument in aliased)

    def name(self) -> str:
        """``aten::add.Tensor``"""
        return f"{self.namespace}::{self._opname}" + ("" if self._overloadname == "default"
                                                      else f".{self._overloadname}")

    def decompose(self, *args, **kwargs):
        """Runs the operator's body: simpler operators.  NotImplemented for a primitive."""
        return self.op.body(*args, **kwargs) if self.op is not None and self.op.body is not None else NotImplemented

    def __str__(self):
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __reduce__(self):
        return overload_named, (self.namespace, self._opname, self._overloadname)

    def __deepcopy__(self, memo):
        return self


class OpOverloadPacket(Callable):
    """All overloads of an operator, such as ``torch.ops.aten.add``; calling it calls the one that fits."""

    custom = None  # the operator that a program defined, whose overload ``label`` this is
    label = "default"

    def __init__(self, namespace, opname, op, run=None):
        self.namespace, self.opname, self.op, self.run = namespace, opname, op, run or op
        self.__name__, self._qualified_op_name, self.__module__ = (opname, f"{namespace}::{opname}",
                                                                   f"torch.ops.{namespace}")
        self.made: dict = {}
        self.siblings: dict = {}  # packets of further overloads that a program defined, by label

    def __call__(self, *args, **kwargs):
        if self.siblings:
            return self.matching(args, kwargs).run(*args, **kwargs)
        if self.op is None:  # a plain function: no other code looks for __torch_function__ in its arguments
            found = answered(self, args, kwargs)
            if found is not NOBODY:
                return found
        return (self.fitting(args, kwargs) if self.opened else self.run)(*args, **kwargs)

    @cached_property
    def opened(self) -> bool:
        """Whether our operator takes other arguments than PyTorch's, so that a call needs the schema."""
        plain = room("library.conventions").plain
        return self.op is not None and self.run is self.op and not all(
            plain(self.op, schema) for schema in known_overloads(self).values())

    def fitting(self, args, kwargs):
        """What runs the overload whose schema takes these arguments with the fewest conversions; the first one, or our
        operator, where none does."""
        known = known_overloads(self)
        found = {name: schema.conversions(args, kwargs) for name, schema in known.items()}
        name = min((name for name in known if found[name] is not None), key=found.get,
                   default="default" if "default" in known else None)
        return self.run if name is None else self.overload(name)

    def matching(self, args, kwargs) -> "OpOverloadPacket":
        """The first overload whose schema takes these arguments.  RuntimeError if none does."""
        reasons = []
        for packet in (self, *self.siblings.values()):
            try:
                if packet.custom.fits(args, kwargs):
                    return packet
                reasons.append(f"{packet.custom.op.name}() takes other types. Its schema is {packet.custom.schema}.")
            except (TypeError, RuntimeError) as error:
                reasons.append(str(error))
        raise RuntimeError("Overloaded torch operator invoked from Python failed to match any schema:\n"
                           + "\n".join(reasons))

    def overload(self, name) -> OpOverload:
        if name in self.siblings:
            return self.siblings[name].overload(name)
        found = self.made.get(name)
        if found is None:
            found = self.made[name] = OpOverload(self, name)
        return found

    def __getattr__(self, name):
        known = self.__dict__.get("siblings")
        if known is not None and (name == self.label or name in known if self.custom is not None else
                                  name in OVERLOADS or name in known_overloads(self)):
            return self.overload(name)
        raise AttributeError(f"'{self.__dict__.get('_qualified_op_name')}' has no overload {name!r}")

    def overloads(self):
        """The names of the overloads."""
        if self.custom is not None:
            return [self.label, *self.siblings]
        return list(known_overloads(self)) or list(self.made) or ["default"]

    def __str__(self):
        return f"{self.namespace}.{self.opname}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"

    def __reduce__(self):
        return packet_named, (self.namespace, self.opname)

    def __deepcopy__(self, memo):
        return self


def known_overloads(packet) -> dict:
    """The overloads of a packet that PyTorch has, by name."""
    return room("library.overloads").overloads(packet.opname) if packet.namespace == "aten" else {}


def operator_named(name: str):
    """The operator that PyTorch calls ``aten::name``, or None."""
    room("library.leaves")  # declares what is looked for here
    owner = room("library.conventions").owners().get(name)
    if owner is not None and name not in OPS:
        return OPS[owner]
    for place in PLACES:
        if place + name in OPS:
            return OPS[place + name]
    stem, _, rest = name.partition("_")
    if stem in PREFIXES and f"{stem}.{rest}" in OPS:
        return OPS[f"{stem}.{rest}"]
    if name in OTHER_NAMES:
        return OPS.get(OTHER_NAMES[name])
    from ._src.ops.library import ALIASES
    return OPS.get(ALIASES.get(name, ""))


def named_only(name):
    """What refuses to run an operator that exists only as a name."""
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name} exists here only as a name: it is not implemented")
    return refuse


class Namespace:
    """The operators of one library, such as ``torch.ops.aten``."""

    def __init__(self, name):
        self.__name__, self.name, self.packets = f"torch.ops.{name}", name, {}

    def __getattr__(self, name):
        if name.startswith("__") and name not in OTHER_NAMES or "packets" not in self.__dict__:
            raise AttributeError(name)
        found = self.packets.get(name)
        if found is None:
            found = self.find(name)
            if found is None:
                raise AttributeError(
                    f"'_OpNamespace' '{self.name}' object has no attribute '{name}': no operator of this name is "
                    "defined")
            self.packets[name] = found
        return found

    def find(self, name):
        if self.name == "higher_order":
            return room("_higher_order_ops.operators").operator_named(name)
        if self.name == "profiler":
            entering = room("profiler.entering")
            return OpOverloadPacket(self.name, name, None, vars(entering)[name]) if name in vars(entering) else None
        if self.name in LIBRARIES and f"{self.name}.{name}" in OPS:
            return OpOverloadPacket(self.name, name, OPS[f"{self.name}.{name}"])
        if self.name == "quantized":
            from ._src.ops.quantized_recurrent import LIBRARY  # with cells, all of them
            return OpOverloadPacket(self.name, name, None, LIBRARY[name]) if name in LIBRARY else None
        if self.name == "aten" and name.startswith("_foreach_"):
            run = room("_src.foreach").overload(name)
            return None if run is None else OpOverloadPacket(self.name, name, None, run)
        if name in NAMES_ONLY.get(self.name, ()) and (self.name != "aten" or operator_named(name) is None):
            return OpOverloadPacket(self.name, name, None, named_only(f"{self.name}::{name}"))
        if self.name not in ("aten", "prims", "prim"):
            return None
        functions = room("library.functions")
        function = {"aten": functions.FUNCTIONS, "prims": functions.PRIMS}.get(self.name, {}).get(name)
        if function is not None:
            room("library.leaves")
            return OpOverloadPacket(self.name, name, OPS.get(OTHER_NAMES.get(name, name)), function)
        found = operator_named(name) if self.name == "aten" else OPS.get(f"prims.{name}")
        if found is None and self.name == "aten" and name.endswith("_"):
            base = OPS.get(f"nn.functional.{name[:-1]}") or operator_named(name[:-1])
            run = room("library.conventions").inplace_form(base, name[:-1])
            if run is not None:
                return OpOverloadPacket(self.name, name, None, run)
        method = getattr(Tensor, OTHER_NAMES.get(name, name), None) if found is None else None
        if found is None and not callable(method):
            if self.name == "aten" and room("library.overloads").overloads(name):
                return OpOverloadPacket(self.name, name, None, named_only(f"{self.name}::{name}"))
            return None
        return OpOverloadPacket(self.name, name, found, found or method)

    def enter(self, packet: OpOverloadPacket):
        """Register an overload that a program defined, next to those of other labels."""
        first = self.packets.get(packet.opname)
        if first is None or first.custom is None or packet.label == first.label:
            packet.siblings = {} if first is None else first.siblings
            self.packets[packet.opname] = packet
        else:
            first.siblings[packet.label] = packet

    def forget(self, name: str, label: str):
        """Removes an overload that a program defined."""
        first = self.packets.get(name)
        if first is None:
            return
        rest = {k: one for k, one in {first.label: first, **first.siblings}.items() if k != label}
        if not rest:
            del self.packets[name]
            return
        self.packets[name], *others = rest.values()
        self.packets[name].siblings = {one.label: one for one in others}

    def packet(self, name, op) -> OpOverloadPacket:
        """The packet of an operator, which may be one that users do not find by this name."""
        found = self.packets.get(name)
        if found is None:
            found = self.packets[name] = OpOverloadPacket(self.name, name, op)
        return found

    def __dir__(self):
        return sorted(self.packets)

    def __repr__(self):
        return f"<torch.ops.{self.name}>"


class Ops:
    """``torch.ops``: the namespaces."""

    __name__ = "torch.ops"

    def __init__(self):
        self.namespaces, self.loaded_libraries = {}, set()

    def __getattr__(self, name):
        if name.startswith("__") or "namespaces" not in self.__dict__:
            raise AttributeError(name)
        return self.namespaces.setdefault(name, Namespace(name))

    def load_library(self, path):
        """Refuses: libraries of compiled operators are built against another framework's C++ interface."""
        raise OSError(
            f"cannot load {path!r}: compiled extensions need PyTorch's C++ library, which is not part of this "
            "framework. Define the operator in "
            "Python with torch.library.custom_op.")

    def __dir__(self):
        return sorted(self.namespaces)


ops = Ops()


def packet_named(namespace, name):
    return getattr(getattr(ops, namespace), name)


def overload_named(namespace, name, overload):
    return packet_named(namespace, name).overload(overload)


def aten_call(op, args, kwargs):
    """(overload, args, kwargs) of a call of an operator as PyTorch writes it; None where it has no such operator."""
    found = room("library.conventions").meaning(op, args, kwargs)
    if found is None:
        return None
    name, label, args, kwargs = found
    packet = getattr(ops.aten, name, None)
    return (ops.aten.packet(name, op) if packet is None else packet).overload(label), args, kwargs


def dispatched(op, args, kwargs):
    """(overload, args, kwargs) of a call of an operator that PyTorch shows as one below the recording of gradients;
    None where it shows none, or several."""
    return room("library.dispatched").one(op, args, kwargs)


def composition(op):
    """The function that calls what is seen in place of an operator that PyTorch writes as others; None for others."""
    return room("library.dispatched").several(op)


def overload_of(op, args, kwargs) -> OpOverload:
    """The overload that a call of an operator (or of what is named so) means."""
    if isinstance(op, str):
        return getattr(ops.aten, op).overload("default")
    owner = op.traits.get("library")
    if owner is not None:
        return owner.overload(owner.label)
    where, _, last = op.name.rpartition(".")
    if where == "prims":
        if op.kind.name != "elementwise" or last not in OPS or not takes(OPS[last], args):
            return ops.prims.packet(last, op).overload("default")
        op = OPS[last]
    if where in LIBRARIES:
        return getattr(ops, where).packet(last, op).overload(decomposed_overload(last, args))
    last = f"{where}_{last}" if where in PREFIXES else last
    last = {"_to_dtype": "_to_copy", "item": "_local_scalar_dense"}.get(last, last)
    packet = ops.aten.packet(last, op)
    if kwargs.get("out") is not None:
        known = room("library.overloads").overloads(last)
        return packet.overload(next((label for label, one in known.items() if one.bind(args, kwargs)), "out"))
    return packet.overload(overload_name(last.rstrip("_"), op, args, kwargs))


def takes(op, args) -> bool:
    """Whether an operator's first argument is a tensor, and further ones are numbers only where it takes those."""
    return isinstance(args[0], Tensor) and (bool(op.traits.get("number_first")) or all(
        isinstance(value, Tensor) or op.scalars >> k & 1 for k, value in enumerate(args)))


def decomposed_overload(name, args) -> str:
    """The name of the overload that takes these arguments, where scales and bounds are numbers or tensors."""
    if name in ("choose_qparams", "choose_qparams_symmetric"):
        return "tensor"
    if name == "convert_element_type":
        return "no_fuse"
    tensors = sum(isinstance(a, (Tensor, Meta)) for a in args) if name.endswith("quantize_per_tensor") else 1
    return {1: "default", 3: "tensor"}.get(tensors, "tensor2")


def overload_name(stem: str, op, args, kwargs) -> str:
    """PyTorch's name of the overload that takes these arguments."""
    if stem in FIXED or op.signature is None:
        return FIXED.get(stem, "default")
    names = list(op.signature.parameters)
    if stem in SCALARS and len(args) > 1:
        tensors = tuple(isinstance(a, Tensor) for a in args[:2])
        return {(True, True): "Tensor_Tensor", (False, True): "Scalar"}.get(tensors, SCALARS[stem])
    if "other" in names and names.index("other") == 1:
        other = args[1] if len(args) > 1 else kwargs.get("other")
        if stem in ("max", "min"):
            return "other"
        if stem in ("matmul", "dot", "maximum", "minimum", "atan2", "fmax", "fmin", "view_as", "expand_as"):
            return "default"
        return "Tensor" if isinstance(other, Tensor) or stem in ("add", "sub", "mul", "div") else "Scalar"
    given = "dim" in kwargs or "dim" in names and len(args) > names.index("dim")
    return BY_DIM.get(stem, "default") if given else "default"
