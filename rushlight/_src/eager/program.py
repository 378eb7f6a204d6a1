"""From a program of primitives to code that ``program_run`` executes: contractions by templates, the rest step by step.

The values of a program are its inputs, its fresh outputs, its temporaries, and the address of the error flag.
"""
from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import replace

from ..aot.block import dense
from ..compiler.llvm import jit, pool
from ..compiler.prologue import Prologues, shown
from ..compiler.lower import NotLowerable, obstacle
from ..compiler.overwriting import Overwriting
from ..compiler.pipeline import compile_once, fingerprint
from ..compiler.complex_lowering import in_pairs
from ..compiler.schedule import Schedule
from ..compiler.epilogue import FusedEpilogue, Epilogues
from ..compiler.turned import resolved
from ..compiler.templates.contraction import NO_EPILOGUE, Table
from ..compiler.templates.conv import Convolution, packs, plan_conv, plan_conv_input_grad, plan_conv_weight_grad, plan_pixels
from ..compiler.templates.matmul import Matmul, packings, plan_matmul
from ..core.expr import Expr, guess
from ..core.kinds import P
from ..core.log import logger
from ..core.meta import Meta, product, row_major, settled
from ..core.native.memory import set_program_runner
from ..core.settings import settings
from ..graph.graph import Graph, Node, Store, map_nodes
from ..graph.regions import counted, number_in
from ..graph.views import in_memory, is_part, through_views
from ..ops import flash, prims  # noqa: F401 - declare the primitives named below
from .layout import Layout, Parts, Temporary, spendable
from .natives import NATIVE
from .reference import address_of, callback

set_program_runner(pool.addresses()["program_run"])
log, memory_log, fusion_log = logger("kernels"), logger("memory"), logger("fusion")
FLAG = "flag"
LONG = 1 << 21  # multiplications from which other threads may run meanwhile


class Code:
    """Native code with what it needs to stay alive.  ``outputs``: Metas of what it writes into fresh memory; ``labels``: what each step
    does, for people; ``names``: those of its inputs, and of the random stream's place; ``callbacks``: the arguments of ``reference.callback``
    that made the kernel at an address; ``tables``: the arrays of which the words at some positions are addresses; ``inside``, ``reused``: outputs
    that may lie in other memory (``Layout``)."""

    def __init__(self, words, outputs, temporaries=(), keep=(), long=False, labels=(), names=((), ()), callbacks=None, tables=None, layout=None):
        self.inside, self.reused = (layout.inside, layout.reused) if layout else ((), ())
        self.labels, self.names, self.callbacks, self.tables = labels, names, callbacks or {}, tables or {}
        self.block = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self.block)
        self.outputs, self.temporaries, self.keep, self.long = list(outputs), list(temporaries), keep, long


def shown_as(node: Node, root: Node, meta: Meta) -> Meta:
    """The Meta of a view of ``root``, of which the memory is seen through ``meta``."""
    if node is root:
        return meta
    found = node.op.kind.strided(node.op, shown_as(node.args[0], root, meta), **node.params)
    return found and found[0]


class Place:
    """Where a value lies: a value of the program and a byte offset, seen through a Meta."""

    __slots__ = ("value", "meta", "offset")

    def __init__(self, value, meta: Meta, offset=0):
        self.value, self.meta, self.offset = value, meta, offset


def halves(node: Node, place: Place):
    """The parts of a complex value, each with where it goes: among those of the other."""
    for which, part in enumerate(node.args):
        meta, offset = P.half.kind.strided(P.half, place.meta, which)
        yield part, Place(place.value, meta, place.offset + offset * meta.itemsize)


IN_MEMORY = (P.half, P.complex)  # where complex numbers lie, and are written: part by part
MOST_PIECES = 8  # targets of one set of kernels, of what is joined


def assemble(graph: Graph, name: str, outputs: list[Meta], stream=(), block=(), spent: Node | None = None, held=None) -> "Outline":
    """The Outline of a program whose fresh outputs have these Metas; ``stream``: the inputs that are the random stream's seed and position.

    The last outputs lie at the byte offsets ``block`` of one output.  ``spent`` is an input that nobody reads afterwards; ``held`` are the
    addresses of inputs that are always the same: {node: address}.
    """
    return Assembler(in_pairs(resolved(graph)), name, outputs, stream, block, spent, held).assemble()


# --- what steps are made of ------------------------------------------------------------------------------------------------------
class Generated:
    """Generated kernels; ``values`` are (place, byte offset) of their inputs and outputs."""

    def __init__(self, program, bound, values, label: str):
        self.program, self.bound, self.values, self.label = program, bound, values, label

    def form(self):
        """Equal for items that differ in places only."""
        return Generated, self.program, len(self.values)

    def places(self) -> list:
        """(value, byte offset) of what it reads and writes."""
        return self.values

    def moved(self, places) -> "Generated":
        """The same on other places."""
        return Generated(self.program, self.bound, places, self.label)

    def write(self, code: "Binding"):
        bound = self.bound or self.program.bind(code.sizes)
        values = [(value, code.known(offset)) for value, offset in self.values] + [(Temporary(n), 0) for n in bound.temporaries] + [(FLAG, 0)]
        words, at = bound.words, 1
        for pairs in bound.replaceable:
            count, slots = words[at + 3], []
            for source, constant in zip(words[at + 4:at + 4 + 2 * count:2], words[at + 5:at + 4 + 2 * count:2]):
                value, offset = (-1, 0) if source == -1 else values[source]
                slots.append((value, constant + offset))
            code.step(*words[at:at + 3], slots, self.label, [(values[a], values[b]) for a, b in pairs])
            at += 4 + 2 * count
        code.keep.append(self.program)


