"""Group nodes into kernels: a cluster is a domain of indices with reductions and stores over it.

Softmax, layer norm and cross entropy come out as one cluster each: every reduction over the same dimensions of the same
shape joins, as do elementwise results of that shape or of the rows' shape.
"""
from __future__ import annotations

from ..core import expr
from ..core.dtypes import float32, float64
from ..core.expr import Expr, index
from ..core.meta import is_one, row_major
from ..graph.graph import Node, nodes_in
from .kernel import Buffer, Kernel, KernelStage, Reduction, StoreTo, walk
from .math import COSTLY
from .lower import BufferView, Misaligned, Reader, same_shape, squeezed


class Cluster:
    """``shape`` with ``dims`` reduced; ``position`` is one index of it, ``row`` the same with 0 where reduced."""

    def __init__(self, shape, dims):
        self.shape, self.dims = tuple(shape), frozenset(dims)
        self.position = tuple(0 if is_one(s) else index(f"x{k}", s) for k, s in enumerate(self.shape))
        self.row = tuple(0 if k in self.dims else i for k, i in enumerate(self.position))
        self.row_shape = tuple(1 if k in self.dims else s for k, s in enumerate(self.shape))
        # reductions: (level, Reduction); stores: (level, whole, StoreTo)
        self.results, self.reductions, self.stores = {}, [], []
        self.levels = {}
        self.serial = False
        self.updates = []
        self.scan = None  # (Reduction, StoreTo): a running result

    def level(self, e: Expr) -> int:
        """The number of the first stage in which ``e`` can be computed."""
        return max((self.levels[x] for x in e.free if x.op == "result"), default=0)

    def reduce(self, node: Node, value: Expr):
        """Adds a reduction; its result is available one level later."""
        result = Expr("result", (), (f"r{len(self.reductions)}",), node.dtype)
        level = self.level(value)
        self.levels[result] = level + 1
        combine, at = node.op.kind.combine, None
        if combine.startswith("arg"):
            at = 0
            for k in sorted(self.dims):
                at = at * self.shape[k] + self.position[k]
        self.reductions.append((level, Reduction(result, combine, value, at if at is None else expr.const(at))))
        self.results[node] = (result, self.row)

    def store(self, buffer: Buffer, at, value: Expr, whole: bool):
        self.stores.append((self.level(value), whole, StoreTo(buffer, expr.const(at), value)))

    def store_costly_parts(self):
        """For softmax: stores the exponentials that the sum needs in the output's row, where they are only scaled
        later."""
        for level, whole, s in list(self.stores):
            if not whole or level == 0 or s.buffer.kind == "input" or sum(o.buffer is s.buffer
                                                                          for _, _, o in self.stores) > 1:
                continue
            summed = {e: at for at, r in self.reductions if at < level for e in walk_all(r.value)}
            found = next((e for e in walk_all(s.value) if e.op in COSTLY and e.dtype is s.buffer.dtype and e in summed),
                         None)
            if found is not None:
                self.stores.append((summed[found], True, StoreTo(s.buffer, s.at, found)))
                kept = expr.load(s.buffer, expr.plain(s.at), found.dtype)
                s.value = expr.substitute(s.value, {found: kept})

    def update_kernel(self, outer, loops) -> Kernel:
        """Updates one after the other; vectors along the last dimension that is not indexed, if it is the innermost."""
        last = self.position[-1] if self.position else 0
        stage = KernelStage(loops, [], self.updates)
        if any(last is i for i in outer):
            return Kernel(tuple(i for i in outer if i is not last), last, [stage], flag=True)
        return Kernel(outer, None, [stage], serial=True, flag=True)

    @property
    def closed(self) -> bool:
        """True if no further node may join the cluster."""
        return bool(self.updates or self.scan)

    def kernel(self) -> Kernel:
        """Stages by level: a loop over the reduced dimensions, then the stores that run once a row."""
        outer = tuple(i for k, i in enumerate(self.position) if isinstance(i, Expr) and k not in self.dims)
        loops = tuple(i for k, i in enumerate(self.position) if isinstance(i, Expr) and k in self.dims)
        if self.updates:
            return self.update_kernel(outer, loops)
        if self.scan:
            reduction, store = self.scan
            stages = [KernelStage(loops, [reduction], [store])]
            return Kernel(outer, None, stages, flag=may_fail(stages))
        self.store_costly_parts()
        stages = []
        last = max([level for level, *_ in self.reductions + self.stores], default=0)
        for level in range(last + 1):
            inner = KernelStage(loops, [r for at, r in self.reductions if at == level],
                          [s for at, whole, s in self.stores if at == level and whole])
            if inner.reductions or inner.stores:
                stages.append(inner)
            rows = [s for at, whole, s in self.stores if at == level + 1 and not whole]
            rows += [s for at, whole, s in self.stores if at == 0 and not whole] if level == 0 else []
            if rows:
                stages.append(KernelStage((), [], rows))
        tail = [s for at, whole, s in self.stores if at == last + 1 and not whole]
        if tail and not any(s is tail[0] for st in stages for s in st.stores):
            stages.append(KernelStage((), [], tail))
        return Kernel(outer, None, stages, flag=may_fail(stages))


