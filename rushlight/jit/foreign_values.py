"""TorchScript's operators on scalars, strings and containers; tensors go to ``aten``."""
from __future__ import annotations

import operator
import warnings

from .._src.core.devices import device as Device
from .._src.core.dtypes import (bfloat16, bool_, complex64, complex128, float16, float32, float64, int8, int16, int32,
                                int64, uint8)
from .._src.core.native import Tensor
from .foreign_numbers import NUMBERS, CodeError, ScriptError, largest, shown, smallest, whole, wrapped

DTYPES = {0: uint8, 1: int8, 2: int16, 3: int32, 4: int64, 5: float16, 6: float32, 7: float64, 9: complex64,
          10: complex128, 11: bool_, 15: bfloat16}
CODES = {dtype: code for code, dtype in DTYPES.items()}
LONGEST = 1 << 24  # items of a list that code makes at once
RAISED = {"builtins.RuntimeError": RuntimeError, "builtins.ValueError": ValueError, "builtins.TypeError": TypeError,
          "builtins.AssertionError": AssertionError, "builtins.IndexError": IndexError, "builtins.KeyError": KeyError,
          "builtins.NotImplementedError": NotImplementedError}


def dtype_of(code):
    """A dtype by the number that files have for it.  RuntimeError for one that is not known."""
    if code is None or not isinstance(code, int):
        return code
    if code not in DTYPES:
        raise RuntimeError(f"the file names a dtype by the number {code}, which is none of {sorted(DTYPES)}")
    return DTYPES[code]


def key_of(value):
    """Return a value that is a key.  CodeError for one of another type, such as a tuple, whose hash may overflow the
    stack."""
    if type(value) not in (int, float, bool, str, complex) and not isinstance(value, Tensor):
        raise CodeError(f"the file's code has a key of the type {type(value).__name__}")
    return value


def dict_of(pairs=()):
    """A new dict of a dict, or of pairs."""
    return {key_of(key): value for key, value in (pairs.items() if isinstance(pairs, dict) else pairs)}


def updated(target, other):
    target.update(dict_of(other))


def attribute(name, kind=Tensor):
    """Return a reader of attributes of values of this type, and of no others."""
    def read(value):
        if not isinstance(value, kind):
            raise CodeError(f"the file's code reads .{name} of a {type(value).__name__}")
        return getattr(value, name)
    return read


def rangelist(n):
    if not isinstance(n, int) or n > LONGEST:
        raise CodeError(f"the file's code makes a list of {n} numbers")
    return list(range(n))


def formatted(text, *values) -> str:
    """``text`` with each ``{}`` as the next value; nothing else of it has a meaning."""
    parts = text.split("{}")
    values = [*map(shown, values), *[""] * len(parts)]
    return "".join(part + value for part, value in zip(parts, [*values[:len(parts) - 1], ""]))


def raised(message, kind="builtins.RuntimeError"):
    raise RAISED.get(kind if isinstance(kind, str) else "", ScriptError)(message)


def removed(items, value):
    items.remove(value)


def slice_of(items, start=None, end=None, step=1):
    return items[slice(start, None if end == 2 ** 63 - 1 else end, step)]


def set_item(items, key, value):
    items[key_of(key)] = value


def delete(items, key):
    del items[key_of(key)]


def text_or_list(values):
    """A copy of a list; the characters of a text, the pairs of a dict."""
    return list(values)


def taken(items, key):
    return items[key_of(key)]


def contains(items, key):
    return (key_of(key) if isinstance(items, dict) else key) in items


def repeated(items, count):
    """A list or text several times, on either side."""
    items, count = (count, items) if isinstance(items, int) else (items, count)
    if not isinstance(items, (list, str)) or not isinstance(count, int) or len(items) * count > LONGEST:
        raise CodeError("the file's code multiplies what is no list or text, or too often")
    return items * count


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
    **NUMBERS, "str": shown, "warn": warned, "is_grad_enabled": lambda: enabled(),
    "is_autocast_enabled": lambda *kind: autocast(*kind), "_get_tracing_state": lambda: None,
    "device": lambda *a: device_of(*a), "tensor": numbers, "as_tensor": as_tensor}
