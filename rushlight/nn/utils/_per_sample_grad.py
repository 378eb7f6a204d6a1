"""Gradients of each sample of a batch with respect to the parameters of a module."""
from __future__ import annotations

import functools

from ..._src import flat as torch
from ..._src.core.pytree import tree_leaves
from ..._src.autograd.function import Function
from ...func import vjp, vmap
from ...func.modules import functional_call
from .. import functional as F
from ..modules.module import Module

REDUCTIONS = ("sum", "mean")
CONVOLUTIONS = {F.conv1d: 3, F.conv2d: 4, F.conv3d: 5}  # function -> dimensions of a batched input
STATISTICS = ("running_mean", "running_var")
INSTANCE_NORM = (*STATISTICS, "weight", "bias", "use_input_stats", "momentum", "eps")  # parameters after the input
SUPPORTED = (F.linear, *CONVOLUTIONS, F.embedding, F.layer_norm, F.group_norm, F.instance_norm)


class ExpandedWeight(torch.Tensor):
    """A parameter that stands for one copy of itself per sample of a batch.

    The functions of ``SUPPORTED``, whose samples do not depend on each other, compute with the parameter. Their
    backward adds the gradients of each sample to its attribute ``grad_sample``, and leaves ``grad`` alone. All other
    functions raise RuntimeError: where their arguments have the batch is unknown.
    """

    def __new__(cls, orig_weight, batch_size, loss_reduction):
        if not isinstance(orig_weight, torch.Tensor):
            raise RuntimeError(f"Can only make Expanded Weights of Tensors, got {type(orig_weight).__name__}")
        if not orig_weight.requires_grad:
            raise RuntimeError("Can only build ExpandedWeights objects of tensors that requires_grad")
        return torch.Tensor._make_subclass(cls, orig_weight, True)

    def __init__(self, orig_weight, batch_size, loss_reduction):
        self.orig_weight, self.batch_size, self.loss_reduction = orig_weight, batch_size, loss_reduction

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in SUPPORTED:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {func.__name__}")
        call = ExpandedCall(func, args, kwargs or {})
        return PerSampleFunction.apply(call, *call.tensors)

    def add_samples(self, gradients):
        """Add gradients of each sample to the parameter's ``grad_sample``."""
        weight = self.orig_weight
        scaled = gradients * self.batch_size if self.loss_reduction == "mean" else gradients
        known = getattr(weight, "grad_sample", None)
        weight.grad_sample = scaled if known is None else known + scaled


for attribute in ("dtype", "data", "shape", "device", "is_cuda"):
    setattr(ExpandedWeight, attribute, property(lambda self, name=attribute: getattr(self.orig_weight, name)))


class ExpandedCall:
    """One call of a supported function: its arguments; ``tensors`` are the input and the parameters."""

    def __init__(self, function, args, kwargs):
        if function is F.instance_norm:  # by name: its running statistics are no parameters
            args, kwargs = args[:1], {**dict(zip(INSTANCE_NORM, args[1:])), **kwargs}
        self.function, self.args, self.kwargs = function, args, kwargs
        self.places = [place for place in (*range(1, len(args)), *kwargs)
                       if isinstance(self[place], torch.Tensor) and place not in STATISTICS]
        self.given = [self[place] for place in self.places]
        self.check_input(args[0] if args else kwargs.get("input"))
        self.check_weights()
        self.tensors = [args[0], *(getattr(each, "orig_weight", each) for each in self.given)]

    def __getitem__(self, place):
        return self.args[place] if isinstance(place, int) else self.kwargs[place]

    def check_input(self, input):
        name, dims = self.function.__name__, CONVOLUTIONS.get(self.function)
        if isinstance(input, ExpandedWeight):
            raise RuntimeError(
                "Expanded Weights do not support inputs that are also ExpandedWeights. Input must be a Tensor, got "
                f"ExpandedWeight in function {name}")
        if not self.args or not isinstance(input, torch.Tensor):
            raise RuntimeError("Expanded Weights requires a Tensor as the first input to get the batch dimension, got "
                               f"{type(self.args[0] if self.args else None).__name__} in function {name}")
        if dims is not None and input.dim() != dims:
            raise RuntimeError(f"Expanded Weights only support convolution with batched input, got {name} with an "
                               f"unbatched input of dim {input.dim()}, expected input of dim {dims}")
        if input.dim() < (1 if self.function is F.embedding else 2) or not self.is_batched(input):
            raise RuntimeError(f"Expanded Weights requires a batch dimension but got an input of shape "
                               f"{tuple(input.shape)} in function {name}")
        if input.shape[0] == 0:
            raise RuntimeError("0 is not a valid batch size for Expanded Weights but got input tensor of shape "
                               f"{tuple(input.shape)} in function {name}")

    def is_batched(self, input) -> bool:
        """True if the input has a batch dimension before those that the function reads of each sample."""
        if self.function is F.embedding:
            return input.dim() > 1
        return self.function is not F.layer_norm or input.dim() > len(self.args[1])

    def check_weights(self):
        size = self.args[0].shape[0]
        expanded = [each for each in self.given if isinstance(each, ExpandedWeight)]
        for each in expanded:
            if each.batch_size != size:
                raise RuntimeError(
                    "Expected ExpandedWeights to have batch size matching input but got input batch size of "
                    f"{size} with ExpandedWeight of batch size {each.batch_size}")
        if len(reductions := {each.loss_reduction for each in expanded}) > 1:
            raise RuntimeError("Expected ExpandedWeights to all have the same loss_reduction argument but got "
                               f"{' and '.join(sorted(reductions))}")

    def run(self, input, *weights, **others):
        """Call the function with other tensors in place of those that were given."""
        found = dict(zip(self.places, weights))
        args = [input, *(found.get(place, self.args[place]) for place in range(1, len(self.args)))]
        return self.function(*args, **{**{name: found.get(name, self.kwargs[name]) for name in self.kwargs}, **others})

    def run_sample(self, input, *weights):
        """Call the function for one sample, without updates of running statistics, which the forward has made."""
        without = {}
        if self.function is F.instance_norm and self.kwargs.get("use_input_stats", True):
            without = dict.fromkeys(STATISTICS)
        return self.run(input.unsqueeze(0), *weights, **without).squeeze(0)