def may_fail(stages) -> bool:
    """True if stages read at data-dependent positions, which may be out of range, or divide by a value that may be
    0."""
    return any(isinstance(e, Expr) and not e.operations.isdisjoint(("position", "divisor"))
               for s in stages for e in s.exprs())


def walk_all(e: Expr):
    """Every part of an Expr, outermost first."""
    seen, queue = set(), [e]
    for one in queue:
        if one not in seen:
            seen.add(one)
            yield one
            queue.extend(one.args)


class Fuser:
    """Places every root (reduction, scatter, output) in a cluster, in the program's order."""

    def __init__(self, reader: Reader, new_temporary):
        self.reader, self.clusters, self.home, self.new_temporary = reader, [], {}, new_temporary

    # -- finding a cluster ---------------------------------------------------------------------------------------------

    def enter(self, cluster: Cluster):
        """Make this the current cluster: its reductions are read as their results."""
        self.reader.results = {n: found for c in self.clusters for n, found in c.results.items()} | cluster.results
        self.current = cluster
        self.reader.reset()

    def read(self, cluster: Cluster, node: Node, at, argument=None):
        """The element of a node in this cluster, or None if it needs another cluster's reductions that are not in
        memory yet."""
        self.enter(cluster)
        foreign = {n for c in self.clusters if c is not cluster for n in c.results if n not in self.reader.places}
        for n in foreign:
            self.reader.results[n] = (None, ("elsewhere",))
        return self.reader.read(node, at)

    def value(self, cluster: Cluster, node: Node, at):
        """The element of a node for a new cluster; reductions of other clusters are stored in memory where it needs
        them."""
        while True:
            try:
                return self.read(cluster, node, at)
            except Misaligned as wanted:
                if wanted.node in cluster.results:
                    return None
                self.keep(wanted.node)

    def place(self, shape, dims, node, fits):
        """(cluster, index, value): the latest cluster where the node's element can be computed, or a new one."""
        for cluster in reversed(self.clusters):
            at = fits(cluster)
            if at is not None:
                try:
                    value = self.read(cluster, node, at)
                    if self.available(cluster, value):
                        return cluster, at, value
                except Misaligned as wanted:
                    if wanted.node not in cluster.results and self.order(wanted.node) < self.clusters.index(cluster):
                        self.keep(wanted.node)
                        value = self.value(cluster, node, at)
                        if value is not None and self.available(cluster, value):
                            return cluster, at, value
            if self.needs(node) & set(cluster.results) or self.reads_from(cluster, node):
                break
        cluster = Cluster(shape, dims)
        self.clusters.append(cluster)
        return cluster, cluster.position, self.value(cluster, node, cluster.position)

    def available(self, cluster, value) -> bool:
        """True if all temporaries read are written by earlier clusters."""
        limit = self.clusters.index(cluster)
        return all(self.clusters.index(self.home[load.arg]) < limit for load in walk(value, "load")
                   if load.arg.kind != "input" and load.arg in self.home)

    def order(self, node):
        return next(k for k, c in enumerate(self.clusters) if node in c.results)

    def needs(self, node):
        """Reductions and stored nodes below a node."""
        seen, stack = set(), [node]
        while stack:
            for n in nodes_in(stack.pop().args):
                if n not in seen:
                    seen.add(n)
                    if n not in self.reader.places:
                        stack.append(n)
        return seen

    def reads_from(self, cluster, node) -> bool:
        """True if the node reads memory that the cluster writes."""
        written = {s.buffer for s in (*(s for _, _, s in cluster.stores), *cluster.updates, *(cluster.scan or ())[1:])}
        places = (self.reader.places.get(n) for n in (node, *self.needs(node)))
        return any(isinstance(p, BufferView) and p.buffer in written and p.buffer.kind != "input" for p in places)

    def keep(self, node: Node):
        """Stores a reduction's result in memory."""
        cluster = next(c for c in self.clusters if node in c.results)
        result, at = cluster.results[node]
        buffer = self.new_temporary(node)
        place = BufferView(buffer, row_major(node.shape))
        cluster.store(buffer, place.at(at), result, whole=False)
        self.reader.places[node] = place
        self.home[buffer] = cluster

    # -- roots ---------------------------------------------------------------------------------------------------------

    def reduction(self, node: Node):
        x, dims = node.args[0], frozenset(node.params["dims"])
        kept = frozenset(k for k in dims if not is_one(x.shape[k]))

        def fits(c):
            if c.closed:
                return None
            own = frozenset(k for k in c.dims if not is_one(c.shape[k]))
            return c.position if same_shape(c.shape, x.shape) and (own == kept or not c.results and not c.dims
                                                                   and self.joins(c, kept)) else None

        cluster, _, value = self.place(x.shape, dims, x, fits)
        if not cluster.results and cluster.dims != dims:
            self.narrow(cluster, dims)
        cluster.reduce(node, expr.as_stored(value))

    def joins(self, cluster, dims) -> bool:
        """True if a cluster that only stores elements may also reduce."""
        return bool(dims) and not cluster.closed and all(whole for _, whole, _ in cluster.stores)

    def narrow(self, cluster, dims):
        """A cluster of elementwise stores takes on reduced dimensions."""
        cluster.dims = frozenset(dims)
        cluster.row = tuple(0 if k in dims else i for k, i in enumerate(cluster.position))
        cluster.row_shape = tuple(1 if k in dims else s for k, s in enumerate(cluster.shape))

    def update(self, node: Node, place: BufferView, shape, indexed):
        """Scatter a source into a place: a cluster of its own, whose loops run over the indexed dimensions in order."""
        x, positions, source = node.args[:3]
        cluster = Cluster(shape, indexed)
        self.clusters.append(cluster)
        index = cluster.position
        value = self.value(cluster, source, index)
        at = index if len(positions.shape) == len(shape) and node.op.name.endswith("scatter") else tuple(
            index[k] for k in indexed)
        found = expr.position(self.value(cluster, positions, at), x.shape[node.params["dim"]])
        first = node.params["dim"]
        target = (*index[:first], found, *index[first + len(indexed):])
        combine = node.params["combine"]
        cluster.updates.append(StoreTo(place.buffer, expr.const(place.at(target)), value, None if combine == "set"
                                       else combine))
        self.reader.checked = True
        self.home[place.buffer] = cluster

    def scanned(self, node: Node, place: BufferView):
        """A scan: a cluster of its own.  Sums and products of float32 run in double precision, as long ones lose too
        much."""
        cluster = Cluster(node.shape, (node.params["dim"],))
        self.clusters.append(cluster)
        value = self.value(cluster, node.args[0], cluster.position)
        combine, wide = node.op.kind.combine, float32 if node.dtype.is_half else node.dtype
        if node.dtype is float32 and combine in ("add", "mul"):
            wide = float64
        result = Expr("result", (), ("r0",), wide)
        reduction = Reduction(result, combine, expr.convert(value, wide), running=True)
        cluster.scan = reduction, StoreTo(place.buffer, expr.const(place.at(cluster.position)),
                                          expr.convert(result, node.dtype))
        self.home[place.buffer] = cluster

    def output(self, node: Node, place: BufferView, alone=False):
        """Store a node's elements at a place (``alone``: in a separate kernel)."""
        wanted = squeezed(node.shape)

        def fits(c):
            if alone or c.closed:
                return None
            for shape, position in ((c.shape, c.position), (c.row_shape, c.row)):
                if same_shape(squeezed(shape), wanted):
                    moving = iter([i for i, s in zip(position, shape) if not is_one(s)])
                    return tuple(0 if is_one(s) else next(moving) for s in node.shape)
            return None

        cluster, at, value = self.place(node.shape, (), node, fits)
        whole = not cluster.dims or not same_shape(squeezed(cluster.row_shape), wanted)
        cluster.store(place.buffer, place.at(at), value, whole)
        self.home[place.buffer] = cluster
        return cluster
