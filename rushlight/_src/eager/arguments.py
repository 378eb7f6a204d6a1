"""The arguments of a call: as a trace sees them, which are run-time scalars, and as words of an encoded program."""
from __future__ import annotations

import ctypes

from ..core.devices import preferred
from ..core.dtypes import bool_, float64, int64
from ..core.meta import Meta
from ..core.native import Op, Plan, Tensor, calls, keys
from ..core.op import keywords, parted
from ..core.runtime import Conditions, Known
from ..transforms.trace import Trace
from . import polymorphic

NUMBER_METAS = {float: Meta.of((), float64), int: Meta.of((), int64), bool: Meta.of((), bool_)}


class Arguments:
    """The arguments of one call as a trace sees them: each tensor and run-time scalar is an input, in order.

    ``scalars``: the bits of arguments that are run-time scalars (default: the operator's).  ``conditions``: the
    assumptions
      about these.
    """

    def __init__(self, op: Op, args, names, trace: Trace, scalars=None):
        self.trace, self.tensors, self.conditions = trace, [], Conditions()
        self.scalars = calls_mask(op, names, len(args) - len(names or ())) if scalars is None else scalars
        values = [self.enter(a, k, self.scalars >> k & 1) for k, a in enumerate(args)]
        self.args, self.kwargs = parted(values, names)

    def enter(self, value, place, scalar):
        if isinstance(value, (Tensor, polymorphic.SymbolicArgument)):
            entered = self.trace.input(value._rush_meta)
            self.tensors.append(entered.node)
            return entered
        if scalar and type(value) in NUMBER_METAS:
            return self.trace.input(NUMBER_METAS[type(value)].on(preferred()), "s", True,
                                    Known(value, f"a[{place}]", frozenset((place,)), self.conditions))
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(self.enter(v, place, 0) for v in value)
        return value


def calls_mask(op: Op, names, positional: int) -> int:
    """Return the bits of arguments that are run-time scalars, for a call with these keyword names."""
    scalars = op.traits.get("all_scalars", op.scalars)  # more bits than the hot path has room for
    if not names:
        return scalars
    return scalars & ((1 << positional) - 1) | keyword_mask(op, names) << positional


def gradient_bit(k: int) -> int:
    """Return the bit that says whether tensor argument k requires grad."""
    return 1 << k


def whole_mask(words) -> int:
    """Return the bits that the hot path gathered in several words."""
    return sum(word << k * keys.WORD for k, word in enumerate(words))


def keyword_mask(op: Op, names) -> int:
    found = op.masks.get(names)
    if found is None:
        order = list(op.signature.parameters)
        bits = [op.scalars >> order.index(n) & 1 if n in order else 0 for n in keywords(op, names)]
        found = op.masks[names] = sum(bit << k for k, bit in enumerate(bits))
    return found


def run_values(plan: Plan, args, names, words, mask):
    """Run a plan on the addresses and words of its arguments."""
    room = len(words) + len(plan.outputs) + len(plan.temporaries) + 8
    values = (ctypes.c_int64 * room)(*words)
    return calls.run(plan, args, names, ctypes.addressof(values), len(words), int(mask != 0))


def launch_plan(plan: Plan, args, scalars: int, mask):
    """Run a plan that is not looked up by its arguments."""
    words = []

    def gather(value, scalar):
        if isinstance(value, Tensor):
            words.append(address_bits(value))
        elif scalar and type(value) in NUMBER_METAS:
            words.append(float_bits(value) if type(value) is float else int(value))
        elif type(value) in (list, tuple):
            for v in value:
                gather(v, 0)

    for k, value in enumerate(args):
        gather(value, scalars >> k & 1)
    return run_values(plan, args, None, words, mask)


def address_bits(tensor: Tensor) -> int:
    return tensor._rush_storage.address + tensor._rush_offset * tensor.itemsize


def float_bits(value: float) -> int:
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value
