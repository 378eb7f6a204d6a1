"""Categories of calls in quantization: layers with weights, sums and multiplications, calls that only move elements,
and calls with a quantized class."""
from __future__ import annotations

import functools
import operator

from ...._src.core.later import facade
from ...nn.intrinsic.modules import fused

WEIGHTED, FUNCTION, BINARY, SCALAR = "weighted", "function of a weight", "binary", "scalar"
SHARED, FIXED, OWN_SCALE, OTHER = "shared", "fixed", "own scale", ""
FUSED = {fused.LinearReLU, fused.LinearBn1d, fused.ConvReLU1d, fused.ConvReLU2d, fused.ConvReLU3d, fused.ConvBn1d,
         fused.ConvBn2d, fused.ConvBn3d, fused.ConvBnReLU1d, fused.ConvBnReLU2d, fused.ConvBnReLU3d}


class Table:
    """The classes, functions and names of methods of each kind."""

    def __init__(self):
        torch = facade()
        nn, F = torch.nn, torch.nn.functional
        self.weighted = {nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
                         nn.Linear, *FUSED}
        self.binary = {operator.add: "add", operator.iadd: "add", torch.add: "add", "add": "add", "add_": "add",
                       operator.mul: "mul", operator.imul: "mul", torch.mul: "mul",
                       "mul": "mul", "mul_": "mul", torch.matmul: "matmul", operator.matmul: "matmul"}
        self.relu = (nn.ReLU, F.relu, torch.relu, "relu", "relu_")
        self.fixed = {nn.Sigmoid, torch.sigmoid, "sigmoid", nn.Tanh, torch.tanh, "tanh", nn.Hardsigmoid, F.hardsigmoid}
        self.own_scale = {nn.LayerNorm, nn.Hardswish, nn.ELU, nn.LeakyReLU, nn.Dropout, F.dropout}
        self.shared = {
            nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d,
            nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.Dropout2d,
            nn.Identity, nn.Flatten, nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Upsample, F.relu, "relu", "relu_",
            F.relu6, F.hardtanh, torch.clamp, "clamp", F.max_pool1d,
            F.max_pool2d, F.max_pool3d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d,
            F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.interpolate, torch.flatten,
            torch.mean, "mean", torch.reshape, "reshape", "view", "permute", torch.permute, "transpose",
            torch.transpose, "contiguous", "squeeze", torch.squeeze, "unsqueeze",
            torch.unsqueeze, "repeat", "detach", torch.cat}


@functools.cache
def table() -> Table:
    return Table()


def subject(node, modules):
    """Return the target of a node: a module's class, a function, or a method's name."""
    if node.op == "call_module":
        return type(modules[node.target])
    return node.target if node.op in ("call_function", "call_method") else None


def kind_of(node, modules) -> str:
    """The kind of a call; OTHER for what computes with floats."""
    called, known = subject(node, modules), table()
    if called is None or called is operator.getitem:
        return OTHER
    if node.op == "call_module" and called in known.weighted:
        return WEIGHTED
    if called in known.binary:
        nodes = [a for a in node.args if hasattr(a, "users")]
        return BINARY if len(nodes) == 2 else SCALAR if len(nodes) == 1 and node.args[0] in nodes and known.binary[
            called] != "matmul" else OTHER
    return (FIXED if called in known.fixed else OWN_SCALE if called in known.own_scale else SHARED
            if called in known.shared else OTHER)


def is_relu(node, modules) -> bool:
    return subject(node, modules) in table().relu
