"""What TorchScript's operators do with numbers, texts and containers; tensors go to ``aten``."""
from __future__ import annotations

import math
import operator
import warnings

from .._src.core.dtypes import (bfloat16, bool_, complex64, complex128, float16, float32, float64, int8, int16, int32,
                                int64, uint8)
from .._src.core.native import Tensor

DTYPES = {0: uint8, 1: int8, 2: int16, 3: int32, 4: int64, 5: float16, 6: float32, 7: float64, 9: complex64,
          10: complex128, 11: bool_, 15: bfloat16}
CODES = {dtype: code for code, dtype in DTYPES.items()}
RAISED = {"builtins.RuntimeError": RuntimeError, "builtins.ValueError": ValueError, "builtins.TypeError": TypeError,
          "builtins.AssertionError": AssertionError, "builtins.IndexError": IndexError, "builtins.KeyError": KeyError,
          "builtins.NotImplementedError": NotImplementedError}


class ScriptError(RuntimeError):
    """An error that a program of a file raises, or that its operators meet."""


def dtype_of(code):
    """A dtype by the number that files have for it.  RuntimeError for one that is not known."""
    if code is None or not isinstance(code, int):
        return code
    if code not in DTYPES:
        raise RuntimeError(f"the file names a dtype by the number {code}, which is none of {sorted(DTYPES)}")
    return DTYPES[code]


def formatted(text, *values) -> str:
    """``text`` with each ``{}`` as the next value; nothing else of it has a meaning."""
    parts = text.split("{}")
    values = [*map(shown, values), *[""] * len(parts)]
    return "".join(part + value for part, value in zip(parts, [*values[:len(parts) - 1], ""]))


def shown(value) -> str:
    return value if isinstance(value, str) else repr(value)


def raised(message, kind="builtins.RuntimeError"):
    raise RAISED.get(kind, ScriptError)(message)


def removed(items, value):
    items.remove(value)


def slice_of(items, start=None, end=None, step=1):
    return items[slice(start, None if end == 2 ** 63 - 1 else end, step)]


def set_item(items, key, value):
    items[key] = value


def delete(items, key):
    del items[key]


def text_or_list(values):
    """A copy of a list; the characters of a text, the pairs of a dict."""
    return list(values)


def divided(a, b):
    return a / b


def pow_of(a, b):
    return a ** b if not (isinstance(a, int) and isinstance(b, int)) else float(a) ** b if b < 0 else a ** b


def unwrapped(value):
    if value is None:
        raise ScriptError("Unwrapping null optional")
    return value


def warned(text, stacklevel=2):
    warnings.warn(str(text), UserWarning, stacklevel=3)


def numbers(value, dtype=None, device=None, requires_grad=False):
    """``torch.tensor`` of nested lists of numbers."""
    from .._src.flat import tensor
    return tensor(value, dtype=dtype_of(dtype), device=device, requires_grad=requires_grad)


def as_tensor(value, dtype=None, device=None):
    from .._src.flat import as_tensor as made
    return made(value, dtype=dtype_of(dtype), device=device)


VALUES = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divided, "floordiv": operator.floordiv,
    "remainder": operator.mod, "neg": operator.neg, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "__and__": operator.and_, "__or__": operator.or_,
    "__xor__": operator.xor, "__lshift__": operator.lshift, "__rshift__": operator.rshift, "__not__": operator.not_,
    "pow": pow_of, "abs": abs, "ceil": math.ceil, "floor": math.floor, "round": round, "sqrt": math.sqrt,
    "exp": math.exp, "log": math.log, "log2": math.log2, "log10": math.log10, "sin": math.sin, "cos": math.cos,
    "tan": math.tan, "tanh": math.tanh, "isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite,
    "Int": int, "Float": float, "Bool": bool, "str": shown, "warn": warned, "add_": operator.iadd,
    "is_grad_enabled": lambda: enabled(), "is_autocast_enabled": lambda *device: False,
    "_get_tracing_state": lambda: None, "device": lambda *a: device_of(*a), "max": max, "min": min, "tensor": numbers,
    "as_tensor": as_tensor, "floor_divide": operator.floordiv, "fmod": math.fmod}
