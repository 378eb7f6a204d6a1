"""The pipeline from a traced call to launches: read this first.

``STAGES`` lists all stages in order. Those of ``DERIVING`` and ``PLANNING`` run once for a call, or once for all sizes
of a shape-generic plan, on a Compilation; those of ``BINDING`` run for each set of sizes, on a Binding. Each stage
documents its input and output; ``RUSHLIGHT_LOGS=stages`` shows the size of the program after each and the time it took,
and under the setting ``verify`` its output is checked.
"""
from __future__ import annotations

import time
from logging import DEBUG
from typing import Callable, NamedTuple

from ..aot.joint import active_nodes, carries_gradient, differentiate, lay_out
from ..core.devices import cpu
from ..core.kinds import P
from ..core.log import logger
from ..core.meta import Meta
from ..core.settings import settings
from ..graph import verify as check
from ..graph.graph import Graph, Node, Store, splice
from . import memory
from .assembler import Assembler
from .buckets import bucketed
from .byte_lowering import in_codes, translatable
from .complex_lowering import in_pairs
from .exchanges import overlapped
from .launch import decode
from .outline import Binding, Outline
from .partition import Partition, partition
from .products import joined_products
from .recompute import recomputed
from .residuals import ResidualBuffer, dense, worthwhile
from .simplify import simplify
from .turned import resolved

log, aot_log = logger("stages"), logger("aot")


class Compilation:
    """A program on its way through the stages, which read and replace its attributes.

    Given, for the call that was traced:
        trace, outputs, stores: the Trace, the nodes of the results, and the mutations of inputs.
        sources: the inputs whose gradients are wanted.
        into: of an in-place operator, the input that the only result replaces.
        captured: True for a captured graph: gradients get the strides of the parameters that they belong to.
        writable: True if the caller mutates the first result next, so that it cannot be a residual.
        viewing: True if the results are views: the program computes nothing, and its backward reads inputs alone.
        donated: an input that is not read afterwards, whose memory results may reuse.
        held: the addresses of inputs whose address is constant.

    Made by the stages:
        graph: the program as it is now. ``given``, ``nodes``: inputs and nodes of the trace before differentiation.
        derivative: the backward program, a Derivative; None without one.
        buffer: the residuals that share memory.
        device: the Target that it is compiled for.
        metas: the Metas of the fresh outputs; ``stored``: the same as they are stored, float8 values as their encoding.
        assembler: places, template calls and items, from the stage "place" on.
    """

    def __init__(self, name: str, trace, outputs, *, stores=(), sources=(), into: Node | None = None, captured=False,
                 writable=False, viewing=False,
                 donated: Node | None = None, held=None):
        self.name, self.trace, self.outputs, self.stores, self.sources, self.into = name, trace, list(outputs), list(
            stores), list(sources), into
        self.captured, self.writable, self.viewing, self.donated, self.held = captured, writable, viewing, donated, held
        self.given, self.nodes = list(trace.inputs), list(trace.nodes)  # before there are cotangents and gradients
        written = [Store(self.outputs[0], into)] if into is not None else [*self.outputs, *self.stores]
        self.graph = Graph(self.given, self.nodes, written)
        self.device = device_of([*trace.inputs, *self.outputs]).provider.target()
        self.derivative: Derivative | None = None
        self.buffer = ResidualBuffer()
        self.metas: list[Meta] = []
        self.stored: list[Meta] = []
        self.assembler: Assembler | None = None

    def size(self) -> str:
        if self.assembler is not None and self.assembler.items:
            return f"{len(self.assembler.items)} items"
        return f"{len(self.graph.nodes)} nodes"

    @property
    def stream(self):
        """The inputs that are the random stream's seed and position."""
        return getattr(self.trace, "stream", ())


def device_of(nodes):
    """The device on which a program computes: that of its tensors that are not on the CPU, if there is one."""
    found = [n.meta.device for n in nodes if isinstance(n.meta, Meta) and not n.weak]
    return next((where for where in found if not where.provider.on_host and where.provider.has_data), cpu)