class PerSampleFunction(Function):
    """A supported function whose backward keeps the gradients of parameters apart by samples."""

    @staticmethod
    def forward(ctx, call, input, *weights):
        ctx.call = call
        ctx.save_for_backward(input, *weights)
        return call.run(input, *weights)

    @staticmethod
    def backward(ctx, gradient):
        call, (input, *weights) = ctx.call, ctx.saved_tensors
        for each in call.given:
            if not isinstance(each, ExpandedWeight) and each.requires_grad:
                raise RuntimeError("ExpandedWeights currently does not support a mixture of ExpandedWeight parameters "
                                   "and normal Parameters")
        of_input = input.is_floating_point() or input.is_complex()

        def differentiate(sample, received):
            if of_input:
                return vjp(call.run_sample, sample, *weights)[1](received)
            return None, *vjp(functools.partial(call.run_sample, sample), *weights)[1](received)

        samples = vmap(differentiate, out_dims=(0 if of_input else None, *(0 for _ in weights)))(input, gradient)
        for each, found in zip(call.given, samples[1:]):
            if isinstance(each, ExpandedWeight):
                each.add_samples(found)
        return None, samples[0], *(None for _ in weights)


def find_batch_size(leaves, dim: int) -> int:
    """Return the size that all tensors have in a dimension. RuntimeError if they differ or there are none."""
    sizes = list(dict.fromkeys(leaf.shape[dim] for leaf in leaves if isinstance(leaf, torch.Tensor)))
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights "
            "cannot compute the batch size from the inputs. Please specify it explicitly")
    if len(sizes) > 1:
        raise RuntimeError(
            f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch size "
            f"{sizes[1]}. Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads")
    return sizes[0]


def check_arguments(module, batch_size, loss_reduction):
    if loss_reduction not in REDUCTIONS:
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, weight in module.named_parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls "
                f"without clearing gradients. Please clear out the grad_sample parameter of {name}")


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """Return a forward function of a module whose backward sets ``grad_sample`` of the module's parameters.

    Args:
        module: Its parameters that require a gradient get one for each sample, and no ``grad``.
        batch_size: By default the size of all tensors that the function is called with.
        loss_reduction: "mean" if the loss is the mean over samples: gradients are multiplied by the batch size.
        batch_first: Whether the batch is the first dimension of these tensors, or the second.

    >>> model = torch.nn.Linear(3, 2)
    >>> call_for_per_sample_grads(model)(torch.ones(4, 3)).sum().backward()
    >>> model.weight.grad_sample.shape
    torch.Size([4, 2, 3])
    """
    check_arguments(module, batch_size, loss_reduction)

    @functools.wraps(module.forward)
    def call(*args, **kwargs):
        size = batch_size
        if size is None:
            size = find_batch_size(tree_leaves((args, kwargs)), 0 if batch_first else 1)
        expanded = {name: ExpandedWeight(weight, size, loss_reduction) if weight.requires_grad else weight
                    for name, weight in module.named_parameters()}
        return functional_call(module, expanded, args, kwargs)

    return call
