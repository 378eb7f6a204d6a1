"""From a program of primitives to code that ``program_run`` executes: contractions by templates, the rest step by step.

The values of a program are its inputs, its fresh outputs, its temporaries, and the address of the error flag.
"""
from __future__ import annotations

import ctypes
import logging

from ..compiler.llvm import pool
from ..compiler.lower import NotLowerable
from ..compiler.pipeline import compile_graph
from ..compiler.templates.contraction import NO_EPILOGUE, bias_epilogue as row_bias
from ..compiler.templates.conv import Convolution, bias_epilogue as channel_bias, plan_conv, plan_conv_input_grad, plan_conv_weight_grad
from ..compiler.templates.matmul import Matmul, plan_matmul
from ..core.kinds import P
from ..core.meta import Meta, product
from ..core.native.memory import set_program_runner
from ..core.settings import settings
from ..graph.graph import Graph, Node, Store, nodes_in
from ..ops import prims  # noqa: F401 - declares the primitives named below
from .reference import callback

set_program_runner(pool.addresses()["program_run"])
log = logging.getLogger("rushlight.kernels")
FLAG = "flag"
LONG = 1 << 21  # multiplications from which other threads may run meanwhile


class Code:
    """Native code with what it needs to stay alive.  ``outputs``: Metas of what it writes into fresh memory."""

    def __init__(self, words, outputs, temporaries=(), keep=(), long=False):
        self.block = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self.block)
        self.outputs, self.temporaries, self.keep, self.long = list(outputs), list(temporaries), keep, long


class Place:
    """Where a value lies: a value of the program and a byte offset, seen through a Meta."""

    __slots__ = ("value", "meta", "offset")

    def __init__(self, value, meta: Meta, offset=0):
        self.value, self.meta, self.offset = value, meta, offset


class Output:
    """A result with the metadata its memory has."""

    def __init__(self, node, meta):
        self.node, self.meta = node, meta


def assemble(graph: Graph, name: str, outputs: list[Meta]) -> Code:
    """Code for a program whose fresh outputs have these Metas."""
    return Assembler(graph, name, outputs).assemble()