class Derivative:
    """The backward program of a Compilation under construction.

    ``carrying``: the numbers of results that carry a gradient; ``cotangents``: the inputs for these gradients;
    ``found``: pairs of a source and its gradient.
    Later: ``whole``, the program with operators that carry their bodies; ``joint``, of primitives, with ``results`` and
    ``gradients`` in it; ``cut``; the ``backward`` program; ``again``: that from the inputs; ``lost``: inputs saved for
    it before they are written; ``extras``: residuals that the forward program returns one by one; ``at``: the index of
    the residual buffer among the residuals.
    """

    def __init__(self, carrying, cotangents, found):
        self.carrying, self.cotangents, self.found = carrying, cotangents, found
        self.again: Partition | None = None
        self.lost, self.at = [], None


class Stage(NamedTuple):
    """``run`` transforms its argument, as its docstring says (before -> after); ``verify`` raises AssertionError if
    that broke an invariant."""

    name: str
    run: Callable
    verify: Callable


# --- the backward program ---------------------------------------------------------------------------------------------
def derive(c: Compilation):
    """A traced program -> with inputs for cotangents, and gradients behind its results; unchanged where no gradient is
    wanted, or none arrives."""
    sources = [n for n in c.sources if carries_gradient(n.meta)]
    active = active_nodes(c.nodes, sources)
    carrying = [k for k, n in enumerate(c.outputs) if n in active]
    if not carrying:
        return
    cotangents = [c.trace.input(dense(c.outputs[k].meta), "g") for k in carrying]
    gradients = differentiate(c.nodes, [c.outputs[k] for k in carrying], cotangents, sources)
    found = [(s, g.node) for s, g in zip(sources, gradients) if g is not None]
    if found:
        c.derivative = Derivative(carrying, [x.node for x in cotangents], found)
        c.graph = Graph(c.trace.inputs, c.trace.nodes, [*c.outputs, *c.stores, *(g for _, g in found)])


def open_up(c: Compilation):
    """Operators that carry their bodies -> primitives, simplified by rules."""
    d, whole = c.derivative, c.graph
    if d is None:
        whole = whole.prune()
        c.graph = whole if c.trace.simple or c.viewing else simplify(splice(whole))
        return
    d.whole, c.graph = whole, simplify(splice(whole), len(c.outputs))
    first = len(c.outputs) + len(c.stores)
    d.results, d.gradients = c.graph.outputs[:len(c.outputs)], c.graph.outputs[first:]
    if c.captured:
        lay_out(c.graph, d.gradients, [s for s, _ in d.found])


def cut(c: Compilation):
    """Results and gradients in one program -> a forward program that returns residuals, too, and a backward program
    that takes them."""
    d = c.derivative
    if d is None:
        return
    joint, first = c.graph, len(c.outputs) + len(c.stores)
    gone = tuple(store.into for store in c.stores) if c.into is None else (c.into,)
    # programs write into it next, as by relu(inplace=True): other values are kept
    left = d.results[:1] if c.writable else ()
    d.joint, d.cut = joint, partition(joint, d.results, d.cotangents, d.gradients, joint.outputs[len(c.outputs):first],
                                      c.viewing, (*gone, *left))
    d.backward = simplify(d.cut.backward) if any(n.op is P.after for n in joint.nodes) else d.cut.backward
    c.graph = d.cut.forward


def derive_again(c: Compilation):
    """A backward program that reads residuals -> additionally one computed from the inputs alone by the rules of
    operators, for double backward."""
    d = c.derivative
    if d is None:
        return
    gone = [store.into for store in c.stores]
    by_results = set(d.cut.residuals) <= set(d.results)  # their history connects double backward to the inputs
    if d.cut.extras or not (gone or by_results) and c.into is None and any(n.inside is not None for n in d.whole.nodes):
        d.again = partition(d.whole, c.outputs, d.cotangents, d.whole.outputs[len(c.outputs) + len(c.stores):],
                            from_inputs=True)
        d.lost = [n for n in gone if n in d.again.residuals and n not in d.results]
    if c.into is None:
        c.graph = Graph(c.graph.inputs, c.graph.nodes, [*c.graph.outputs, *d.lost])
    else:  # the call itself keeps its previous value, with the history that double backward needs
        d.cut = d.cut.without(c.into)
        forward = d.cut.forward
        c.graph = Graph(forward.inputs, forward.nodes, [Store(forward.outputs[0], c.into), *forward.outputs[1:]])


