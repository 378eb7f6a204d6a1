"""Exported programs written anew: the program, its signature and its results for another set of operators."""
from __future__ import annotations

import copy

from .._src.capture.unbacked import Assumptions
from .._src.core.native import Tensor
from .._decomp import simpler
from ..library.decompositions import opened_form
from .decomposing import DecomposedView, Program
from .exported_program import entered
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, OutputKind, OutputSpec,
                              TensorArgument)
from ..fx import GraphModule

MUTATION = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
            InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION}


class Inputs:
    """Stands for a trace where symbols are made for inputs: notes their Metas."""

    def __init__(self):
        self.metas = []

    def input(self, meta):
        self.metas.append(meta)
        return self

    node = None


def rewritten(program, table):
    """The program by a table.  RuntimeError where the operators decide by sizes that vary."""
    inputs, symbols, sizes, given = Inputs(), {}, {}, []
    for value, (_, _, varying) in program.given():
        if isinstance(value, Tensor):
            entered(value, varying, inputs, symbols, sizes)
            given.append(inputs.metas[-1])
        else:
            given.append(value)
    table = {called: opened_form(called) if function is simpler(called) else function
             for called, function in table.items()}
    shape_env = Assumptions()
    shape_env.hints.update(symbols.values())
    shape_env.check = lambda condition, error: False
    one = Program(program.graph_module, table, given, shape_env)
    results, written = one.run()
    fixed = [f"{condition} is {outcome}" for condition, outcome in shape_env.guards if condition.op == "==" and outcome]
    if fixed:
        raise RuntimeError(f"a program that is not the same for all sizes ({fixed[0]}) cannot be decomposed: export it "
                           "for fixed sizes")
    with shape_env:
        view = DecomposedView(one, [*written.values(), *results])
    made = copy.copy(program)
    made.graph_module = GraphModule(one.parts, view.graph)
    made.graph_signature = signature_of(program, view.graph, written)
    made.dialect = "ATEN"
    return made


def signature_of(program, graph, written) -> ExportGraphSignature:
    """The signature of the rewritten graph, whose first results are what inputs are worth afterwards."""
    old = program.graph_signature
    specs = dict(zip((n.name for n in program.graph.find_nodes(op="placeholder")), old.input_specs))
    nodes = graph.output_node().args[0]
    outputs = []
    for source, node in zip(written, nodes):
        spec = specs[source.name]
        target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
        outputs.append(OutputSpec(MUTATION[spec.kind], TensorArgument(node.name), target))
    for spec, node in zip(old.output_specs, nodes[len(written):]):
        arg = TensorArgument(node.name) if hasattr(node, "name") else ConstantArgument("", node)
        outputs.append(OutputSpec(spec.kind, arg, spec.target))
    return ExportGraphSignature(copy.deepcopy(old.input_specs), outputs)
