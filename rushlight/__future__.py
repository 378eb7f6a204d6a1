"""``torch.__future__``: switches that change how modules are converted and will become defaults."""
from __future__ import annotations

from .nn.modules.state import Conversion as _Conversion

__all__ = ["get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
           "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion"]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """True if ``module.to()`` and similar methods create new parameters instead of changing the data of existing
    ones."""
    _Conversion.overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What ``set_overwrite_module_params_on_conversion`` has set; False at first."""
    return _Conversion.overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether ``module.to()`` and ``load_state_dict`` exchange a parameter with its successor, by
    ``torch.utils.swap_tensors``."""
    _Conversion.swaps = value


def get_swap_module_params_on_conversion() -> bool:
    """What ``set_swap_module_params_on_conversion`` has set; False at first."""
    return _Conversion.swaps
