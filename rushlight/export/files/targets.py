"""Targets of nodes, by name: the only functions that a file can refer to."""
from __future__ import annotations

import math
import operator

from ..._ops import LIBRARIES, OTHER_NAMES, OpOverload, ops
from ..._src.core.native import Op
from ..._src.core.op import OPS
from ..._src.core.random import default_generator
from ..._src.legacy import sym_float, sym_int, sym_ite, sym_max, sym_min, sym_not, sym_sqrt, sym_sum
from ..._higher_order_ops.operators import HigherOrderOperator
from ...library.overloads import overloads
from .fields import SerializeError

SYMBOLIC = {f"_operator.{name}": getattr(operator, name) for name in (
    "eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv", "mod", "pow", "truediv", "and_",
    "or_", "lshift", "rshift", "not_", "getitem")}
FUNCTIONS = SYMBOLIC | {f"torch.{f.__name__}": f for f in (sym_float, sym_int, sym_ite, sym_max, sym_min, sym_not,
                                                           sym_sqrt,
                                                           sym_sum)}
FUNCTIONS |= {f"math.{f.__name__}": f for f in (math.trunc, math.sqrt, math.floor, math.ceil)}  # of numbers, by name
UNSAFE = ("from_file", "save")  # operators that open files
HIDDEN = ("profiler", "c10d", "c10d_functional", "higher_order")  # namespaces that programs may not use
OWN = "rushlight.ops."  # operators that PyTorch lacks
RESERVE = "rushlight.reserve"  # the next blocks of the random stream


def name_of(target) -> str:
    """The name of what a node calls.  SerializeError for a function that no file can name."""
    if isinstance(target, OpOverload):
        return f"torch.ops.{target.namespace}.{target._opname}.{target._overloadname}"
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target._name}"
    if isinstance(target, Op) and OPS.get(target.name) is target:
        return OWN + target.name
    if target == default_generator.reserve:
        return RESERVE
    target = sym_max if target is max else sym_min if target is min else target  # Python's, of sizes
    found = next((name for name, function in FUNCTIONS.items() if function is target), None)
    if found is None:
        raise SerializeError(f"a program that calls {target} cannot be saved: a file names operators only. Make it an "
                             "operator with torch.library.custom_op")
    return found


def named(name: str):
    """Return the object of a name.  SerializeError for one that is not known, or that could access a file."""
    if name == RESERVE:
        return default_generator.reserve
    if name.startswith(OWN) and name.removeprefix(OWN) in OPS:
        return OPS[name.removeprefix(OWN)]
    if name.startswith("torch.ops."):
        return overload(name)
    found = FUNCTIONS.get("_" + name if name.startswith("operator.") else name)
    if found is None:
        raise SerializeError(f"the file calls {name[:80]!r}, which is not known")
    return found


def overload(name: str):
    """An overload of ``torch.ops``, or an operator over programs."""
    parts = name.split(".")[2:]
    if len(parts) == 2 and parts[0] == "higher_order":
        found = HigherOrderOperator.made.get(parts[1])
        if found is not None:
            return found
    if len(parts) == 3 and all(part.isidentifier() and (part in OTHER_NAMES or not part.startswith("__"))
                               for part in parts):
        space, stem, label = parts
        if is_known(space, stem, label):
            try:
                return getattr(getattr(ops, space), stem).overload(label)
            except AttributeError:
                pass  # as one that is not known
    raise SerializeError(f"the file calls {name[:80]!r}, which is not known here; operators of your own have to be "
                         "registered before")


def is_known(space, stem, label) -> bool:
    """Whether an operator may be looked for: in PyTorch's schemas, or among those that are declared or registered."""
    if space == "aten":
        return stem not in UNSAFE and (label in overloads(stem) or stem in OPS)
    if space in ("prims", "quantized"):
        return True
    return f"{space}.{stem}" in OPS if space in LIBRARIES else space not in HIDDEN and stem in getattr(
        ops, space).packets
