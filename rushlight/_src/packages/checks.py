"""Run-time checks of a program on its tensors, as additional results in a package."""
from __future__ import annotations

import copy

from ..checks import NOT_TRUE
from ..core.dtypes import bool_


def apart(module):
    """Return (a graph module without its checks, which returns their conditions after its results; the errors that they
    raise).  The module itself if it has no checks."""
    graph, conditions, errors = copy.deepcopy(module.graph), [], []
    for node in list(graph.nodes):
        if node.op == "call_function" and str(node.target).startswith("aten._assert_async."):
            condition, message = (*node.args, NOT_TRUE)[:2]
            conditions.append(condition)
            errors.append(RuntimeError(message))
            graph.erase_node(node)
    if not errors:
        return module, []
    output = graph.output_node()
    output.args = ((output.args[0], tuple(conditions)),)
    return type(module).__bases__[0](module, graph), errors  # its own class has its forward


def truth(condition):
    """A condition as a bool."""
    return condition if condition.dtype is bool_ else condition != 0


def told(error: Exception) -> dict:
    """An error as the manifest has it."""
    return {"error": type(error).__name__, "text": str(error)}
