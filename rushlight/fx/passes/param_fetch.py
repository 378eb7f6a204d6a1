"""Attributes of layers, as their nodes carry them."""
from __future__ import annotations

from ... import nn

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The name that an attribute has today: the same."""
    return name


CONVOLUTION = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
module_fetch_book = {  # class -> (version, attributes, what maps names of other versions)
    nn.Linear: (1, ["weight", "bias"], default_matching), nn.Conv2d: (1, CONVOLUTION, default_matching),
    nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
                   default_matching),
    nn.ReLU: (1, ["inplace"], default_matching)}


def extract_attrs_for_lowering(mod) -> dict:
    """The class of a layer by its name, and its attributes.  RuntimeError for a version that is newer than the book's.

    >>> sorted(extract_attrs_for_lowering(nn.ReLU()))
    ['inplace', 'name']
    """
    found = {"name": f"{type(mod).__module__}.{type(mod).__qualname__}"}
    if type(mod) in module_fetch_book:
        version, names, matching = module_fetch_book[type(mod)]
        if version < mod._version:
            raise RuntimeError(f"Fetcher version {version} try to fetch {type(mod)} version {mod._version}: give "
                               "module_fetch_book an entry for the newer version of this layer")
        found.update({name: getattr(mod, matching(name, mod._version)) for name in names})
    return found


def lift_lowering_attrs_to_nodes(fx_module):
    """Puts the attributes of each layer on its nodes, as ``node.attrs_for_lowering``, in modules within, too."""
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            layer = fx_module.get_submodule(node.target)
            if hasattr(layer, "graph") and hasattr(layer, "recompile"):
                lift_lowering_attrs_to_nodes(layer)
            else:
                node.attrs_for_lowering = extract_attrs_for_lowering(layer)
