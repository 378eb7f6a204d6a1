"""What observers, FakeQuantize modules and QConfigs say of themselves."""
from __future__ import annotations

from ..._src.core.dtypes import float16, int8, int16, int32, uint8
from ..._src.core.quantized import per_tensor_affine, per_tensor_symmetric, qint8, qint32, quint8
from .observer import BY_CHANNEL

UNDERLYING = {quint8: uint8, qint8: int8, qint32: int32}


def is_per_tensor(qscheme) -> bool:
    return qscheme in (per_tensor_affine, per_tensor_symmetric)


def is_per_channel(qscheme) -> bool:
    return qscheme in BY_CHANNEL


def to_underlying_dtype(qdtype):
    """The dtype that the whole numbers of a quantized dtype have; float8 is its own.  AssertionError for others.

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