class Assembler:
    """Writes the steps of one program."""

    def __init__(self, graph: Graph, name: str, outputs: list[Meta]):
        self.graph, self.name, self.outputs = graph, name, outputs
        self.words, self.steps, self.temporaries, self.keep, self.long = [], 0, [], [], False
        self.places = {node: Place(k, node.meta) for k, node in enumerate(graph.inputs)}
        self.users: dict = {}
        for node in graph.nodes:
            for used in nodes_in(node.args):
                self.users.setdefault(used, []).append(node)
        fresh = iter(range(len(outputs)))
        self.targets = []  # (output, its place)
        for output in graph.outputs:
            if isinstance(output, Store):
                self.targets.append((output.node, self.places[output.into]))
            else:
                k = next(fresh)
                self.targets.append((output, Place(len(graph.inputs) + k, outputs[k])))

    def assemble(self) -> Code:
        direct = self.direct_outputs()
        done = set()
        for node in self.graph.nodes:
            if node.op.kind.name == "contract" and plannable(node):
                done |= self.contract(node, direct)
        rest = [(node, place) for node, place in self.targets if (node, place.value) not in done]
        if rest:
            self.segment(rest)
        count = len(self.graph.inputs) + len(self.outputs)
        total = count + len(self.temporaries)
        words = [total if w is FLAG else count + w.index if isinstance(w, Temporary) else w for w in self.words]
        return Code([self.steps, *words], self.outputs, self.temporaries, self.keep, self.long)

    def temporary(self, nbytes) -> "Temporary":
        self.temporaries.append(max(int(nbytes), 64))
        return Temporary(len(self.temporaries) - 1)

    # --- contractions --------------------------------------------------------------------------------------------------------
    def direct_outputs(self) -> dict:
        """Contractions that can write an output's memory themselves: root node -> the output and its place."""
        found = {}
        stores = {id(o.node) for o in self.graph.outputs if isinstance(o, Store)}
        for node, place in self.targets:
            root = node
            while root.op is P.reshape and root.meta.contiguous and root.args[0].meta.contiguous:
                root = root.args[0]
            if id(node) not in stores and place.meta.contiguous and root.op is not None and root not in found:
                found[root] = node, place
        return found

    def contract(self, node: Node, direct: dict) -> set:
        """Plans one contraction; returns the targets that it wrote."""
        root, bias = node, None
        fused = self.users.get(node, [])
        if len(fused) == 1 and fused[0].op is P.add and fused[0].args[0] is node and node not in direct:
            bias = self.bias_of(node, fused[0])
            root = fused[0] if bias is not None else node
        written = set()
        if root in direct:
            output, place = direct[root]
            target = Place(place.value, Meta.of(root.shape, root.dtype))
            written.add((output, place.value))
        else:
            target = Place(self.temporary(product(root.shape) * root.dtype.itemsize), Meta.of(root.shape, root.dtype))
        plan, operands = PLANNERS[node.op](self, node, target, bias)
        names = {name: place.value for name, place in operands.items()}
        temps = {name: self.temporary(size) for name, size in plan.temporaries.items()}
        code = plan.code({**{n: (n, None) for n in names}, **{n: (n, None) for n in temps}})
        at = 0
        while at < len(code):  # an operand's own byte offset is added to each of its slots
            head, slots = code[at:at + 4], code[at + 4:at + 4 + 2 * code[at + 3]]
            self.words += head
            for source, number in zip(slots[::2], slots[1::2]):
                if isinstance(source, tuple):
                    which = source[0]
                    self.words += [temps[which], number] if which in temps else [names[which], number + operands[which].offset]
                else:
                    self.words += [source, number]
            at += 4 + 2 * code[at + 3]
        self.steps += len(plan.steps)
        self.keep.append(plan)
        work = product(root.shape) * node.args[1].shape[-1]
        self.long = self.long or work > LONG
        self.places[root] = target
        log.debug("%s: %s by template, %d steps", self.name, node.op.name, len(plan.steps))
        return written

    def bias_of(self, node: Node, addition: Node):
        """The vector that the addition after a contraction adds to every row (channel), if it does just that."""
        other = addition.args[1]
        if not isinstance(other, Node) or addition.meta.shape != node.meta.shape or other.dtype is not node.dtype:
            return None
        if node.op is P.matmul:
            vector = other if tuple(other.shape) == (node.shape[-1],) else None
        elif node.op is P.conv and other.op is P.reshape and tuple(other.shape) == (1, node.shape[1]) + (1,) * (len(node.shape) - 2):
            vector = other.args[0] if len(other.args[0].shape) == 1 else None
        else:
            vector = None
        return vector if vector is not None and vector in self.places and self.places[vector].meta.contiguous else None

    def operand(self, node: Node, suits=lambda meta: True) -> Place:
        """Where an operand lies, as strided memory; computed into a temporary where it is not memory yet or does not suit."""
        place = self.seen(node)
        if place is None or not suits(place.meta):
            place = Place(self.temporary(product(node.shape) * node.dtype.itemsize), Meta.of(node.shape, node.dtype))
            self.segment([(node, place)])
            self.places[node] = place
        return place

    def seen(self, node: Node):
        """The place of a value that is memory already, or a view of it."""
        if node in self.places:
            return self.places[node]
        if node.op is None or node.op.kind.name != "view":
            return None
        under = self.seen(node.args[0])
        if under is None:
            return None
        found = node.op.kind.strided(node.op, under.meta, **node.params)
        if found is None:
            return None
        meta, offset = found
        return Place(under.value, meta, under.offset + offset * meta.itemsize)

    # --- everything else ---------------------------------------------------------------------------------------------------------
    def segment(self, targets):
        """Steps that compute values from what is in memory: generated kernels, or one step by NumPy where there are none."""
        needed, frontier, stack = set(), {}, [node for node, _ in targets]
        while stack:
            node = stack.pop()
            if node in self.places:
                frontier[node] = None
            elif node not in needed:
                needed.add(node)
                stack.extend(nodes_in(node.args))
        written = [self.input_at(place) for _, place in targets]  # inputs that results go into
        frontier.update(dict.fromkeys(n for n in written if n is not None))
        inputs = list(frontier)
        nodes = [n for n in self.graph.nodes if n in needed]
        part = Graph(inputs, nodes, [Store(n, w) if w is not None else n for (n, _), w in zip(targets, written)])
        if not self.kernels(part, targets, written):
            self.by_numpy(part, targets)

    def input_at(self, place: Place):
        """The program's input whose memory this is, if any."""
        if isinstance(place.value, Temporary) or place.value >= len(self.graph.inputs):
            return None
        return self.graph.inputs[place.value]

    def kernels(self, part: Graph, targets, written) -> bool:
        """Adds the steps of generated kernels; False where some primitive has none."""
        sizes = [self.places[n].meta.numel for n in part.inputs] + [place.meta.numel for _, place in targets]
        if not settings.kernels or 0 in sizes:
            return False
        fresh = [place for (_, place), into in zip(targets, written) if into is None]
        try:
            program = compile_graph(part, self.name, [place.meta for place in fresh], [self.places[n].meta for n in part.inputs])
        except NotLowerable as reason:
            log.debug("%s: by NumPy: %s", self.name, reason)
            return False
        bound = program.bind()
        values = [(self.places[n].value, self.places[n].offset) for n in part.inputs] + [(p.value, p.offset) for p in fresh]
        values += [(self.temporary(n), 0) for n in bound.temporaries] + [(FLAG, 0)]
        words, at = bound.words, 1
        while at < len(words):
            count = words[at + 3]
            self.words += words[at:at + 4]
            for source, constant in zip(words[at + 4:at + 4 + 2 * count:2], words[at + 5:at + 4 + 2 * count:2]):
                value, offset = (-1, 0) if source == -1 else values[source]
                self.words += [value, constant + offset]
            at += 4 + 2 * count
        self.steps += words[0]
        self.keep.append(program)
        self.long = self.long or max(sizes) > LONG // 16
        return True

    def by_numpy(self, part: Graph, targets):
        """One step that computes a segment by its NumPy meaning."""
        inputs = part.inputs
        kernel = callback(part, [self.places[n] for n in inputs], [place for _, place in targets])
        self.keep.append(kernel)
        slots = [(self.places[n].value, self.places[n].offset) for n in inputs] + [(p.value, p.offset) for _, p in targets] + [(FLAG, 0)]
        self.words += [ctypes.cast(kernel, ctypes.c_void_p).value, 1, 1, len(slots)]
        for value, offset in slots:
            self.words += [value, offset]
        self.steps += 1
        log.debug("%s: %d nodes by NumPy", self.name, len(part.nodes))


