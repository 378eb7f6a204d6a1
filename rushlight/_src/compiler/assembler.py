"""Convert a scheduled program of primitives into items in execution order: template calls, and generated kernels for
the nodes between them.

The values of a program are its inputs, its fresh outputs, its temporaries, and the address of the error flag.
"""
from __future__ import annotations

from ..core.kinds import P
from ..core.log import logger
from ..core.meta import Meta, product
from ..core.settings import settings
from ..graph.graph import Graph, Node, Store
from ..graph.regions import counted, number_in
from ..graph.views import in_memory, is_part, through_views
from ..ops import flash, prims  # noqa: F401 - declare the primitives named below
from .counts import multiplications
from .epilogue import Epilogues, FusedEpilogue
from .items import ByNumpy, Generated, Templated
from .lower import NotLowerable, obstacle
from .overwriting import Overwriting
from .places import IN_MEMORY, Place, Temporary, components, shown_as
from .prologue import Prologues, shown
from .residuals import dense
from .schedule import Schedule
from .segment import compile_once
from .target import Claim, Target

log, fusion_log = logger("kernels"), logger("fusion")
DRAWING = (P.random_bits, P.attention, P.attention_gradient)  # these advance the RNG offset
MOST_PIECES = 8  # targets of one set of kernels, for a concatenation