def share_buffer(c: Compilation):
    """Residuals each in memory of their own -> many of them in one buffer, which the backward program opens."""
    d = c.derivative
    if d is None:
        return
    aot_log.debug("%s keeps (%s); its backward:\n%s", c.name, ", ".join(n.name for n in d.cut.residuals), d.backward)
    c.buffer = worthwhile(d.cut.extras) if c.into is None and not c.viewing else c.buffer
    d.extras = [*(n for n in d.cut.extras if n not in set(c.buffer.nodes)), *d.lost]
    if c.buffer:
        d.backward, d.at = c.buffer.opened(d.backward)
        before = c.graph.outputs[:len(c.outputs) + len(c.stores)]
        c.graph = Graph(c.graph.inputs, c.graph.nodes, [*before, *d.extras, *c.buffer.nodes])


# --- the program ------------------------------------------------------------------------------------------------------
def give_memory(c: Compilation):
    """Fresh outputs -> each with the Meta of the memory it gets, the residual buffer last."""
    fresh = [o for o in c.graph.outputs if not isinstance(o, Store)]
    c.metas = [dense(n.meta) for n in fresh[:len(fresh) - len(c.buffer.nodes)]] + [c.buffer.meta] * bool(c.buffer)


def recompute(c: Compilation):
    """A training step that computes its own gradients -> its backward part reads only values that are cheaper to keep
    than to recompute."""
    c.graph = recomputed(c.graph)


def join_products(c: Compilation):
    """Sums of products -> one product of joined operands, where that moves fewer bytes."""
    c.graph = joined_products(c.graph)


def resolve(c: Compilation):
    """Inputs with a conj or neg bit -> the stored values, with explicit conjugation and negation."""
    c.graph = resolved(c.graph)


def lower_complex(c: Compilation):
    """Complex numbers -> pairs of real ones, wherever a lowering rule exists."""
    c.graph = in_pairs(c.graph)


def lower_bytes(c: Compilation):
    """float8 values -> their encodings, wherever a lowering rule exists."""
    c.graph, c.stored, made = in_codes(c.graph, c.metas, c.device)
    c.donated = made.get(c.donated, c.donated)  # the RNG stream's inputs are integers, which stay
    c.held = {made.get(node, node): address for node, address in (c.held or {}).items()}


def bucket(c: Compilation):
    """Similar collectives that do not depend on each other -> one, if a setting requests it."""
    c.graph = bucketed(c.graph)


def overlap(c: Compilation):
    """Collectives in program order -> each started as soon as its input is ready, and waited for where it is first
    read."""
    c.graph = overlapped(c.graph)


def place(c: Compilation):
    """A program -> the places of its inputs, results, and views of these."""
    c.assembler = Assembler(c.graph, c.name, c.stored, c.device, c.stream, c.buffer.offsets, c.donated, c.held)
    c.assembler.outputs = c.metas


def claim(c: Compilation):
    """Contractions and other nodes with a template -> template calls, each with its prologue and epilogue."""
    c.assembler.claim()


def schedule(c: Compilation):
    """Calls -> an order of these, and which values between them are kept, computed together."""
    c.assembler.schedule()


def order_writes(c: Compilation):
    """Writes into inputs at the end -> each as soon as the old value is dead."""
    c.assembler.order_writes()


def assemble(c: Compilation):
    """A schedule -> items: template problems with the places of their operands, and kernels for the nodes between
    (``segment.py``)."""
    c.assembler.assemble()
    c.outline = Outline(c.assembler)


# --- for each set of sizes --------------------------------------------------------------------------------------------
def bind(b: Binding):
    """Items, with symbols for sizes -> Launches with numbers; templates choose blocks and kernels now."""
    b.bind()


