"""Exported programs with their backward pass: one graph that gives the loss and the gradients."""
from __future__ import annotations

import copy

from .._src.autograd.backward import grad
from .._src.core.native import Tensor
from ..fx.experimental.proxy_tensor import run_real
from ..fx.node import Node
from ..nn.attention import SDPBackend, sdpa_kernel
from .exported_program import ExportedProgram
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, OutputKind, OutputSpec,
                              TensorArgument)

GRADIENTS = {InputKind.PARAMETER: OutputKind.GRADIENT_TO_PARAMETER,
             InputKind.USER_INPUT: OutputKind.GRADIENT_TO_USER_INPUT}


def forward_and_backward(program: ExportedProgram, loss_index: int = 0) -> ExportedProgram:
    """The program with its backward pass, decomposed: results are what is written into, the results of the program, of
    which the ``loss_index``-th is the loss, and a gradient for each parameter and input that wants one.

    RuntimeError if the loss is not a scalar with a history, if another result has one, and for dynamic sizes.

    >>> import rushlight as torch
    >>> class Squared(torch.nn.Module):
    ...     def forward(self, x):
    ...         return (x * x).sum()
    >>> program = torch.export.export(Squared(), (torch.ones(2, requires_grad=True),))
    >>> joint = forward_and_backward(program)
    >>> [spec.kind.name for spec in joint.graph_signature.output_specs]
    ['LOSS_OUTPUT', 'GRADIENT_TO_USER_INPUT']
    >>> joint.module()(torch.tensor([1.0, 3.0]))
    (tensor(10.), tensor([2., 6.]))
    """
    if any(free for _, _, free in program.expected):
        raise RuntimeError("a program is written with its backward pass for fixed sizes: export it without "
                           "dynamic_shapes")
    before, signature = program.graph.find_nodes(op="placeholder"), program.graph_signature
    given = tuple(value for value, _ in program.given())
    wanted = [k for k, value in enumerate(given) if isinstance(value, Tensor) and value.requires_grad]

    def joint(*inputs):
        results = program.graph_module(*inputs)
        check_results(results, loss_index)
        return (*results, *grad(results[loss_index], [inputs[k] for k in wanted], materialize_grads=True))

    with sdpa_kernel(SDPBackend.MATH):  # all derivatives of the formula have names
        module = run_real(joint, given, [node.name for node in before], {})
    for node, old in zip(module.graph.find_nodes(op="placeholder"), before):
        node.meta.update(old.meta)
    kinds = [(OutputKind.LOSS_OUTPUT if k == loss_index else spec.kind, spec.target)
             for k, spec in enumerate(signature.output_specs)]
    for spec in (signature.input_specs[k] for k in wanted):
        kinds.append((GRADIENTS[spec.kind], spec.target or spec.arg.name))
    nodes = module.graph.output_node().args[0]
    specs = [OutputSpec(kind, TensorArgument(node.name) if isinstance(node, Node) else ConstantArgument("", node),
                        target) for (kind, target), node in zip(kinds, nodes, strict=True)]
    made = copy.copy(program)
    made.graph_module = module
    made.graph_signature = ExportGraphSignature(copy.deepcopy(signature.input_specs), specs)
    return made.run_decompositions()


def check_results(results, loss_index):
    """RuntimeError where the loss is no scalar with a history, or another result has one."""
    if not 0 <= loss_index < len(results):
        raise RuntimeError(f"the program has {len(results)} results, and no loss at index {loss_index}")
    loss = results[loss_index]
    if not isinstance(loss, Tensor) or not loss.requires_grad or loss.numel() != 1:
        raise RuntimeError("It looks like you're trying to trace out a joint graph, whose loss must be a scalar that "
                           f"requires gradients: result {loss_index} is {loss}")
    for k, value in enumerate(results):
        if k != loss_index and isinstance(value, Tensor) and value.requires_grad:
            raise RuntimeError("Found an output of the forward that requires gradients, that was not the scalar loss: "
                               f"result {loss_index} is the loss, and result {k} requires gradients. Call .detach() "
                               "on it")
