"""State that a prepared graph module stores for its conversion."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class ObservedGraphModuleAttrs:
    """What ``prepare`` found: by the names of nodes."""

    node_name_to_qconfig: dict
    node_name_to_scope: dict
    prepare_custom_config: object
    equalization_node_name_to_qconfig: dict
    qconfig_mapping: object
    is_qat: bool
    observed_node_names: set
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: object = None
    standalone_module_output_quantized_idxs: object = None


def _is_observed_module(module) -> bool:
    """Whether a module was prepared."""
    return "_observed_graph_module_attrs" in getattr(module, "meta", {})


def _is_observed_standalone_module(module) -> bool:
    return _is_observed_module(module) and module.meta["_observed_graph_module_attrs"].is_observed_standalone_module
