"""Data-dependent and size-dependent choices, and data-dependent sizes, in ONNX."""

from __future__ import annotations

from .._src.core.dtypes import bool_
from .._src.core.expr import Expr
from .errors import OnnxExporterError
from .rules import rule


@rule("cond")
def choose(w, node, condition, *values):
    """The operator If, whose branches read the values of the graph around them."""
    pred = w.size(condition) if isinstance(condition, Expr) else w.cast(w.names[condition], bool_)
    branches = {}
    for name, program in zip(("then_branch", "else_branch"), node.op.programs, strict=True):
        w.names.update(zip(program.inputs, (w.names[value] for value in values), strict=True))
        branches[name] = w.subgraph(name, [], lambda program=program: write_program(w, program))
    made = w.emit("If", pred, outputs=len(node.meta), **branches)
    return made if isinstance(made, tuple) else (made,)


def write_program(w, program) -> list:
    """(name, dtype) of each result of a program, whose nodes are written."""
    for node in program.nodes:
        w.write(node)
    return [(w.emit("Identity", w.names[result]), result.dtype) for result in program.outputs]


@rule("nonzero")
def nonzero(w, node, x):
    if not x.shape:
        raise OnnxExporterError("nonzero of a tensor without dimensions is not written as ONNX: reshape it to (1,)")
    made = w.emit("Transpose", w.emit("NonZero", w.cast(w.value(x, x.dtype), bool_)), perm=[1, 0])
    w.sizes[node.shape[0].arg[0]] = w.emit("Shape", made, start=0, end=1)
    return made
