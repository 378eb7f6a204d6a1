"""Matmuls and convolutions by templates."""
from __future__ import annotations

from ....core.expr import Expr
from ....core.shape_env import guess
from ....core.kinds import P
from ....core.meta import Meta, row_major
from ....graph.graph import Node
from ....ops import prims  # noqa: F401 - declares the primitives named below
from ....compiler.target import Claim
from ..templates.conv import (Convolution, packs, plan_conv, plan_conv_input_grad, plan_conv_weight_grad, plan_pixels,
                              plan_pixels_input_grad)
from ..templates.matmul import Matmul, packings, plan_matmul

FLOATS = ("float32", "float64", "bfloat16", "float16")


def plannable(node: Node) -> bool:
    """True if a template covers this contraction."""
    sizes = [s for n in (node, *node.used) for s in n.shape]
    return (windows_fit(node) and (node.dtype.name in FLOATS or node.op in (P.int_matmul, P.int_conv))
            and 0 not in sizes and (not is_matmul(node) or len(node.shape) <= 5))


def is_matmul(node: Node) -> bool:
    return node.op in (P.matmul, P.int_matmul)


def windows_fit(node: Node) -> bool:
    """True if the output gradient that a convolution's gradient reads has an element for every window."""
    if node.op is P.conv_input:
        return windows_match(node.shape, node.args[1].shape, node.args[0].shape, node.params)
    if node.op is P.conv_weight:
        return windows_match(node.args[1].shape, node.shape, node.args[0].shape, node.params)
    return True


def windows_match(x_shape, w_shape, g_shape, p) -> bool:
    """True if a gradient has one element for every window that fits (output padding may leave windows without)."""
    return all((size + 2 * pad - d * (k - 1) - 1) // s + 1 == n
               for size, k, n, s, pad, d in zip(x_shape[2:], w_shape[2:], g_shape[2:], p["stride"], p["padding"],
                                                p["dilation"]))


def plan_product(assembler, node: Node, targets, prologues):
    shape, operands, strides, parts = node.shape, {"c": targets[0]}, [], []
    if 0 in prologues:
        shape = (*prologues[0].operand.shape[:-1], shape[-1])  # its rows may have several dimensions
    for k, name in enumerate("ab"):
        places = assembler.leaves(prologues[k]) if k in prologues else [assembler.operand(node.args[k])]
        operands.update({f"{name}{number}": place for number, place in enumerate(places)} if k in prologues
                        else {name: places[0]})
        found = [(*(0,) * (len(shape) - len(place.meta.shape)), *place.meta.strides) for place in places]
        strides.append(found[0])
        parts.append(tuple((*own, 0) for own in found) if k in prologues else ())
    problem = Matmul(tuple(shape[:-2]), shape[-2], shape[-1], node.args[0].shape[-1], *strides,
                     row_major(shape), node.args[0].dtype.name, targets[0].meta.dtype.name, b_dtype=other_sign(node),
                     a_parts=parts[0], b_parts=parts[1])
    return plan_matmul, problem, operands


def other_sign(node: Node) -> str:
    """The dtype of a matmul's second operand if it is an 8-bit integer of the other signedness than the first."""
    first, second = (n.dtype for n in node.args)
    return "" if first is second else second.name


def product_packings(node: Node, number: int) -> int:
    """Return how often a matmul packs each element of an operand."""
    left, right = node.args
    sizes = [tuple(map(guess, n.shape)) for n in (node, left, right)]
    strides = [tuple(0 if size == 1 else stride for size, stride in zip(shape, row_major(shape))) for shape in sizes]
    problem = Matmul(sizes[0][:-2], *sizes[0][-2:], sizes[1][-1], strides[1], strides[2], strides[0], left.dtype.name)
    return packings(problem)[number]


def convolution(x_shape, w_shape, x, y, node: Node, x_parts=(), y_parts=()) -> Convolution:
    """The problem for these strides of x and y, and of the parts that compute them."""
    p = node.params
    return Convolution(x_shape[0], x_shape[1], w_shape[0], tuple(x_shape[2:]), tuple(w_shape[2:]), p["stride"],
                       p["padding"], p["dilation"],
                       p["groups"], node.dtype.name, tuple(x), tuple(y), x_parts, y_parts)


