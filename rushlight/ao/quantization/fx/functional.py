"""Calls of ``torch.nn.functional.linear`` by weights that the model holds, as operators of packed weights."""
from __future__ import annotations

from ...._src.core.dtypes import float16
from ...._src.core.later import facade
from ...nn.quantized.modules.utils import quantized_weight
from ..utils import getattr_from_fqn
from .fuse import absorb, follower
from .kinds import is_relu

PACKED = "_packed_weight_"
NAMES = "input", "weight", "bias"


def operands(node) -> dict:
    """The nodes of input, weight and bias of a call."""
    return dict.fromkeys(NAMES) | dict(zip(NAMES, node.args)) | node.kwargs


def is_linear(node) -> bool:
    """True for a linear layer as a function of a weight and a bias that the model holds."""
    if node.op != "call_function" or node.target is not facade().nn.functional.linear:
        return False
    found = operands(node)
    return found["weight"].op == "get_attr" and (found["bias"] is None or found["bias"].op == "get_attr")


def pack_weight(model, node, observer) -> str:
    """Return the name of an attribute of the model that holds the packed weight and bias of a call."""
    library, found = facade().ops.quantized, operands(node)
    weight, bias = (node and getattr_from_fqn(model, node.target).detach() for node in (found["weight"], found["bias"]))
    packed = (library.linear_prepack_fp16(weight, bias) if observer.dtype is float16
              else library.linear_prepack(quantized_weight(weight, observer), bias))
    name = PACKED + str(sum(key.startswith(PACKED) for key in vars(model)))
    setattr(model, name, packed)
    return name


def drop_reads(model, graph, found):
    """Removes what read the weight and the bias of a call that was replaced; ``found``: its operands."""
    for read in (found["weight"], found["bias"]):
        if read is not None and not read.users:
            graph.erase_node(read)
            drop_unread(model, graph, read.target)


def convert_linear(model, graph, node, qconfig, modules):
    """Replaces a call, and the relu that follows, by one that quantizes its input by its extremes."""
    library, found, observer = facade().ops.quantized, operands(node), qconfig.weight()
    is_half, name = observer.dtype is float16, pack_weight(model, node, observer)
    after = follower(node)
    relu = after is not None and is_relu(after, modules)
    function = getattr(library, f"linear{'_relu' * relu}_dynamic{'_fp16' * is_half}")
    with graph.inserting_before(node):
        made = graph.call_function(function, (found["input"], graph.get_attr(name), *(() if is_half else (True,))))
    absorb(graph, node, made)
    if relu:
        absorb(graph, after, made)
    drop_reads(model, graph, found)


def drop_unread(model, graph, path):
    """Remove an unread tensor of the model itself; unused submodules are removed entirely."""
    if "." not in path and not any(node.op == "get_attr" and node.target == path for node in graph.nodes):
        delattr(model, path)