class ByNumpy:
    """One step that computes ``part`` by its NumPy meaning; ``metas`` are those of its inputs' and outputs' memory."""

    def __init__(self, part: Graph, metas, values):
        self.part, self.metas, self.values = part, metas, values

    def form(self):
        return ByNumpy, fingerprint(self.part, *self.metas)

    def places(self) -> list:
        return self.values

    def moved(self, places) -> "ByNumpy":
        return ByNumpy(self.part, self.metas, places)

    def write(self, code: "Binding"):
        part, metas = settled_graph(self.part, code.sizes) if code.sizes else self.part, code.known(self.metas)
        kernel = callback(part, *metas)
        code.keep.append(kernel)
        address = address_of(kernel)
        code.callbacks[address] = part, *metas
        code.step(address, 1, 1, [*((value, code.known(offset)) for value, offset in self.values), (FLAG, 0)], f"NumPy: {len(part.nodes)} nodes")


class Templated:
    """The steps that ``plan(problem, *more)`` makes, a template's; ``operands`` are the Places by name."""

    def __init__(self, plan, problem, more, operands, label: str, name: str):
        self.plan, self.problem, self.more, self.operands, self.label, self.name = plan, problem, more, operands, label, name

    def form(self):
        return Templated, self.plan, self.problem, self.more, tuple((name, place.meta) for name, place in self.operands.items())

    def places(self) -> list:
        return [(place.value, place.offset) for place in self.operands.values()]

    def moved(self, places) -> "Templated":
        operands = {name: Place(value, old.meta, offset) for (name, old), (value, offset) in zip(self.operands.items(), places)}
        return Templated(self.plan, self.problem, self.more, operands, self.label, self.name)

    def write(self, code: "Binding"):
        problem, uses = code.known(self.problem), code.uses.get(self.right(code), 1)
        plan = self.plan(replace(problem, uses=uses) if uses > 1 else problem, *map(code.known, self.more))
        temporaries = {name: Temporary(size) for name, size in plan.temporaries.items()}
        fixed, unused = {}, set(temporaries.values())  # temporaries that are made once: their addresses; those that no step has used yet
        for step in plan.steps:
            slots = []
            for slot in step.slots:
                if slot[0] == "const":
                    slots.append((-1, slot[1]))
                elif slot[1] in temporaries:
                    slots.append((temporaries[slot[1]], slot[2]))
                else:
                    place = self.operands[slot[1]]
                    slots.append((place.value, slot[2] + code.known(place.offset)))
            slots = [(-1, fixed[value] + number) if value in fixed else (value, number) for value, number in slots]
            if code.outline.held and code.once(step, slots, fixed, unused):
                continue
            if step.fills and code.filled(step, slots, temporaries, unused):
                continue
            unused.difference_update(value for value, _ in slots)
            code.step(step.kernel, step.extent, step.grain, slots, self.label)
        code.keep.append(plan)
        log.debug("%s: %s by template, %d steps", code.outline.name, self.name, len(plan.steps))

    def right(self, code: "Binding"):
        """What tells the right operand of a product apart from others; None of other templates, and where the program writes into the operand."""
        p = self.problem
        if type(p) is not Matmul or p.sums[0] != 1:
            return None
        places = [(name, place.value, code.known(place.offset)) for name, place in self.operands.items() if name[0] == "b"]
        if any(value in code.outline.written for _, value, _ in places):
            return None
        return *places, code.known((p.columns, p.depth, p.batch, p.b, p.b_parts)), p.dtype, p.b_dtype, self.more[2:3]


def settled_graph(graph: Graph, sizes: dict) -> Graph:
    """The same program for these sizes."""
    env = {n: Node(n.name, None, meta=settled(n.meta, sizes), weak=n.weak) for n in graph.inputs}  # of a part of a program, what was computed before
    inputs, nodes = list(env.values()), []
    for node in graph.nodes:
        args, inside = map_nodes(settled(node.args, sizes), env.__getitem__), node.inside and settled_graph(node.inside, sizes)
        env[node] = Node(node.name, node.op, args, settled(node.params, sizes), settled(node.meta, sizes), inside, node.where, node.weak, node.constant)
        nodes.append(env[node])
    return Graph(inputs, nodes, [Store(env[o.node], env[o.into]) if isinstance(o, Store) else env[o] for o in graph.outputs])


