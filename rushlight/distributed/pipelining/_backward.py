"""Backward passes of a pipeline stage: in one, or first to its inputs and later to its weights."""
from __future__ import annotations

import contextlib

from ..._src.autograd.backward import backward, grad
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_map


@contextlib.contextmanager
def told(what: str, outputs, gradients, inputs):
    """A block whose errors become a RuntimeError that names the stage."""
    try:
        yield
    except Exception as error:
        lines = (f"{name}: {tree_map(described, value, is_leaf=lambda v: v is None)}" for name, value in
                 (("Stage output", outputs), ("Output gradient", gradients), ("Input", inputs)))
        raise RuntimeError("\n    ".join((f"Failed to run {what}:", *lines))) from error


def described(value) -> str:
    if isinstance(value, Tensor):
        return f"Tensor({value.shape}, grad={value.requires_grad}, dtype={value.dtype})"
    return str(value)


def differentiable(output, gradient):
    """Return (output, gradient) of each output that has a history.  A list, tuple or dict without gradients is left
    out; AssertionError if the gradients are not nested as the outputs."""
    if isinstance(output, Tensor):
        if output.requires_grad:
            if not isinstance(gradient, (Tensor, type(None))):
                raise AssertionError(f"Expected Tensor or None gradient but got {type(gradient)}")
            yield output, gradient
    elif gradient is not None and isinstance(output, (tuple, list, dict)):
        kind = dict if isinstance(output, dict) else (tuple, list)
        if not isinstance(gradient, kind):
            raise AssertionError(f"Expected gradients in a {type(output).__name__}, got {type(gradient)}")
        if kind is dict and set(output) != set(gradient):
            raise AssertionError(f"Expected keys {set(output)}, got {set(gradient)}")
        if len(output) != len(gradient):
            raise AssertionError(f"Expected as many gradients as outputs, got {len(output)} != {len(gradient)}")
        for key in output if kind is dict else range(len(output)):
            yield from differentiable(output[key], gradient[key])


def stage_backward(stage_output, output_grads, input_values, outputs_with_grads_idxs=None) -> tuple:
    """Return the gradients of a stage's inputs (None for inputs without one), given those of its outputs; gradients of
    parameters are accumulated.  ``outputs_with_grads_idxs``: the outputs that have gradients, if not all do.  None is
    the gradient 1 of an output of one element; RuntimeError, with the arguments, if the backward fails.

    >>> import rushlight as torch
    >>> x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    >>> stage_backward([x * w], [torch.tensor([1.0, 2.0])], [x])
    (tensor([3., 6.]),)
    """
    if outputs_with_grads_idxs is not None:
        stage_output = [stage_output[k] for k in outputs_with_grads_idxs]
        output_grads = [output_grads[k] for k in outputs_with_grads_idxs]
    with told("stage backward", stage_output, output_grads, input_values):
        pairs = list(differentiable(stage_output, output_grads))
        if pairs:
            backward(*map(list, zip(*pairs)))
        found = []
        for value in input_values:
            found.append(value.grad if isinstance(value, Tensor) else None)
            if isinstance(value, Tensor):
                value.grad = None  # it is passed to the previous stage, not accumulated
        return tuple(found)


def stage_backward_input(stage_outputs_or_loss, output_grads, input_values, weights) -> tuple:
    """Return (the gradients of a stage's inputs, the arguments of ``stage_backward_weight`` for those of its weights:
    empty if no input requires a gradient).  ``output_grads`` None: ones.  RuntimeError, with the arguments, if it
    fails."""
    pairs = [(output, output.new_ones(output.shape) if output_grads is None else output_grads[k])
             for k, output in enumerate(stage_outputs_or_loss) if output.requires_grad]
    outputs, gradients = map(list, zip(*pairs)) if pairs else ([], [])
    wanted = [v for v in input_values if isinstance(v, Tensor) and v.requires_grad]
    if not wanted or not outputs:
        return (None,) * len(input_values), []
    with told("stage backward input", stage_outputs_or_loss, output_grads, input_values):
        found = iter(grad(outputs, wanted, gradients, retain_graph=True, allow_unused=True))
    result = tuple(next(found) if isinstance(v, Tensor) and v.requires_grad else None for v in input_values)
    for value, gradient in zip(input_values, result):
        add(value, gradient)
    return result, [{"params": list(weights), "outputs": outputs, "grads": gradients}]


def add(value, gradient):
    """Accumulates a gradient; None is none."""
    if gradient is not None:
        value.grad = gradient if value.grad is None else value.grad + gradient


def stage_backward_weight(weights, param_groups, retain_graph: bool = False) -> tuple:
    """Accumulate the gradients of weights, by the graph that ``stage_backward_input`` has kept: the nodes between an
    output and a weight run again.  Return the gradient of each weight."""
    weights = list(weights)
    for group in param_groups:
        wanted = [p for p in group["params"] if p.requires_grad]
        if not wanted or not group["outputs"]:
            continue
        found = grad(group["outputs"], wanted, group["grads"], retain_graph=retain_graph, allow_unused=True)
        for parameter, gradient in zip(wanted, found):
            add(parameter, gradient)
        if not retain_graph:
            group["outputs"], group["grads"] = [], []
    return tuple(w.grad for w in weights)
