"""Calls with other than plain tensors and numbers."""
from __future__ import annotations

from types import NoneType

from ..core import interpret
from ..core.dtypes import bool_, dtype, meant, uint64
from ..core.expr import Expr
from ..core.native import Op, Tensor, keys, mine
from ..core.native.objects import CHOICE
from ..core.op import OPS, parted, respelled
from ..core.operands import BEYOND
from ..core.overriding import DISPATCH, FUNCTION, NOBODY, Dispatch, answered, overriding
from ..core.tensor import needs_gradient
from .arguments import NUMBER_METAS, address_bits, calls_mask, float_bits, gradient_bit, run_values
from .detours import in_python
from .elsewhere import flat
from .plan import choose, plan_for


def slow(op: Op, args, names):
    """Make any call that the hot path does not handle."""
    if op.traits.get("spread") and not names and len(args) == 2 and type(args[0]) is str and (
            type(args[1]) in (list, tuple)):
        args = (args[0], *args[1])  # the receiver of the call expects separate operands
    if mine.modes or overriding(args, FUNCTION | DISPATCH):
        found = overridden(op, *parted(args, names))
        if found is not NOBODY:
            return found
    args = tuple(meant(in_python(a)) for a in args)
    symbol = OPS.get(op.name.removesuffix("_"), op).traits.get("operator")  # also for the in-place operator
    if symbol:
        args = tuple(operand(a) for a in args)
        if len(args) == 2 and not names and (found := reflected(op, symbol, *args)) is not NotImplemented:
            return found
    if names:
        args, names = respelled(op, args, names)
    interpreter = interpret.top()
    if interpreter is not None:
        return interpreter.call(op, *parted(args, names))
    args = tuple(map(normalise, args))
    if any(getattr(a, "level", None) for a in flat(args)):
        args = tuple(map(escaped, args))
    masks = calls_mask(op, names, len(args) - len(names or ()))
    args = tuple(within_word(op, a, args) if type(a) is int and masks >> k & 1 and not -BEYOND <= a < BEYOND else a
                 for k, a in enumerate(args))
    words, mask, tensors = [], 0, 0

    def key_of(value, scalar):
        nonlocal mask, tensors
        if isinstance(value, Tensor):
            words.append(address_bits(value))
            if needs_gradient(value):
                mask |= gradient_bit(tensors)
            tensors += 1
            return value._rush_meta
        kind = type(value)
        if scalar and kind in NUMBER_METAS:
            words.append(float_bits(value) if kind is float else int(value))
            return kind
        if kind in (list, tuple):
            return tuple(key_of(v, 0) for v in value)
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"{op.name}: unexpected argument of type {kind.__name__}") from None
        return keys.exact(value)

    key = tuple(key_of(a, masks >> k & 1) for k, a in enumerate(args))
    if not interpret.is_recording():
        mask = 0
    key = (*key, names, mask)
    plan = op.plans.get(key) or plan_for(op, args, names, key, mask)
    if plan.large == CHOICE:
        plan = choose(plan, args, names, key, mask)
    return run_values(plan, args, names, words, mask)


def within_word(op: Op, value: int, args):
    """Return a run-time scalar outside int64 as an operand: next to floats the nearest float, next to integers the
    int64 of the same bits.  RuntimeError where PyTorch accepts neither."""
    beside = [a.dtype for a in flat(args) if isinstance(a, Tensor)] + [a for a in args if type(a) is dtype]
    if 0 <= value < 2 * BEYOND and beside:
        if any(d.is_inexact for d in beside):
            return float(value)
        if not any(d is bool_ for d in beside) and (OPS.get(op.name.removesuffix("_"),
                                                            op).traits.get("operator") not in (None, "pow")
                                                    or all(d is uint64 for d in beside)):
            return value - 2 * BEYOND
    raise RuntimeError(f"value cannot be converted to type int64_t without overflow: {op.name} was given {value}")


def operand(value):
    """Return an array that is an operand of a Python operator as a tensor."""
    if type(value).__module__ == "numpy" and hasattr(value, "strides") and value.ndim:
        from ..core.exchange import from_numpy
        return from_numpy(value)
    return value


def reflected(op: Op, symbol: str, left, right):
    """Call a right operand's method for a Python operator; NotImplemented if the operator handles the operand itself.
    TypeError for objects without such a method."""
    kind = type(right)
    if not isinstance(left, Tensor) or isinstance(right, (int, float, complex, list, tuple, str, NoneType)) or hasattr(
            kind, "_rush_meta") or kind.__module__ in ("numpy", Expr.__module__):
        return NotImplemented
    method = next((vars(base)[f"__r{symbol}__"] for base in kind.__mro__ if f"__r{symbol}__" in vars(base)), None)
    if method is not None:
        return getattr(right, f"__r{symbol}__")(left)
    if hasattr(kind, "__index__") or hasattr(kind, "__float__") or hasattr(kind, "__complex__"):
        return NotImplemented
    raise TypeError(f"{op.name}(): argument 'other' (position 2) must be Tensor, not {kind.__name__}: unsupported "
                    f"operand type(s) for {symbol}: '{type(left).__name__}' and '{kind.__name__}'")


def overridden(op: Op, args, kwargs):
    """Return the answer of a mode or of an argument's class to a call; ``NOBODY`` if none answers."""
    found = answered(op, args, kwargs)
    interpreter = interpret.top()
    if found is NOBODY and (interpreter is None or interpreter.dispatches):
        kinds = overriding((*args, *kwargs.values()), DISPATCH)
        if kinds:
            return Dispatch.call(op, args, kwargs, kinds)
    return found


def escaped(value):
    """Return what a tensor of a transform that has ended wraps."""
    if isinstance(value, Tensor) and hasattr(value, "escaped"):
        return escaped(value.escaped())
    return tuple(map(escaped, value)) if type(value) is tuple else value


def normalise(value):
    """Return NumPy scalars as Python numbers, sizes and nested lists as tuples."""
    if type(value) is list:
        return tuple(map(normalise, value))
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value