def images(assembler, node: Node, number: int, name: str, prologues):
    """The location of a convolution's operand: ({name: Place}, its strides, the strides of the parts of its
    Prologue)."""
    if number not in prologues:
        # the depthwise template reads rows of pixels
        alone = node.params["groups"] > 1 and node.params["groups"] == node.args[number].shape[1]
        place = assembler.operand(node.args[number], is_contiguous) if alone else assembler.operand(node.args[number])
        return {name: place}, place.meta.strides, ()
    places = assembler.leaves(prologues[number])
    parts = tuple(tuple(place.meta.strides) for place in places)
    return {f"{name}{k}": place for k, place in enumerate(places)}, parts[0], parts


CONVOLVED = {P.conv: ("forward", "y", "x", "weight"), P.conv_input: ("input", "x", "y", "weight"),
             P.conv_weight: ("weight", "weight", "y", "x")}


def image_packings(node: Node, number: int) -> int:
    """Return how often a convolution packs each element of an argument; 0 for dynamic shapes."""
    if any(isinstance(size, Expr) for n in (node, *node.used) for size in n.shape):
        return 0
    direction, *names = CONVOLVED[node.op]
    shapes = dict(zip(names, (node.shape, *(n.shape for n in node.args))))
    x, y = packs(direction, convolution(shapes["x"], shapes["weight"], row_major(shapes["x"]), row_major(shapes["y"]),
                                        node))
    return {"x": x, "y": y}.get(names[1 + number], 0)


def has_rows(meta: Meta) -> bool:
    return meta.strides[-1] == 1


def is_contiguous(meta: Meta) -> bool:
    return meta.contiguous


def plan_forward(assembler, node: Node, targets, prologues):
    x, strides, parts = images(assembler, node, 0, "x", prologues)
    w = assembler.operand(node.args[1], is_contiguous)
    problem = convolution(node.args[0].shape, node.args[1].shape, strides, row_major(node.shape), node, x_parts=parts)
    return plan_conv, problem, {**x, "weight": w, "y": targets[0]}


def plan_input(assembler, node: Node, targets, prologues):
    g, strides, parts = images(assembler, node, 0, "y", prologues)
    w = assembler.operand(node.args[1], is_contiguous)
    problem = convolution(node.shape, node.args[1].shape, row_major(node.shape), strides, node, y_parts=parts)
    return plan_conv_input_grad, problem, {**g, "weight": w, "x": targets[0]}


def plan_weight(assembler, node: Node, targets, prologues):
    g, g_strides, g_parts = images(assembler, node, 0, "y", prologues)
    x, x_strides, x_parts = images(assembler, node, 1, "x", prologues)
    problem = convolution(node.args[1].shape, node.shape, x_strides, g_strides, node, x_parts, g_parts)
    return plan_conv_weight_grad, problem, {**x, **g, "weight": targets[0]}


def plan_last(assembler, node: Node, targets, prologues):
    """Plan a channels-last convolution, or its gradient of the input."""
    (image, weight), p = node.args, node.params
    given, w = assembler.operand(image, lambda meta: has_rows(meta) or meta.shape[-1] == 1), assembler.operand(weight)
    backward = node.op is P.conv_last_input
    shape, names = (node.shape, "yx") if backward else (image.shape, "xy")
    strides = dict(zip(names, ((own[0], 1, *own[1:-1]) for own in (given.meta.strides, row_major(node.shape)))))
    problem = Convolution(shape[0], shape[-1], weight.shape[0], tuple(shape[1:-1]), tuple(weight.shape[2:]),
                          p["stride"], p["padding"],
                          p["dilation"], p["groups"], image.dtype.name, **strides, w=tuple(w.meta.strides),
                          b_dtype=other_sign(node),
                          out_dtype=targets[0].meta.dtype.name, border=p.get("border", 0))
    plan = plan_pixels_input_grad if backward else plan_pixels
    return plan, problem, {names[0]: given, "weight": w, names[1]: targets[0]}


def extended(name: str, plan, computed=0, packings=None) -> Claim:
    """A contraction whose template computes an epilogue along with the result of this name."""
    return Claim(plannable, plan, is_contiguous, name, computed, packings, heavy=True)


CONTRACTIONS = {P.matmul: extended("c", plan_product, 2, product_packings), P.int_matmul: extended("c", plan_product),
                P.conv: extended("y", plan_forward, 1, image_packings),
                P.conv_input: extended("x", plan_input, 1, image_packings),
                P.conv_weight: Claim(plannable, plan_weight, is_contiguous, "", 2, image_packings, heavy=True),
                P.int_conv: extended("y", plan_last),
                P.conv_last: extended("y", plan_last), P.conv_last_input: extended("x", plan_last)}
