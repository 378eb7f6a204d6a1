"""Equalization across layers (Nagel and others 2019): each channel between two layers is scaled so that the weights
which make it and those which read it have equal ranges."""
from __future__ import annotations

import copy

from ..._src.core.later import facade, later
from ...nn import Conv1d, Conv2d, Linear, Module, Parameter
from ..nn.intrinsic.modules.fused import ConvReLU1d, ConvReLU2d, LinearReLU

__getattr__ = later(__name__)
_supported_types = {Conv2d, Linear, Conv1d}
_supported_intrinsic_types = {ConvReLU2d, LinearReLU, ConvReLU1d}
_all_supported_types = _supported_types | _supported_intrinsic_types
LEAST = 1e-9  # is added to ranges by which is divided


def layer(module):
    """The layer with the weight: a module, or the first of those in a row."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module, weight):
    layer(module).weight = Parameter(weight)


def set_module_bias(module, bias):
    layer(module).bias = Parameter(bias)


def has_bias(module) -> bool:
    return layer(module).bias is not None


def get_module_weight(module):
    return layer(module).weight


def get_module_bias(module):
    return layer(module).bias


def max_over_ndim(input, axis_list, keepdim=False):
    """The largest numbers over some dimensions."""
    return input.amax(tuple(axis_list), keepdim) if axis_list else input


def min_over_ndim(input, axis_list, keepdim=False):
    """The least numbers over some dimensions."""
    return input.amin(tuple(axis_list), keepdim) if axis_list else input


def channel_range(input, axis=0):
    """The largest number less the least of each channel, the indices of ``axis``: [*] -> [channels]."""
    rest = [k for k in range(input.dim()) if k != axis % input.dim()]
    return max_over_ndim(input, rest) - min_over_ndim(input, rest)


def get_name_by_module(model, module) -> str:
    """The path of a module.  ValueError where the model does not have it."""
    for name, one in model.named_modules():
        if one is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(module1, module2, output_axis=0, input_axis=1):
    """Divides the channels out of one layer, and multiplies those into the next, by sqrt(range1 / range2).

    ValueError for layers other than Linear, Conv1d and Conv2d, with a relu or without; TypeError where the layers do
    not fit.
    """
    for module in (module1, module2):
        if type(module) not in _all_supported_types:
            raise ValueError(f"module type not supported: {type(module1)}, {type(module2)}")
    first, second = get_module_weight(module1), get_module_weight(module2)
    if first.size(output_axis) != second.size(input_axis):
        raise TypeError("Number of output channels of first arg do not match number input channels of second arg: "
                        f"{first.size(output_axis)} and {second.size(input_axis)}")
    with facade().no_grad():
        factors = (channel_range(first, output_axis) / (channel_range(second, input_axis) + LEAST)).sqrt()
        inverse = factors.reciprocal()
        if has_bias(module1):
            set_module_bias(module1, get_module_bias(module1) * inverse)
        set_module_weight(module1, first * along(inverse, first, output_axis))
        set_module_weight(module2, second * along(factors, second, input_axis))


def along(line, weight, axis):
    """Numbers of channels in the shape that broadcasts with a weight."""
    return line.reshape([-1 if k == axis % weight.dim() else 1 for k in range(weight.dim())])


def process_paired_modules_list_to_name(model, paired_modules_list) -> list:
    """Return groups of modules, or of their paths, as paths.  TypeError for other types."""
    def name(item):
        if isinstance(item, Module):
            return get_name_by_module(model, item)
        if isinstance(item, str):
            return item
        raise TypeError(f"item must be a nn.Module or a string, got {type(item).__name__}")
    return [[name(item) for item in group] for group in paired_modules_list]


def expand_groups_in_paired_modules_list(paired_modules_list) -> list:
    """Groups as pairs of neighbours.  ValueError for a group of one."""
    if any(len(group) == 1 for group in paired_modules_list):
        raise ValueError("Group must have at least two modules")
    return [list(pair) for group in paired_modules_list for pair in zip(group, group[1:])]


def equalize(model, paired_modules_list, threshold=1e-4, inplace=True):
    """A model (or a copy of it) whose pairs of layers are equalized, again and again until weights change by less
    than ``threshold``: results are unchanged if only functions that are linear for each sign, such as relu, are
    between them.

    ``paired_modules_list``: lists of two or more layers that follow each other, or of their paths.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> x = torch.ones(1, 3)
    >>> equal = torch.ao.quantization._equalize.equalize(model, [["0", "2"]], inplace=False)
    >>> bool((equal(x) - model(x)).abs().max() < 1e-5)
    True
    """
    pairs = expand_groups_in_paired_modules_list(process_paired_modules_list_to_name(model, paired_modules_list))
    model = model if inplace else copy.deepcopy(model)
    names = {name for pair in pairs for name in pair}
    modules = {name: one for name, one in model.named_modules() if name in names}
    before = dict.fromkeys(modules)
    while not converged(modules, before, threshold):
        for pair in pairs:
            before.update({name: copy.deepcopy(modules[name]) for name in pair})
            cross_layer_equalization(*(modules[name] for name in pair))
    return model


def converged(curr_modules, prev_modules, threshold=1e-4) -> bool:
    """Whether the norms of what weights changed by since ``prev_modules`` (None: never seen) add up to less than
    ``threshold``.  ValueError for other names."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError("The keys to the given mappings must have the same set of names of modules")
    if None in prev_modules.values():
        return False
    return sum(float((get_module_weight(one) - get_module_weight(prev_modules[name])).detach().norm())
               for name, one in curr_modules.items()) < threshold
