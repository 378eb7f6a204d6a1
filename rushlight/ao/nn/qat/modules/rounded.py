"""Base of layers that train with rounded weights."""
from __future__ import annotations

from ....._src.core.later import later

__getattr__ = later(__name__)


class Rounded:
    """A float layer whose weight goes through ``weight_fake_quant``, which ``qconfig.weight`` makes."""

    _FLOAT_MODULE: type  # the float layer, or layers in a row, that it is made from
    batch_norm = False  # whether the second of these is a batch norm, which it keeps

    def round_weight(self, qconfig):
        """Takes the QConfig.  AssertionError where there is none."""
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def rounded(self):
        """The weight as it will be: [*] -> [*]."""
        return self.weight_fake_quant(self.weight)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer, or layers in a row, with a ``qconfig``: parameters are those of the float layer.
        AssertionError for other classes, or without qconfig."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, got {type(mod).__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        layers = list(mod.children()) if hasattr(mod, "__getitem__") else [mod]
        made = cls.like(*layers[:2 if cls.batch_norm else 1], mod.qconfig)
        made.train(mod.training)
        return made
