"""Observers put into graphs."""
from __future__ import annotations

from .graph_module import ObservedGraphModuleAttrs


def _insert_obs_or_fq(node, obs_or_fq, model, named_modules, graph, model_device=None):
    """The call of an observer on a node's value, behind that node; the observer becomes a submodule
    ``activation_post_process_0`` and so on."""
    if model_device is not None:
        obs_or_fq.to(model_device)
    number = 0
    while hasattr(model, f"activation_post_process_{number}"):
        number += 1
    name = f"activation_post_process_{number}"
    setattr(model, name, obs_or_fq)
    named_modules[name] = obs_or_fq
    with graph.inserting_after(node):
        return graph.create_node("call_module", name, (node,), {})


def _save_state(observed, node_name_to_qconfig, node_name_to_scope, prepare_custom_config,
                equalization_node_name_to_qconfig, qconfig_mapping, is_qat, observed_node_names):
    """Notes in ``observed.meta`` what its conversion has to know."""
    observed.meta["_observed_graph_module_attrs"] = ObservedGraphModuleAttrs(
        node_name_to_qconfig, node_name_to_scope, prepare_custom_config, equalization_node_name_to_qconfig,
        qconfig_mapping, is_qat, observed_node_names)