CONTAINERS = {
    "len": len, "append": list.append, "extend": list.extend, "insert": list.insert, "reverse": list.reverse,
    "pop": lambda items, *key: items.pop(*key), "clear": lambda items: items.clear(), "remove": removed,
    "copy": lambda items: items.copy(), "count": lambda items, value: items.count(value),
    "index": lambda items, value: items.index(value), "slice": slice_of, "_set_item": set_item, "Delete": delete,
    "__getitem__": operator.getitem, "select": operator.getitem, "__contains__": operator.contains,
    "keys": lambda items: list(items.keys()), "values": lambda items: list(items.values()),
    "items": lambda items: list(items.items()), "get": lambda items, key, *other: items.get(key, *other),
    "setdefault": lambda items, key, value: items.setdefault(key, value), "update": lambda a, b: a.update(b),
    "popitem": lambda items: items.popitem(), "list": text_or_list, "dict": dict, "add": operator.add,
    "mul": operator.mul, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "gt": operator.gt, "max": max,
    "min": min, "sum": sum, "any": any, "all": all, "sort": lambda items, reverse=False: items.sort(reverse=reverse),
    "sorted": sorted, "add_": operator.iadd, "format": formatted, "join": lambda text, items: text.join(items),
    "split": lambda text, by=None, most=-1: text.split(by, most), "strip": lambda text, chars=None: text.strip(chars),
    "startswith": lambda text, part: text.startswith(part), "endswith": lambda text, part: text.endswith(part),
    "lower": lambda text: text.lower(), "upper": lambda text: text.upper(), "find": lambda text, part: text.find(part),
    "replace": lambda text, a, b: text.replace(a, b), "tensor": numbers, "as_tensor": as_tensor, "Int": int,
    "Float": float, "str": shown, "warn": warned, "device": lambda *a: device_of(*a)}
SAME = {"__is__": operator.is_, "__isnot__": operator.is_not, "len": lambda x: x.shape[0], "str": str, "warn": warned,
        "Int": int, "Float": float, "Bool": bool, "__not__": operator.not_, "__and__": operator.and_,
        "__or__": operator.or_, "__xor__": operator.xor, "__iand__": operator.iand,
        "__ior__": operator.ior}  # of whatever there is


def enabled() -> bool:
    from .._src.flat import is_grad_enabled
    return is_grad_enabled()


def device_of(name, index=None):
    from .._src.core.devices import device
    return device(name) if index is None else device(name, index)


def number_to_tensor(value):
    return numbers(value)


PRIM = {
    "NumToTensor": number_to_tensor, "RaiseException": raised, "unchecked_unwrap_optional": unwrapped,
    "requires_grad": lambda x: x.requires_grad, "dtype": lambda x: CODES[x.dtype], "device": lambda x: x.device,
    "type": lambda x: x.type, "is_nested": lambda x: False, "shape": lambda x: list(x.shape), "layout": lambda x: 0,
    "is_cuda": lambda x: x.is_cuda, "is_sparse": lambda x: False, "is_quantized": lambda x: False,
    "is_meta": lambda x: x.is_meta, "is_cpu": lambda x: x.is_cpu, "data": lambda x: x.detach(),
    "T": lambda x: x.T, "mT": lambda x: x.mT, "itemsize": lambda x: x.itemsize, "grad": lambda x: x.grad,
    "min": lambda *a: min(*a), "max": lambda *a: max(*a), "abs": abs, "rangelist": lambda n: list(range(n)),
    "ImplicitTensorToNum": lambda x: x.item(), "name": lambda x: None, "tolist": lambda x: x.tolist(),
    "index": lambda x: x.index if not isinstance(x, Tensor) else x.get_device()}