class Temporary:
    """The value that a temporary will be, once all values are counted."""

    def __init__(self, index):
        self.index = index


FLOATS = ("float32", "float64", "bfloat16", "float16")


def plannable(node: Node) -> bool:
    """Whether a template covers this contraction."""
    sizes = [s for n in (node, *nodes_in(node.args)) for s in n.shape]
    if node.op is P.conv_input and not windows_match(node.shape, node.args[1].shape, node.args[0].shape, node.params):
        return False
    if node.op is P.conv_weight and not windows_match(node.args[1].shape, node.shape, node.args[0].shape, node.params):
        return False
    return node.dtype.name in FLOATS and 0 not in sizes and (node.op is not P.matmul or len(node.shape) <= 5)


def windows_match(x_shape, w_shape, g_shape, p) -> bool:
    """Whether a gradient has one element for every window that fits (output padding may leave windows without)."""
    return all((size + 2 * pad - d * (k - 1) - 1) // s + 1 == n
               for size, k, n, s, pad, d in zip(x_shape[2:], w_shape[2:], g_shape[2:], p["stride"], p["padding"], p["dilation"]))


def plan_product(assembler: Assembler, node: Node, target: Place, bias):
    left, right = (assembler.operand(n) for n in node.args)
    shape = node.shape
    problem = Matmul(tuple(shape[:-2]), shape[-2], shape[-1], node.args[0].shape[-1], tuple(left.meta.strides), tuple(right.meta.strides),
                     tuple(target.meta.strides), node.dtype.name)
    operands = {"a": left, "b": right, "c": target}
    if bias is None:
        return plan_matmul(problem), operands
    return plan_matmul(problem, row_bias(node.dtype.name)), {**operands, "bias": assembler.places[bias]}


def convolution(x_shape, w_shape, x: Place, y: Place, node: Node) -> Convolution:
    p = node.params
    return Convolution(x_shape[0], x_shape[1], w_shape[0], tuple(x_shape[2:]), tuple(w_shape[2:]), p["stride"], p["padding"], p["dilation"],
                       p["groups"], node.dtype.name, tuple(x.meta.strides), tuple(y.meta.strides))


def is_contiguous(meta: Meta) -> bool:
    return meta.contiguous


def plan_forward(assembler: Assembler, node: Node, target: Place, bias):
    x, w = assembler.operand(node.args[0]), assembler.operand(node.args[1], is_contiguous)
    problem = convolution(node.args[0].shape, node.args[1].shape, x, target, node)
    operands = {"x": x, "weight": w, "y": target}
    if bias is None:
        return plan_conv(problem), operands
    return plan_conv(problem, channel_bias(node.dtype.name)), {**operands, "bias": assembler.places[bias]}


def plan_input(assembler: Assembler, node: Node, target: Place, bias):
    g, w = assembler.operand(node.args[0]), assembler.operand(node.args[1], is_contiguous)
    return plan_conv_input_grad(convolution(node.shape, node.args[1].shape, target, g, node)), {"y": g, "weight": w, "x": target}


def plan_weight(assembler: Assembler, node: Node, target: Place, bias):
    g, x = assembler.operand(node.args[0]), assembler.operand(node.args[1])
    return plan_conv_weight_grad(convolution(node.args[1].shape, node.shape, x, g, node)), {"x": x, "y": g, "weight": target}


PLANNERS = {P.matmul: plan_product, P.conv: plan_forward, P.conv_input: plan_input, P.conv_weight: plan_weight}
