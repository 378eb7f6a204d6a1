"""Tables of what a BackendConfig says."""
from __future__ import annotations


def entries(backend_config, name: str) -> list:
    """(pattern, attribute) of the configs that have the attribute."""
    found = ((c.pattern, getattr(c, name, None)) for c in backend_config.configs)
    return [(pattern, value) for pattern, value in found if value is not None]


def get_pattern_to_dtype_configs(backend_config) -> dict:
    return dict(entries(backend_config, "dtype_configs"))


def get_qat_module_classes(backend_config) -> tuple:
    return tuple(value for _, value in entries(backend_config, "qat_module"))


def get_fused_module_classes(backend_config) -> tuple:
    return tuple(value for _, value in entries(backend_config, "fused_module"))


def get_root_module_to_quantized_reference_module(backend_config) -> dict:
    return {c.root_module: c.reference_quantized_module for c in backend_config.configs
            if getattr(c, "root_module", None) is not None
            and getattr(c, "reference_quantized_module", None) is not None}
