"""Engines of quantized tensors: one implementation, under any name."""
import sys
import types

NAMES = ["qnnpack", "onednn", "x86", "fbgemm"]


class Engines(types.ModuleType):
    """The module itself.  ``engine`` accepts any name that PyTorch has on this CPU, and changes no result: matmuls
    are exact, and rounded as PyTorch's x86 engine rounds them.

    >>> import rushlight as torch
    >>> torch.backends.quantized.engine, "fbgemm" in torch.backends.quantized.supported_engines
    ('x86', True)
    """

    chosen = "x86"

    @property
    def supported_engines(self) -> list:
        """The names that ``engine`` takes.  RuntimeError if it is assigned to."""
        return list(NAMES)

    @supported_engines.setter
    def supported_engines(self, names):
        raise RuntimeError("Assignment not supported")

    @property
    def engine(self) -> str:
        """The name that was chosen last.  RuntimeError for one that there is not."""
        return Engines.chosen

    @engine.setter
    def engine(self, name):
        if name in ("none", "", None):
            raise RuntimeError("quantized engine NoQEngine is not supported")
        if name not in NAMES:
            raise RuntimeError(f"{name} is not a valid value for quantized engine")
        Engines.chosen = name


sys.modules[__name__].__class__ = Engines