CONTAINERS = {
    "len": len, "append": list.append, "extend": list.extend, "insert": list.insert, "reverse": list.reverse,
    "pop": lambda items, *key: items.pop(*map(key_of, key[:1]), *key[1:]), "clear": lambda items: items.clear(),
    "remove": removed,
    "copy": lambda items: items.copy(), "count": lambda items, value: items.count(value),
    "index": lambda items, value: items.index(value), "slice": slice_of, "_set_item": set_item, "Delete": delete,
    "__getitem__": taken, "select": taken, "__contains__": contains,
    "keys": lambda items: list(items.keys()), "values": lambda items: list(items.values()),
    "items": lambda items: list(items.items()), "get": lambda items, key, *other: items.get(key_of(key), *other),
    "setdefault": lambda items, key, value: items.setdefault(key_of(key), value), "update": updated,
    "popitem": lambda items: items.popitem(), "list": text_or_list, "dict": dict_of, "add": operator.add,
    "mul": repeated, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "gt": operator.gt,
    "max": largest, "min": smallest, "sum": lambda items: wrapped(sum(items)), "any": any, "all": all,
    "sort": lambda items, reverse=False: items.sort(reverse=reverse),
    "sorted": lambda items, reverse=False: sorted(items, reverse=bool(reverse)), "add_": operator.iadd,
    "format": formatted, "join": lambda text, items: text.join(items),
    "split": lambda text, by=None, most=-1: text.split(by, most), "strip": lambda text, chars=None: text.strip(chars),
    "startswith": lambda text, part: text.startswith(part), "endswith": lambda text, part: text.endswith(part),
    "lower": lambda text: text.lower(), "upper": lambda text: text.upper(), "find": lambda text, part: text.find(part),
    "replace": lambda text, a, b: text.replace(a, b), "tensor": numbers, "as_tensor": as_tensor, "Int": whole,
    "Float": float, "str": shown, "warn": warned, "device": lambda *a: device_of(*a)}
SAME = {"__is__": operator.is_, "__isnot__": operator.is_not, "len": lambda x: x.shape[0], "str": shown, "warn": warned,
        "Int": int, "Float": float, "Bool": bool, "__not__": operator.not_, "__and__": operator.and_,
        "__or__": operator.or_, "__xor__": operator.xor, "__iand__": operator.iand,
        "__ior__": operator.ior}  # of whatever there is


def enabled() -> bool:
    from .._src.flat import is_grad_enabled
    return is_grad_enabled()


def autocast(device="cuda") -> bool:
    """Whether operators of a kind of device compute in a narrower type now."""
    from ..amp.autocast import is_autocast_enabled
    return is_autocast_enabled(device_of(device).type)


def device_of(name, index=None):
    from .._src.core.devices import device
    if not isinstance(name, (str, device)):
        raise CodeError(f"the file's code names a device by a {type(name).__name__}")
    return device(name) if index is None else device(name, index)


def number_to_tensor(value):
    return numbers(value)


def layout_code(value) -> int:
    """0, which is how files name the layout of strided tensors.  RuntimeError for others."""
    found = str(attribute("layout")(value)).rpartition(".")[2]
    if found != "strided":
        raise ScriptError(f"the program reads the layout of a tensor that is {found}")
    return 0


def device_type(value) -> str:
    return attribute("type", Device)(value)


def cleared_of(value):
    """A tensor's values without its history."""
    return attribute("detach")(value)()


PRIM = {
    "NumToTensor": number_to_tensor, "RaiseException": raised, "unchecked_unwrap_optional": unwrapped,
    **{name: attribute(name) for name in ("requires_grad", "is_cuda", "is_meta", "is_cpu", "T", "mT", "itemsize",
                                          "grad",
                                          "is_sparse", "is_quantized", "is_nested", "device")},
    "dtype": lambda x: CODES[attribute("dtype")(x)], "shape": lambda x: list(attribute("shape")(x)),
    "layout": layout_code, "data": cleared_of, "type": device_type,
    "min": smallest, "max": largest, "abs": lambda x: wrapped(abs(x)), "rangelist": rangelist,
    "ImplicitTensorToNum": lambda x: attribute("item")(x)(), "name": lambda x: None,
    "tolist": lambda x: attribute("tolist")(x)(),
    "index": lambda x: x.get_device() if isinstance(x, Tensor) else attribute("index", Device)(x)}