class Assembler:
    """Decides the steps of one program: those of its calls, and between them those of the kernels that compute what is kept.

    ``homes`` tells where a value is to lie, ``places`` where it lies already.  Sizes may be symbols: what is decided holds for all sizes under
    the Facts that are noted on the way.
    """

    def __init__(self, graph: Graph, name: str, outputs: list[Meta], stream, block=(), spent=None, held=None):
        self.graph, self.name, self.outputs, self.stream, self.spent = graph, name, outputs, stream, spent
        self.items, self.work = [], []  # what is to be done in order; how many multiplications, or elements, of each
        self.given = [n for n in graph.inputs if n not in stream]
        self.held = {k: held[node] for k, node in enumerate(self.given) if node in held} if held else {}
        self.places = {node: Place(k, node.meta) for k, node in enumerate(self.given)}
        self.places.update((node, Place(node, node.meta)) for node in stream)
        self.users: dict = {}
        for node in graph.nodes:
            for used in node.used:
                self.users.setdefault(used, []).append(node)
        for node in filter(self.counts, graph.nodes):
            node.weak, place = True, self.places[number_in(node.args[0])]  # a number, of which kernels are told: those of layers are alike
            self.places[node] = Place(place.value, place.meta, node.args[1])
        fresh = [o for o in graph.outputs if not isinstance(o, Store)]
        alone = self.alone = len(fresh) - len(block)
        self.targets = [(node, Place(len(self.given) + k, outputs[k])) for k, node in enumerate(fresh[:alone])]
        self.targets += [(node, Place(len(self.given) + alone, dense(node.meta), offset)) for node, offset in zip(fresh[alone:], block)]
        self.places.update((node, self.seen(node)) for node in graph.nodes if node.op is P.part)
        self.stores = [o for o in graph.outputs if isinstance(o, Store)]
        self.results = set(graph.result_nodes())
        self.order = {node: k for k, node in enumerate(graph.nodes)}
        self.homes = self.reserve()

    def counts(self, node: Node) -> bool:
        """Whether a node is a place further on in a random stream."""
        return counted(node) is not None and all(user.op is P.random_bits or user.op in SEVERAL for user in self.users.get(node, ()))

    def assemble(self) -> "Outline":
        calls = self.calls()
        self.prologues = self.prologues_of(calls)
        plan = Schedule(self.graph, calls, self.prologues)
        pending = [o for o in self.stores if o.node not in self.homes]
        overwriting = Overwriting(plan, pending) if pending else None
        self.ends = plan.ends
        for k, ((call, fused), slot) in enumerate(zip(plan.calls.items(), plan.slots)):
            self.fill(slot)
            self.land(call, fused)
            if overwriting:
                self.overwrite(overwriting.after.get(k, ()))
        groups = overwriting.groups if overwriting else []
        alone = {node for nodes, _ in groups for node in nodes}
        self.fill([node for node in plan.slots[-1] if node not in alone])
        self.segment([(node, place) for node, place in self.targets if self.places[node].value != place.value])
        for nodes, stores in groups:
            self.fill(nodes)
            self.overwrite(stores)
        self.overwrite(self.stores)
        return Outline(self)

    def overwrite(self, stores):
        """Writes into inputs what is not there yet."""
        self.segment([(o.node, self.places[o.into]) for o in stores if self.places.get(o.node) is not self.places[o.into]])

    # --- what lies where -----------------------------------------------------------------------------------------------------------
    def reserve(self) -> dict:
        """The homes of outputs, and of what an output only shows in another shape."""
        homes: dict = {}
        for node, place in self.targets:
            homes.setdefault(node, place)
            root = through_views(node)
            meta = in_memory(root)
            if root.op is not None and root not in self.results and root.dtype is node.dtype and product(root.shape) == product(node.shape) and shown_as(node, root, meta) is place.meta:
                homes.setdefault(root, Place(place.value, meta))
        for store in self.stores:
            if store.node not in homes and self.updates(store):
                homes[store.node] = self.places[store.into]
        return homes

    def updates(self, store: Store) -> bool:
        """Whether what is stored only changes some elements of an input that nothing else reads: a cache."""
        node, into = store.node, store.into
        return node.op is not None and node.op.kind.name == "scatter" and node.args[0] is into and self.users[into] == [node] and into not in self.results

    def home(self, node: Node, suits=lambda meta: True) -> Place:
        """Where a value is to lie: an output, or a temporary in row-major order."""
        place = self.homes.get(node)
        if place is None or not suits(place.meta):
            place = Place(Temporary(product(node.shape) * node.dtype.itemsize), Meta.of(node.shape, node.dtype))
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

    def operand(self, node: Node, suits=lambda meta: True) -> Place:
        """Where an operand lies, as strided memory; computed into a temporary where it is not memory yet or does not suit."""
        place = self.seen(node)
        if place is None or not suits(place.meta):
            place = Place(Temporary(product(node.shape) * node.dtype.itemsize), Meta.of(node.shape, node.dtype))
            self.segment([(node, place)])
        return place

    def leaves(self, prologue) -> list[Place]:
        """Where the parts of an operand lie that a template computes, each seen in the operand's shape."""
        places = []
        for node, views in prologue.reads.items():
            place = self.operand(node, lambda meta: shown(meta, views) is not None)
            meta, offset = shown(place.meta, views)
            places.append(Place(place.value, meta, place.offset + offset * meta.itemsize))
        return places

    def fill(self, slot):
        """Computes the kept values of a slot, but for what is memory already under another shape."""
        wanted = []
        for node in slot:
            place, shown = self.home(node), self.seen(node)
            if shown is not None and (node not in self.homes or shown.value == place.value):
                self.places[node] = shown
            elif node.op is P.cat:
                pieces = [*wanted, *self.pieces(node, place)]
                chunk = chunk_of([n.op for n, _ in pieces])
                for first in range(0, len(pieces), chunk):  # kernels of equal chunks are one
                    self.segment(pieces[first:first + chunk])
                self.places[node], wanted = place, []
            elif self.input_at(place) is not None:
                self.segment(wanted)
                self.segment([(node, place)])
                wanted = []
            else:
                wanted.append((node, place))
                if node in self.ends:
                    self.segment(wanted)
                    wanted = []
        self.segment(wanted)

    def pieces(self, node: Node, place: Place):
        """What is joined, each piece with its part of the whole's memory."""
        dim, at, found = node.params["dim"], place.offset, []
        for piece in node.args[0]:
            found.append((piece, Place(place.value, Meta(tuple(piece.shape), place.meta.strides, node.dtype), at)))
            at += piece.shape[dim] * place.meta.strides[dim] * node.meta.itemsize
        return found

    # --- calls -----------------------------------------------------------------------------------------------------------------
    def calls(self) -> dict:
        """Contractions and what only NumPy computes, each with what its step computes along."""
        found = [n for n in self.graph.nodes if n.op.kind.name == "contract" or not is_part(n) and n.op not in IN_MEMORY and (obstacle(n) or reads_nothing(n))]
        epilogues = Epilogues(self.graph, self.users, found)
        return {node: epilogues.of(node) if node.op in WITH_EPILOGUES and plannable(node) and settings.kernels else FusedEpilogue((node,)) for node in found}

    def prologues_of(self, calls: dict) -> dict:
        """What contractions compute while they pack: {contraction: {number of an argument: its FusedPrologue}}."""
        if not settings.kernels:
            return {}
        prologues = Prologues(self.graph, self.users, calls, times_packed)
        found = {node: prologues.of(node) for node in calls if node.op in PLANNERS}
        return {node: own for node, own in found.items() if own}

    def land(self, node: Node, fused: FusedEpilogue):
        """The steps of a call."""
        if node.op.kind.name == "contract" and plannable(node):
            self.contract(node, fused)
            return
        if node.op in SEVERAL:
            self.call(node, SEVERAL[node.op], has_rows)
            return
        if node.op in NATIVE and settings.kernels and NATIVE[node.op].suits(node):
            self.call(node, NATIVE[node.op].plan, is_contiguous)
            return
        parts = [n for n in self.users.get(node, ()) if is_part(n)] if isinstance(node.meta, tuple) else [node]
        needed = {node, *parts}
        targets = [(n, self.home(n)) for n in parts]
        for used in node.used:
            if used not in self.places:
                self.places[used] = self.operand(used)
        part = Graph(list(dict.fromkeys(node.used)), [n for n in self.graph.nodes if n in needed], parts)
        self.by_numpy(part, targets)
        self.places.update(targets)

    def contract(self, node: Node, fused: FusedEpilogue):
        """Steps of a template."""
        homes = {n: self.home(n, is_contiguous) for n in fused.stored}
        output, epilogue, beside = PLANNERS[node.op].output, NO_EPILOGUE, {}
        if fused.inside:
            epilogue, names = fused.epilogue(node, output)
            beside = {name: homes.get(n) or self.operand(n, is_contiguous) for name, n in names.items()}
            fusion_log.debug("%s: %s computes %s", self.name, node.name, fused)
        root = fused.stored[0]
        prologues = self.prologues.get(node, {})
        for prologue in prologues.values():
            fusion_log.debug("%s: %s computes %s", self.name, node.name, prologue)
        plan, problem, operands = PLANNERS[node.op].plan(self, node, homes[root], root.dtype.name, prologues)
        more = (epilogue,) if prologues or node.op in WITH_EPILOGUES else ()
        if prologues:
            more += tuple(prologues[k].prologue() if k in prologues else None for k in range(PLANNERS[node.op].computed))
        after = "".join(f" and {computed}" for computed in (*prologues.values(), *([fused] if fused.inside else ())))
        self.add(node, root.shape, plan, problem, more, {**operands, **beside}, after)
        self.work.append(product(root.shape) * node.args[1].shape[-1])
        self.places.update(homes)

    def call(self, node: Node, planner, suits):
        """Steps of a template whose result may be several, each a part: attention, its gradient, and library calls with kernels of our own."""
        several = isinstance(node.meta, tuple)
        parts = [(part, part.params["index"]) for part in self.users.get(node, ())] if several else [(node, 0)]
        metas = node.meta if several else (node.meta,)
        homes = {k: self.homes[part] for part, k in parts if part in self.homes and suits(self.homes[part].meta)}
        targets = [homes.get(k) or Place(Temporary(meta.nbytes), meta) for k, meta in enumerate(metas)]
        plan, problem, operands = planner(self, node, targets)
        self.add(node, metas[0].shape, plan, problem, (), operands)
        self.work.append(64 * sum(n.meta.numel for n in node.used))
        self.places.update((part, targets[k]) for part, k in parts)

    def add(self, node: Node, shape, plan, problem, more, operands, after=""):
        """Adds the steps of a template."""
        label = f"{node.op.name} {list(shape)} {[list(n.shape) for n in node.used]}{after}"
        self.items.append(Templated(plan, problem, more, operands, label, node.op.name))

    # --- everything else ---------------------------------------------------------------------------------------------------------
    def segment(self, targets):
        """Steps that compute values from what is in memory: generated kernels, or one step by NumPy where there are none."""
        wholes = [target for target in targets if target[0].op is P.complex]
        targets = [piece for target in targets for piece in (halves(*target) if target in wholes else [target])]
        empty = [(node, place) for node, place in targets if place.meta.numel == 0]
        targets = [target for target in targets if target not in empty]
        if targets:
            needed, frontier, stack = set(), {}, [node for node, _ in targets]
            while stack:
                node = stack.pop()
                if node.op is P.half:
                    self.places.setdefault(node, self.seen(node))
                if node in self.places:
                    frontier[node] = None
                elif node not in needed:
                    needed.add(node)
                    stack.extend(node.used)
            written = [self.input_at(place) for _, place in targets]  # inputs that results go into
            frontier.update(dict.fromkeys(n for n in written if n is not None))
            nodes = sorted(needed, key=self.order.__getitem__)
            part = Graph(list(frontier), nodes, [Store(n, w) if w is not None else n for (n, _), w in zip(targets, written)])
            if not settings.kernels or not self.kernels(part, targets, written):
                self.by_numpy(part, targets)
        for node, place in [*targets, *empty, *wholes]:
            self.places.setdefault(node, place)

    def input_at(self, place: Place):
        """The program's input whose memory this is, if any; or the half of one."""
        given = self.given[place.value] if isinstance(place.value, int) and place.value < len(self.given) else None
        if given is None or given.dtype.is_complex == place.meta.dtype.is_complex:
            return given
        which = place.offset // place.meta.itemsize
        half = next((n for n in self.users.get(given, ()) if n.op is P.half and n.params["which"] == which), None)
        if half is None:
            half = Node(f"{given.name}_{which}", P.half, (given,), {"which": which}, place.meta)
            self.users.setdefault(given, []).append(half)
        self.places.setdefault(half, place)
        return half

    def kernels(self, part: Graph, targets, written) -> bool:
        """Adds the steps of generated kernels; False where some primitive has none."""
        fresh = [place for (_, place), into in zip(targets, written) if into is None]
        try:
            program, bound = compile_once(part, self.name, [place.meta for place in fresh], [self.places[n].meta for n in part.inputs])
        except NotLowerable as reason:
            log.debug("%s: by NumPy: %s", self.name, reason)
            return False
        values = [(self.places[n].value, self.places[n].offset) for n in part.inputs] + [(p.value, p.offset) for p in fresh]
        label = f"{len(part.nodes)} nodes -> " + ", ".join(f"{n.op.name if n.op else n.name} {n.meta}" for n, _ in targets)
        self.items.append(Generated(program, bound, values, label))
        self.work += [16 * size for size in (*(self.places[n].meta.numel for n in part.inputs), *(place.meta.numel for _, place in targets))]
        return True

    def by_numpy(self, part: Graph, targets):
        """One step that computes a segment by its NumPy meaning."""
        metas = [self.places[n].meta for n in part.inputs], [place.meta for _, place in targets]
        values = [(self.places[n].value, self.places[n].offset) for n in part.inputs] + [(p.value, p.offset) for _, p in targets]
        self.items.append(ByNumpy(part, metas, values))
        log.debug("%s: %d nodes by NumPy: %s", self.name, len(part.nodes), ", ".join(dict.fromkeys(n.op.name for n in part.nodes)))


