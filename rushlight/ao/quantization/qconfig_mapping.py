"""Mapping of a model's parts to QConfigs: by name, by a pattern of names, by type, or else the global one."""
from __future__ import annotations

import re
from collections import OrderedDict

from ..._src.core.later import facade, later
from . import fake_quantize as rounding
from . import observer as observers
from .qconfig import QConfig, default_reuse_input_qconfig, get_default_qat_qconfig, get_default_qconfig

__getattr__ = later(__name__)


class QConfigMapping:
    """QConfigs for parts of a model: ``set_module_name`` goes before ``set_module_name_regex``, that before
    ``set_object_type``, that before ``set_global``.

    None leaves a part as it is.

    >>> from rushlight.ao.quantization import QConfigMapping, default_qconfig
    >>> QConfigMapping().set_global(default_qconfig).set_module_name("fc", None).find("fc", None) is None
    True
    """

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs, self.module_name_regex_qconfigs, self.module_name_qconfigs = (OrderedDict(),
                                                                                                 OrderedDict(),
                                                                                                 OrderedDict())
        self.module_name_object_type_order_qconfigs = OrderedDict()

    def set_global(self, global_qconfig):
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        """For modules of a class, calls of a function, or of the method of this name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        """For the call number ``index`` of a function within a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def find(self, name, kind):
        """The QConfig of what has this name (of the module, or around the call) and type."""
        path = name.split(".") if name else []
        for k in range(len(path), 0, -1):
            prefix = ".".join(path[:k])
            if prefix in self.module_name_qconfigs:
                return self.module_name_qconfigs[prefix]
        for pattern, qconfig in self.module_name_regex_qconfigs.items():
            if re.match(pattern, name):
                return qconfig
        if kind is not None and kind in self.object_type_qconfigs:
            return self.object_type_qconfigs[kind]
        return self.global_qconfig

    @classmethod
    def from_dict(cls, qconfig_dict):
        """From PyTorch's older form: "" and lists of pairs under "object_type", "module_name_regex" and
        "module_name"."""
        made = cls()
        if "" in qconfig_dict:
            made.set_global(qconfig_dict[""])
        for key, enter in (("object_type", made.set_object_type), ("module_name_regex", made.set_module_name_regex),
                           ("module_name", made.set_module_name)):
            for name, qconfig in qconfig_dict.get(key, ()):
                enter(name, qconfig)
        return made

    def to_dict(self):
        return {"": self.global_qconfig, "object_type": list(self.object_type_qconfigs.items()),
                "module_name_regex": list(self.module_name_regex_qconfigs.items()),
                "module_name": list(self.module_name_qconfigs.items())}


def fixed_ranges():
    """Operators whose results lie within known bounds, and the observers that say so."""
    torch = facade()
    nn, F = torch.nn, torch.nn.functional
    unit = (nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, torch.sigmoid, "sigmoid",
            "sigmoid_", nn.Softmax)
    around = (nn.Tanh, torch.tanh, "tanh", "tanh_")
    return {**dict.fromkeys(unit, observers.default_fixed_qparams_range_0to1_observer),
            **dict.fromkeys(around, observers.default_fixed_qparams_range_neg1to1_observer)}


def mapping_of(is_qat, backend, version) -> QConfigMapping:
    torch = facade()
    nn, F = torch.nn, torch.nn.functional
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = rounding.default_weight_fake_quant if is_qat else observers.default_weight_observer
    transposed = QConfig(activation=qconfig.activation, weight=weight) if backend in ("fbgemm", "x86") else qconfig
    floats = QConfig(activation=qconfig.activation, weight=observers.default_placeholder_observer)
    made = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d, F.conv_transpose2d,
                 F.conv_transpose3d):
        made.set_object_type(kind, transposed)
    for kind in (F.layer_norm, nn.LayerNorm):
        made.set_object_type(kind, floats)
    for kind, one in fixed_ranges().items():
        activation = rounding.FixedQParamsFakeQuantize.with_args(observer=one) if is_qat else one
        made.set_object_type(kind, QConfig(activation=activation, weight=weight))
    return made


def get_default_qconfig_mapping(backend="x86", version=0) -> QConfigMapping:
    """Return the mapping for calibration for a backend: x86, fbgemm, onednn or qnnpack.

    >>> import rushlight as torch
    >>> torch.ao.quantization.get_default_qconfig_mapping("x86").global_qconfig.activation().quant_max
    127
    """
    return mapping_of(False, backend, version)


def get_default_qat_qconfig_mapping(backend="x86", version=1) -> QConfigMapping:
    """Return the mapping for training for a backend: x86, fbgemm, onednn or qnnpack."""
    return mapping_of(True, backend, version)