def lay_out_memory(b: Binding):
    """Launches on temporaries -> on places in one arena, and in memory that results will overwrite."""
    b.lay_out()


def encode(b: Binding):
    """Launches -> the integers that ``program_run`` walks."""
    b.encode()


# --- invariants -------------------------------------------------------------------------------------------------------
def well_formed(name: str):
    """The check that both programs keep the rules of ``graph.verify``."""
    def verify(c: Compilation):
        check.verify(c.graph, f"{name} of {c.name}")
        if c.derivative is not None and hasattr(c.derivative, "backward"):
            check.verify(c.derivative.backward, f"{name} of the backward of {c.name}")
    return verify


def without_bytes(c: Compilation):
    """Assert that no float8 value remains that a lowering rule covers."""
    well_formed("lower bytes")(c)
    assert not translatable(c.graph), f"{c.name}: float8 values remain\n{c.graph}"


def all_computed(c: Compilation):
    """Every result has a place that an item writes, or that was there before."""
    missing = [n.name for n in c.graph.result_nodes() if n not in c.assembler.places]
    assert not missing, f"{c.name}: nothing computes {', '.join(missing)}"


def all_known(b: Binding):
    """Slots name inputs, outputs, temporaries, the stream or the error flag."""
    values = {*range(-1, len(b.outline.given) + len(b.outline.outputs)), *b.outline.stream, b.FLAG}
    for launch, label in zip(b.launches, b.labels):
        unknown = [v for v, _ in launch.slots if v not in values and not b.is_temporary(v)]
        assert not unknown, f"{b.name}: {label} reads {unknown}"


def apart(b: Binding):
    """Temporaries that live at the same time do not overlap in the arena."""
    own = [(value, at) for value, (whole, at) in b.layout.places.items() if whole == b.layout.arena
           and value not in b.layout.overlaid]
    memory.verify([b.layout.lives[value] for value, _ in own], [at for _, at in own])


def read_back(b: Binding):
    """Check that the encoded program decodes to the launches."""
    assert list(decode(b.code.block)) == b.placed, b.name


def whole(name: str, run) -> Stage:
    """A stage after which the program is a Graph that keeps the rules."""
    return Stage(name, run, well_formed(name))


CUTTING = (
    whole("derive", derive),
    whole("open", open_up),
    whole("cut", cut),
)
DERIVING = (
    *CUTTING,
    whole("derive again", derive_again),
    whole("share buffer", share_buffer),
)
PLANNING = (
    whole("give memory", give_memory),
    whole("recompute", recompute),
    whole("join products", join_products),
    whole("resolve", resolve),
    whole("lower complex", lower_complex),
    Stage("lower bytes", lower_bytes, without_bytes),
    whole("bucket", bucket),
    whole("overlap", overlap),
    whole("place", place),
    whole("claim", claim),
    whole("schedule", schedule),
    whole("order writes", order_writes),
    Stage("assemble", assemble, all_computed),
)
BINDING = (
    Stage("bind", bind, all_known),
    Stage("lay out", lay_out_memory, apart),
    Stage("encode", encode, read_back),
)
STAGES = DERIVING + PLANNING + BINDING


def run(stages, work):
    """Runs stages on a Compilation or a Binding, one after another."""
    checked, logged = settings.verify, log.isEnabledFor(DEBUG)
    for stage in stages:
        began = time.perf_counter()
        stage.run(work)
        if logged:
            log.debug("%s: %s: %s, %.2f ms", work.name, stage.name, work.size(), 1e3 * (time.perf_counter() - began))
        if checked:
            stage.verify(work)
    return work


def outlined(c: Compilation) -> Outline:
    """The shape-generic program (``Outline``) of a Compilation that has been derived."""
    return run(PLANNING, c).outline


def code_of(outline: Outline, sizes=None, mixed=False):
    """The program of an ``Outline`` for these values of its symbols; ``mixed``: large outputs may be placed among its
    temporaries, and in the donated input."""
    return run(BINDING, Binding(outline, sizes or {}, mixed)).code