def chunk_of(ops) -> int:
    """How many targets one set of kernels has: as many as may be, but whole rounds where operators come round again, so that kernels are alike."""
    def alike(length):
        return sum(a is b for a, b in zip(ops, ops[length:]))

    length = max(range(1, MOST_PIECES + 1), key=lambda n: (alike(n), -n))
    return MOST_PIECES // length * length if 2 * alike(length) > len(ops) else MOST_PIECES


class Outline:
    """A program of which all is decided but its sizes: ``code(sizes)`` makes it one that runs."""

    def __init__(self, made: Assembler):
        self.name, self.items, self.work, self.outputs, self.stream, self.given, self.held = made.name, made.items, made.work, made.outputs, made.stream, made.given, made.held
        self.written = {k for k, node in enumerate(made.given) if any(o.into is node for o in made.stores)}  # inputs that do not stay as they are
        self.spent, self.read = None, []  # the input that nobody reads afterwards, and the (offset, bytes) of what lies in it
        if made.spent is not None:
            self.spent = made.given.index(made.spent)
            self.read = [(p.params["offset"], p.meta.nbytes) for p in made.graph.nodes if p.op is P.part and p.args[0] is made.spent]
        kept = [place for _, place in made.targets if place.value == len(self.given) + made.alone]  # what lies in the last output
        self.kept, self.kept_metas = [(place.offset, place.meta.nbytes) for place in kept], [place.meta for place in kept]

    def code(self, sizes=None, mixed=False) -> Code:
        """The program for these values of its symbols; ``mixed``: large outputs may lie among its temporaries, and in what is spent."""
        return Binding(self, sizes or {}).code(mixed)