class Assembler:
    """Decides the steps of one program: its template calls, and the kernels between them that compute the stored
    values.

    ``homes``: the place that a value will get; ``places``: the place that a value has. Sizes may be symbols: decisions
    hold for all sizes under the guards that the active ShapeEnv records.
    """

    def __init__(self, graph: Graph, name: str, outputs: list[Meta], target: Target, stream=(), residuals=(),
                 donated=None,
                 held=None):
        self.target, self.graph, self.name, self.outputs = target, graph, name, outputs
        self.stream, self.donated = stream, donated
        self.items, self.work = [], []  # items in execution order; multiplications, or elements, of each
        self.given = [n for n in graph.inputs if n not in stream]
        self.held = {k: held[node] for k, node in enumerate(self.given) if node in held} if held else {}
        self.places = {node: Place(k, node.meta) for k, node in enumerate(self.given)}
        self.places.update((node, Place(node, node.meta)) for node in stream)
        self.users: dict = {}
        for node in graph.nodes:
            for used in node.used:
                self.users.setdefault(used, []).append(node)
        for node in filter(self.counts, graph.nodes):
            # a scalar passed to kernels, so that the kernels of repeated layers are equal
            node.weak, place = True, self.places[number_in(node.args[0])]
            self.places[node] = Place(place.value, place.meta, node.args[1])
        fresh = [o for o in graph.outputs if not isinstance(o, Store)]
        alone = self.alone = len(fresh) - len(residuals)
        self.targets = [(node, Place(len(self.given) + k, outputs[k])) for k, node in enumerate(fresh[:alone])]
        self.targets += [(node, Place(len(self.given) + alone, dense(node.meta), offset))
                         for node, offset in zip(fresh[alone:], residuals)]
        self.places.update((node, self.seen(node)) for node in graph.nodes if node.op is P.part)
        self.stores = [o for o in graph.outputs if isinstance(o, Store)]
        self.results = set(graph.result_nodes())
        self.order = {node: k for k, node in enumerate(graph.nodes)}
        self.homes = self.reserve()

    def counts(self, node: Node) -> bool:
        """True if a node only advances an RNG offset."""
        return counted(node) is not None and all(user.op in DRAWING for user in self.users.get(node, ()))

    def claim(self):
        """Decides which nodes templates compute, and with which prologues and epilogues."""
        self.claimed = self.calls()
        self.prologues = self.prologues_of(self.claimed)

    def schedule(self):
        """Decides which values are kept, in which order, and computed together."""
        self.plan = Schedule(self.graph, self.claimed, self.prologues)
        self.ends = self.plan.ends

    def order_writes(self):
        """Decides after which call each input is overwritten."""
        pending = [o for o in self.stores if o.node not in self.homes]
        self.overwriting = Overwriting(self.plan, pending) if pending else None

    def assemble(self):
        """Makes the items."""
        plan, overwriting = self.plan, self.overwriting
        for k, ((call, fused), group) in enumerate(zip(plan.calls.items(), plan.groups)):
            self.fill(group)
            self.land(call, fused)
            if overwriting:
                self.overwrite(overwriting.after.get(k, ()))
        groups = overwriting.groups if overwriting else []
        alone = {node for nodes, _ in groups for node in nodes}
        self.fill([node for node in plan.groups[-1] if node not in alone])
        self.segment([(node, place) for node, place in self.targets if self.places[node].value != place.value])
        for nodes, stores in groups:
            self.fill(nodes)
            self.overwrite(stores)
        self.overwrite(self.stores)

    def overwrite(self, stores):
        """Writes the stored values into their inputs, except those that were computed there."""
        self.segment([(o.node, self.places[o.into]) for o in stores
                      if self.places.get(o.node) is not self.places[o.into]])

    # --- places -------------------------------------------------------------------------------------------------------
    def reserve(self) -> dict:
        """The places of outputs, and of values that an output views with another shape."""
        homes: dict = {}
        for node, place in self.targets:
            homes.setdefault(node, place)
            root = through_views(node)
            meta = in_memory(root)
            if root.op is not None and root not in self.results and root.dtype.name == node.dtype.name and product(
                    root.shape) == product(node.shape) and shown_as(node, root, meta) is place.meta:
                homes.setdefault(root, Place(place.value, meta))
        for store in self.stores:
            if store.node not in homes and self.updates(store):
                homes[store.node] = self.places[store.into]
        return homes

    def updates(self, store: Store) -> bool:
        """True if a store changes only some elements of an input that nothing else reads, such as a KV cache."""
        node, into = store.node, store.into
        return node.op is not None and node.op.kind.name == "scatter" and node.args[0] is into and self.users[into] == [
            node] and into not in self.results

    def home(self, node: Node, suits=lambda meta: True) -> Place:
        """The place that a value will get: an output, or a row-major temporary."""
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
        """The place of an operand in strided memory; computed into a temporary if it is not in memory yet or does not
        suit."""
        place = self.seen(node)
        if place is None or not suits(place.meta):
            place = Place(Temporary(product(node.shape) * node.dtype.itemsize), Meta.of(node.shape, node.dtype))
            self.segment([(node, place)])
        return place

    def leaves(self, prologue) -> list[Place]:
        """The places of the tensors from which a prologue computes an operand, each as a view of the operand's
        shape."""
        places = []
        for node, views in prologue.reads.items():
            place = self.operand(node, lambda meta: shown(meta, views) is not None)
            meta, offset = shown(place.meta, views)
            places.append(Place(place.value, meta, place.offset + offset * meta.itemsize))
        return places

    def fill(self, group):
        """Compute the materialized values of a fusion group, except those that are already in memory under another
        shape."""
        wanted = []
        for node in group:
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
                    self.segments(wanted)
                    wanted = []
        self.segments(wanted)

    def segments(self, wanted):
        """Computes values in order, by several kernels where they are many."""
        chunk = chunk_of([n.op for n, _ in wanted])
        for first in range(0, len(wanted), chunk):  # kernels of equal chunks are one
            self.segment(wanted[first:first + chunk])

    def pieces(self, node: Node, place: Place):
        """The operands of a concatenation, each with its part of the result's memory."""
        dim, at, found = node.params["dim"], place.offset, []
        for piece in node.args[0]:
            found.append((piece, Place(place.value, Meta(tuple(piece.shape), place.meta.strides, node.dtype), at)))
            at += piece.shape[dim] * place.meta.strides[dim] * node.meta.itemsize
        return found

    # --- calls --------------------------------------------------------------------------------------------------------
    def calls(self) -> dict:
        """The nodes with a step of their own (template calls, and operators that only NumPy implements), each with its
        FusedEpilogue."""
        found = [n for n in self.graph.nodes if n.op.kind.name == "contract" or not is_part(n)
                 and n.op not in IN_MEMORY and (obstacle(n) or reads_nothing(n))]
        self.claims = {node: claim for node in found if (claim := self.target.claim(node))
                       and (settings.kernels or claim.heavy)}
        epilogues = Epilogues(self.graph, self.users, found)
        return {node: epilogues.of(node) if node in self.claims and self.claims[node].output and settings.kernels
                else FusedEpilogue((node,)) for node in found}

    def times_packed(self, node: Node, number: int) -> int:
        """How often a call's template packs each element of an argument; 0 where it does not, or there is none."""
        claim = self.claims.get(node)
        return claim.times_packed(node, number) if claim else 0

    def prologues_of(self, calls: dict) -> dict:
        """The prologues of contractions: {contraction: {number of an argument: its FusedPrologue}}."""
        if not settings.kernels:
            return {}
        prologues = Prologues(self.graph, self.users, calls, self.times_packed)
        found = {node: prologues.of(node) for node in calls if node in self.claims and self.claims[node].computed}
        return {node: own for node, own in found.items() if own}

    def land(self, node: Node, fused: FusedEpilogue):
        """Adds the items of a node with a step of its own: by its template, else by NumPy."""
        claim = self.claims.get(node)
        if claim is not None:
            (self.contract if claim.output or claim.computed else self.call)(node, claim, fused)
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

    def contract(self, node: Node, claim: Claim, fused: FusedEpilogue):
        """Adds the items of a template call that may have a prologue and an epilogue."""
        homes = {n: self.home(n, claim.lies) for n in fused.stored}
        epilogue, names = fused.emitted(node, claim.output, self.target)
        beside = {name: homes.get(n) or self.operand(n, claim.lies) for name, n in names.items()}
        root, prologues = fused.stored[0], self.prologues.get(node, {})
        along = (*prologues.values(), *([fused] if fused.inside else ()))
        for computed in along:
            fusion_log.debug("%s: %s computes %s", self.name, node.name, computed)
        plan, problem, operands = claim.plan(self, node, [homes[root]], prologues)
        more = (epilogue,) if prologues or claim.output else ()
        if prologues:
            more += tuple(prologues[k].emitted(self.target) if k in prologues else None for k in range(claim.computed))
        after = "".join(f" and {computed}" for computed in along)
        self.add(node, root.shape, plan, problem, more, {**operands, **beside}, after)
        self.work.append(multiplications(node))
        self.places.update(homes)

    def call(self, node: Node, claim: Claim, fused: FusedEpilogue):
        """Adds the items of a template call with one result or several: attention, its gradient, and library calls with
        kernels of our own."""
        several = isinstance(node.meta, tuple)
        parts = [(part, part.params["index"]) for part in self.users.get(node, ())] if several else [(node, 0)]
        metas = node.meta if several else (node.meta,)
        homes = {k: self.homes[part] for part, k in parts if part in self.homes and claim.lies(self.homes[part].meta)}
        targets = [homes.get(k) or Place(Temporary(meta.nbytes), meta) for k, meta in enumerate(metas)]
        plan, problem, operands = claim.plan(self, node, targets, {})
        self.add(node, metas[0].shape, plan, problem, (), operands)
        self.work.append(64 * sum(n.meta.numel for n in node.used))
        self.places.update((part, targets[k]) for part, k in parts)

    def add(self, node: Node, shape, plan, problem, more, operands, after=""):
        """Adds the steps of a template."""
        label = f"{node.op.name} {list(shape)} {[list(n.shape) for n in node.used]}{after}"
        self.items.append(Templated(plan, problem, more, operands, label, node.op.name))

    # --- everything else ----------------------------------------------------------------------------------------------
    def segment(self, targets):
        """Add steps that compute values from values in memory: generated kernels, or one NumPy step if there are
        none."""
        wholes = [target for target in targets if target[0].op is P.complex]
        targets = [piece for target in targets for piece in (components(*target) if target in wholes else [target])]
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
            part = Graph(list(frontier), nodes,
                         [Store(n, w) if w is not None else n for (n, _), w in zip(targets, written)])
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
            program, bound = compile_once(self.target, part, self.name, [place.meta for place in fresh],
                                          [self.places[n].meta for n in part.inputs])
        except NotLowerable as reason:
            log.debug("%s: by NumPy: %s", self.name, reason)
            return False
        values = [(self.places[n].value, self.places[n].offset) for n in part.inputs] + [(p.value, p.offset)
                                                                                         for p in fresh]
        label = f"{len(part.nodes)} nodes -> " + ", ".join(f"{n.op.name if n.op else n.name} {n.meta}"
                                                           for n, _ in targets)
        self.items.append(Generated(program, bound, values, label))
        self.work += [16 * size for size in (*(self.places[n].meta.numel for n in part.inputs),
                                             *(place.meta.numel for _, place in targets))]
        return True

    def by_numpy(self, part: Graph, targets):
        """One step that computes a segment by the NumPy reference implementation."""
        metas = [self.places[n].meta for n in part.inputs], [place.meta for _, place in targets]
        values = [(self.places[n].value, self.places[n].offset) for n in part.inputs] + [(p.value, p.offset)
                                                                                         for _, p in targets]
        self.items.append(ByNumpy(part, metas, values))
        log.debug("%s: %d nodes by NumPy: %s", self.name, len(part.nodes),
                  ", ".join(dict.fromkeys(n.op.name for n in part.nodes)))


def chunk_of(ops) -> int:
    """How many targets are compiled into one set of kernels: as many as are allowed, rounded down to whole repetitions
    of a pattern of operators that repeats, so that the sets have equal kernels."""
    def alike(length):
        return sum(a is b for a, b in zip(ops, ops[length:]))

    length = max(range(1, MOST_PIECES + 1), key=lambda n: (alike(n), -n))
    return MOST_PIECES // length * length if 2 * alike(length) > len(ops) else MOST_PIECES


def reads_nothing(node: Node) -> bool:
    """True if a node makes elements from a tensor without any; kernels read at least one."""
    return product(node.shape) != 0 and node.op.kind.name != "join" and any(n.meta.numel == 0 for n in node.used)
