"""Queries about observers, FakeQuantize modules and QConfigs."""
from __future__ import annotations

import typing
import warnings

from ..._src.core.dtypes import float16, int8, int16, int32, uint8
from ..._src.core.quantized import per_tensor_affine, per_tensor_symmetric, qint8, qint32, quint8
from .observer import BY_CHANNEL

UNDERLYING = {quint8: uint8, qint8: int8, qint32: int32}


def is_per_tensor(qscheme) -> bool:
    return qscheme in (per_tensor_affine, per_tensor_symmetric)


def is_per_channel(qscheme) -> bool:
    return qscheme in BY_CHANNEL


def to_underlying_dtype(qdtype):
    """Return the integer dtype under a quantized dtype; float8 is its own.  AssertionError for others.

    >>> import rushlight as torch
    >>> to_underlying_dtype(torch.quint8)
    torch.uint8
    """
    found = UNDERLYING.get(qdtype, qdtype)
    if str(found).rpartition(".")[2] not in ("uint8", "int8", "int16", "int32", "float8_e5m2", "float8_e4m3fn"):
        raise AssertionError(f"Unsupported dtype: {qdtype}")
    return found


def get_qparam_dict(observer_or_fake_quant) -> dict:
    """{"qscheme", "dtype", "quant_min", "quant_max", "axis", "scale", "zero_point"} of an observer, as far as it has
    them."""
    qscheme = getattr(observer_or_fake_quant, "qscheme", None)
    found = {"qscheme": qscheme, "dtype": observer_or_fake_quant.dtype}
    if qscheme and is_per_channel(qscheme):
        found["axis"] = observer_or_fake_quant.ch_axis
    found["scale"], found["zero_point"] = observer_or_fake_quant.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, name):
            found[name] = getattr(observer_or_fake_quant, name)
    return found


def weight_dtype(qconfig):
    if qconfig is None:
        raise AssertionError("qconfig must not be None")
    return qconfig.weight().dtype


def activation_dtype(qconfig):
    if qconfig is None:
        raise AssertionError("qconfig must not be None")
    return qconfig.activation().dtype


def weight_is_quantized(qconfig) -> bool:
    """Whether a QConfig quantizes weights."""
    return weight_dtype(qconfig) in (quint8, qint8, float16, uint8, int8, int16, int32)


def _parent_name(target: str) -> tuple:
    """The path of what holds an attribute, and its name: ("a.b", "c") of "a.b.c"."""
    parent, _, name = target.rpartition(".")
    return parent, name


def getattr_from_fqn(obj, fqn: str):
    """An attribute of an object by its path."""
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def has_no_children_ignoring_parametrizations(module) -> bool:
    return not module._modules or set(module._modules) == {"parametrizations"}


class MatchAllNode:
    """In patterns: any node."""


NodePattern = Pattern = typing.Any
INTEGERS = (quint8, qint8, qint32, uint8, int8, int16, int32)


def get_combined_dict(default_dict, additional_dict) -> dict:
    """A copy of a dict with entries of another one, which go first."""
    return {**default_dict, **additional_dict}


def check_node(node, modules) -> tuple:
    """Whether a node calls a function, a method or a module."""
    return (node.op == "call_function", node.op == "call_method",
            node.op == "call_module" and str(node.target) in modules)


def get_swapped_custom_module_class(custom_module, custom_module_class_mapping, qconfig):
    """Return the class that a custom module is swapped for under a qconfig.  AssertionError if none is configured."""
    kind = get_quant_type(qconfig)
    found = custom_module_class_mapping.get(kind, {}).get(type(custom_module))
    if found is None:
        raise AssertionError(f"did not find corresponding observed module class for {type(custom_module)} in mapping: "
                             f"{custom_module_class_mapping}")
    return found


def get_qconfig_dtypes(qconfig) -> tuple:
    """(dtype of activations, dtype of weights, whether scales are chosen as programs run)."""
    if qconfig is None:
        raise AssertionError("qconfig must be provided to extract dtypes")
    activation = qconfig.activation()
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def activation_is_statically_quantized(qconfig) -> bool:
    """Whether activations get scales before programs run."""
    dtype, _, dynamic = get_qconfig_dtypes(qconfig)
    return dtype in INTEGERS and not dynamic


def activation_is_dynamically_quantized(qconfig) -> bool:
    """Whether activations get scales as programs run."""
    return bool(get_qconfig_dtypes(qconfig)[2])


def activation_is_int8_quantized(qconfig) -> bool:
    return get_qconfig_dtypes(qconfig)[0] in (quint8, qint8, uint8, int8)


def activation_is_int32_quantized(qconfig) -> bool:
    return get_qconfig_dtypes(qconfig)[0] in (qint32, int32)


def weight_is_statically_quantized(qconfig) -> bool:
    return weight_dtype(qconfig) in (quint8, qint8, uint8, int8)


def op_is_int8_dynamically_quantized(qconfig) -> bool:
    """Whether activations of 8 bits get scales as programs run, and weights are of 8 bits."""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return activation in (quint8, uint8) and weight in (qint8, int8) and bool(dynamic)


def get_quant_type(qconfig):
    """The kind of quantization of a qconfig.  ValueError for none that is known."""
    from .quant_type import QuantType
    if qconfig is None:
        raise AssertionError("qconfig must be provided to determine quant type")
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    if weight in INTEGERS[:2] + INTEGERS[3:5]:
        if dynamic:
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation in INTEGERS else QuantType.WEIGHT_ONLY
    if weight is float16:
        if dynamic:
            return QuantType.DYNAMIC
        if activation is float16:
            return QuantType.STATIC
    raise ValueError(f"Unrecognized dtype combination in get_quant_type: activation({activation}),weight({weight})")


def check_min_max_valid(min_val, max_val) -> bool:
    """Whether smallest and largest values were seen; AssertionError where a smallest one is the larger.  A UserWarning
    where none were seen."""
    if min_val.numel() == 0 or max_val.numel() == 0:
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
        return False
    if min_val.dim() == 0 and min_val == float("inf") and max_val == float("-inf"):
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
        return False
    if not bool((min_val <= max_val).all()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Raise AssertionError for an empty integer range, or one without 0."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range) -> tuple:
    """Return the smallest and the largest quantized value of a dtype, or of a custom range; half of them with
    ``reduce_range``.

    >>> calculate_qmin_qmax(0, 255, False, quint8, True)
    (0, 127)
    """
    if has_customized_qrange:
        validate_qmin_qmax(quant_min, quant_max)
        return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
    if dtype in (qint8, int8):
        return (-64, 63) if reduce_range else (-128, 127)
    if dtype in (quint8, uint8):
        return (0, 127) if reduce_range else (0, 255)
    if dtype in (qint32, int32):
        return (-2 ** 31, 2 ** 31 - 1)
    return (0, 15)