class Binding:
    """An Outline becoming Code: its steps with numbers in them, and an arena for its temporaries."""

    def __init__(self, outline: Outline, sizes: dict):
        self.outline, self.sizes = outline, sizes
        self.replaceable, self.steps, self.labels, self.keep, self.callbacks = [], [], [], [], {}  # a step: (kernel, extent, grain, [(value, number)])
        rights = [item.right(self) for item in outline.items if type(item) is Templated]
        self.uses, self.fillings = Counter(right for right in rights if right is not None), {}
        for item in outline.items:
            item.write(self)

    def known(self, value):
        """A value with numbers in place of symbols."""
        return settled(value, self.sizes) if self.sizes else value

    def step(self, kernel: int, extent: int, grain: int, slots, label: str, replaceable=()):
        """Adds a step; ``replaceable``: pairs of what it writes and of what may lie in the same place."""
        self.replaceable += [(len(self.steps), *pair) for pair in replaceable]
        self.steps.append((kernel, extent, grain, slots))
        self.labels.append(label)

    def once(self, step, slots, fixed, unused) -> bool:
        """Runs a step now that makes a temporary of nothing but inputs that are always the same: packing of known weights."""
        held = self.outline.held
        made = {value for value, _ in slots if value in unused}
        if not made or not all(value == -1 or value in made or value in held for value, _ in slots):
            return False
        for temporary in made:
            buffer = ctypes.create_string_buffer(temporary.nbytes + 64)
            self.keep.append(buffer)
            fixed[temporary] = -(-ctypes.addressof(buffer) // 64) * 64
        words = [1, step.kernel, step.extent, step.grain, len(slots)]
        for value, number in slots:
            words += -1, number + (0 if value == -1 else fixed.get(value) or held[value])
        code = (ctypes.c_int64 * len(words))(*words)
        jit.settle()
        pool.caller("program_run")(ctypes.addressof(code), ctypes.addressof(code))
        return True

    def filled(self, step, slots, temporaries: dict, unused) -> bool:
        """Whether an earlier step has filled a temporary as this one would: that is taken instead."""
        own = temporaries[step.fills]
        if any(value in unused and value is not own or value in self.outline.written for value, _ in slots):
            return False
        key = step.kernel, step.extent, tuple((None if value is own else value, number) for value, number in slots)
        temporaries[step.fills] = self.fillings.setdefault(key, own)
        return temporaries[step.fills] is not own

    def code(self, mixed: bool) -> Code:
        """The steps as words, temporaries in one arena."""
        outline, outputs = self.outline, self.known(self.outline.outputs)
        layout = Layout(self.steps, len(outline.given), outputs, self.kept(outputs), self.spent(), mixed, self.known, self.replaceable)
        size, after = layout.size, layout.arena + bool(layout.size)
        if layout.at:
            memory_log.debug("%s: %s", outline.name, layout)
        numbers = {node: after + k for k, node in enumerate(outline.stream)}
        numbers[FLAG] = after + len(outline.stream)
        words, tables = [len(self.steps)], {}
        for kernel, extent, grain, slots in self.steps:
            words += (kernel, extent, grain, len(slots))
            for value, number in slots:
                if type(number) is Table:
                    tables[len(words) + 1] = number.array
                place, offset = layout.at[value] if isinstance(value, Temporary) else (numbers.get(value, value), 0)
                words += place, number + offset
        names = tuple(n.name for n in outline.given), tuple(n.name for n in outline.stream)
        long = max(map(self.known, outline.work), default=0) > LONG
        return Code(words, outputs, [size] if size else [], self.keep, long, self.labels, names, self.callbacks, tables, layout)

    def spent(self) -> Parts | None:
        """What is read of the input that nobody reads afterwards."""
        number = self.outline.spent
        return None if number is None else Parts(number, self.known(self.outline.read), spendable(self.known(self.outline.given[number].meta.nbytes)), full=True)

    def kept(self, outputs) -> Parts | None:
        """What is written of the output that holds a block."""
        parts = self.known(self.outline.kept)
        return Parts(len(self.outline.given) + len(outputs) - 1, parts, outputs[-1].nbytes) if parts else None


def reads_nothing(node: Node) -> bool:
    """Whether a node makes elements from a tensor without any; kernels read at least one."""
    return product(node.shape) != 0 and node.op.kind.name != "join" and any(n.meta.numel == 0 for n in node.used)


FLOATS = ("float32", "float64", "bfloat16", "float16")


def plannable(node: Node) -> bool:
    """Whether a template covers this contraction."""
    sizes = [s for n in (node, *node.used) for s in n.shape]
    if node.op is P.conv_input and not windows_match(node.shape, node.args[1].shape, node.args[0].shape, node.params):
        return False
    if node.op is P.conv_weight and not windows_match(node.args[1].shape, node.shape, node.args[0].shape, node.params):
        return False
    return (node.dtype.name in FLOATS or node.op in (P.int_matmul, P.int_conv)) and 0 not in sizes and (not is_matmul(node) or len(node.shape) <= 5)


def is_matmul(node: Node) -> bool:
    return node.op in (P.matmul, P.int_matmul)


def windows_match(x_shape, w_shape, g_shape, p) -> bool:
    """Whether a gradient has one element for every window that fits (output padding may leave windows without)."""
    return all((size + 2 * pad - d * (k - 1) - 1) // s + 1 == n
               for size, k, n, s, pad, d in zip(x_shape[2:], w_shape[2:], g_shape[2:], p["stride"], p["padding"], p["dilation"]))


def plan_product(assembler: Assembler, node: Node, target: Place, dtype: str, prologues):
    shape, operands, strides, parts = node.shape, {"c": target}, [], []
    if 0 in prologues:
        shape = (*prologues[0].operand.shape[:-1], shape[-1])  # of which the rows may have several dimensions
    for k, name in enumerate("ab"):
        places = assembler.leaves(prologues[k]) if k in prologues else [assembler.operand(node.args[k])]
        operands.update({f"{name}{number}": place for number, place in enumerate(places)} if k in prologues else {name: places[0]})
        found = [(*(0,) * (len(shape) - len(place.meta.shape)), *place.meta.strides) for place in places]
        strides.append(found[0])
        parts.append(tuple((*own, 0) for own in found) if k in prologues else ())
    problem = Matmul(tuple(shape[:-2]), shape[-2], shape[-1], node.args[0].shape[-1], *strides,
                     row_major(shape), node.args[0].dtype.name, dtype, a_parts=parts[0], b_parts=parts[1])
    return plan_matmul, problem, operands


def product_packings(node: Node, number: int) -> int:
    """How often a product packs each element of an operand."""
    left, right = node.args
    sizes = [tuple(map(guess, n.shape)) for n in (node, left, right)]
    strides = [tuple(0 if size == 1 else stride for size, stride in zip(shape, row_major(shape))) for shape in sizes]
    problem = Matmul(sizes[0][:-2], *sizes[0][-2:], sizes[1][-1], strides[1], strides[2], strides[0], left.dtype.name)
    return packings(problem)[number]


def convolution(x_shape, w_shape, x, y, node: Node, x_parts=(), y_parts=()) -> Convolution:
    """The problem for these strides of x and y, and of what they are computed from."""
    p = node.params
    return Convolution(x_shape[0], x_shape[1], w_shape[0], tuple(x_shape[2:]), tuple(w_shape[2:]), p["stride"], p["padding"], p["dilation"],
                       p["groups"], node.dtype.name, tuple(x), tuple(y), x_parts, y_parts)


def images(assembler: Assembler, node: Node, number: int, name: str, prologues):
    """Where an operand of a convolution lies: ({name: Place}, its strides, the strides of what it is computed from)."""
    if number not in prologues:
        place = assembler.operand(node.args[number])
        return {name: place}, place.meta.strides, ()
    places = assembler.leaves(prologues[number])
    parts = tuple(tuple(place.meta.strides) for place in places)
    return {f"{name}{k}": place for k, place in enumerate(places)}, parts[0], parts


CONVOLVED = {P.conv: ("forward", "y", "x", "weight"), P.conv_input: ("input", "x", "y", "weight"), P.conv_weight: ("weight", "weight", "y", "x")}


def image_packings(node: Node, number: int) -> int:
    """How often a convolution packs each element of an argument; sizes that vary are left alone."""
    if any(isinstance(size, Expr) for n in (node, *node.used) for size in n.shape):
        return 0
    direction, *names = CONVOLVED[node.op]
    shapes = dict(zip(names, (node.shape, *(n.shape for n in node.args))))
    x, y = packs(direction, convolution(shapes["x"], shapes["weight"], row_major(shapes["x"]), row_major(shapes["y"]), node))
    return {"x": x, "y": y}.get(names[1 + number], 0)


def is_contiguous(meta: Meta) -> bool:
    return meta.contiguous


def plan_forward(assembler: Assembler, node: Node, target: Place, dtype: str, prologues):
    x, strides, parts = images(assembler, node, 0, "x", prologues)
    w = assembler.operand(node.args[1], is_contiguous)
    problem = convolution(node.args[0].shape, node.args[1].shape, strides, row_major(node.shape), node, x_parts=parts)
    return plan_conv, problem, {**x, "weight": w, "y": target}


def plan_input(assembler: Assembler, node: Node, target: Place, dtype: str, prologues):
    g, strides, parts = images(assembler, node, 0, "y", prologues)
    w = assembler.operand(node.args[1], is_contiguous)
    problem = convolution(node.shape, node.args[1].shape, row_major(node.shape), strides, node, y_parts=parts)
    return plan_conv_input_grad, problem, {**g, "weight": w, "x": target}


def plan_weight(assembler: Assembler, node: Node, target: Place, dtype: str, prologues):
    g, g_strides, g_parts = images(assembler, node, 0, "y", prologues)
    x, x_strides, x_parts = images(assembler, node, 1, "x", prologues)
    problem = convolution(node.args[1].shape, node.shape, x_strides, g_strides, node, x_parts, g_parts)
    return plan_conv_weight_grad, problem, {**x, **g, "weight": target}


def plan_int_conv(assembler: Assembler, node: Node, target: Place, dtype: str, prologues):
    (image, weight), p = node.args, node.params
    x, w = assembler.operand(image, lambda meta: has_rows(meta) or meta.shape[-1] == 1), assembler.operand(weight)
    x_strides, y_strides = ((strides[0], 1, *strides[1:-1]) for strides in (x.meta.strides, row_major(node.shape)))
    problem = Convolution(image.shape[0], image.shape[-1], weight.shape[0], tuple(image.shape[1:-1]), tuple(weight.shape[2:]), p["stride"], p["padding"], p["dilation"],
                          p["groups"], image.dtype.name, x_strides, y_strides, w=tuple(w.meta.strides), b_dtype=weight.dtype.name, out_dtype=dtype, border=p["border"])
    return plan_pixels, problem, {"x": x, "weight": w, "y": target}


class Planner:
    """``plan(assembler, node, target, dtype of the target, prologues)`` gives what plans a problem, the problem, and its operands; ``output`` is
    the target's name.  The first ``computed`` arguments may be computed: ``packings(node, number)`` tells how often the template packs one of
    them, 0 if it does not."""

    def __init__(self, plan, output, computed=0, packings=None):
        self.plan, self.output, self.computed, self.packings = plan, output, computed, packings


PLANNERS = {P.matmul: Planner(plan_product, "c", 2, product_packings), P.int_matmul: Planner(plan_product, "c"),
            P.conv: Planner(plan_forward, "y", 1, image_packings), P.conv_input: Planner(plan_input, "x", 1, image_packings),
            P.conv_weight: Planner(plan_weight, "weight", 2, image_packings), P.int_conv: Planner(plan_int_conv, "y")}
WITH_EPILOGUES = (P.matmul, P.int_matmul, P.conv, P.conv_input, P.int_conv)


def times_packed(node: Node, number: int) -> int:
    """How often a call's template packs each element of an argument, and so could compute it; 0 where it cannot."""
    planner = PLANNERS.get(node.op)
    return planner.packings(node, number) if planner and number < planner.computed and plannable(node) else 0


def has_rows(meta: Meta) -> bool:
    return meta.strides[-1] == 1


def stream_place(assembler: Assembler, node: Node) -> Place:
    """The Place of a number of the stream: given, or so much further."""
    if node.op is P.convert:
        return stream_place(assembler, node.args[0])
    if node.op is P.add:
        place = stream_place(assembler, node.args[0])
        return Place(place.value, place.meta, place.offset + node.args[1])
    if not node.is_scalar:
        raise AssertionError(f"{assembler.name}: {node.name}, a place in the random stream, is in memory")
    return assembler.places[node]


def attention_problem(assembler: Assembler, q, k, v, mask, blocks, captured, starts, seed, place, causal, scale, mods, drop, longest, out: Meta, **gradients):
    """The problem of attention over these nodes, and its operands."""
    from ..compiler.templates.attention import Attention

    operands = {name: assembler.operand(node, has_rows) for name, node in (("q", q), ("k", k), ("v", v))}
    kind, mask_strides = "", (0, 0, 0, 1)
    if mask is not None:
        operands["mask"] = found = assembler.operand(mask, has_rows)
        kind, mask_strides = mask.dtype.name, tuple(found.meta.strides)
    operands.update((name, assembler.operand(node, is_contiguous)) for name, node in zip(("q_starts", "k_starts"), starts))
    if drop:
        operands.update(seed=stream_place(assembler, seed), place=stream_place(assembler, place))
    (batch, heads, queries, size), (_, shared, keys, value_size) = q.shape, v.shape
    batch = starts[0].shape[0] - 1 if starts else batch
    strides = [tuple(operands[name].meta.strides) for name in "qkv"]
    if mods is not None:
        operands.update((name, assembler.operand(node, is_contiguous)) for name, node in zip(mods.names, captured))
        operands["flag"] = Place(FLAG, None)
    if blocks is not None:
        operands["blocks"] = found = assembler.operand(blocks, has_rows)
        spread = tuple(0 if size == 1 else stride for size, stride in zip(blocks.shape, found.meta.strides))
        gradients.update(blocks=spread[:3], block=mods.block)
    return Attention(batch, heads, heads // shared, queries, keys, size, value_size, *strides, tuple(out.strides), q.dtype.name, scale,
                     causal, kind, mask_strides, modification=mods and mods.template, drop=drop, longest=longest, **gradients), operands


def plan_attention(assembler: Assembler, node: Node, targets):
    from ..compiler.templates import attention

    problem, operands = attention_problem(assembler, *node.args, **node.params, out=targets[0].meta)
    return attention.plan_attention, problem, {**operands, "out": targets[0], "lse": targets[1]}


def plan_attention_gradient(assembler: Assembler, node: Node, targets):
    from ..compiler.templates import attention

    given = {name: assembler.operand(n, has_rows) for name, n in zip(("grad", "out", "lse"), node.args)}
    names = ("grad_q", "grad_k", "grad_v")
    strides = {name: tuple(place.meta.strides) for name, place in zip(("grad", *names), (given["grad"], *targets))}
    problem, operands = attention_problem(assembler, *node.args[3:], **node.params, out=given["out"].meta, **strides)
    return attention.plan_attention_backward, problem, {**operands, **given, **dict(zip(names, targets))}


SEVERAL = {P.attention: plan_attention, P.attention_gradient: plan_attention_gradient}
