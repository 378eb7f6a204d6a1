"""The backward engine: runs nodes in reverse topological order, each once all of its gradients have arrived.

The state of a run is stored in the nodes themselves. If several runs are active (in threads, or because a node's own
backward runs one) and reach the same node, the one that touches it puts its own state there, and saves the state of the
other runs.
"""
from __future__ import annotations

from .language import cast, exclusive, filled, i64, inline, native, new_tuple, tuple_set
from .objects import ACCUMULATE, DERIVED, GradNode, Tensor, counter, mine, state


@native
class Run:
    """The state of one backward pass."""

    epoch: i64
    thread: i64  # in which it runs
    kept: dict  # nodes that another run took over -> (pending, buffer)
    retain: i64  # 1 to keep the nodes' saved tensors
    create: i64  # record the backward itself
    captures: dict  # node -> list of (slot, index in ``captured``), for ``autograd.grad``
    captured: list
    accumulate: i64  # write gradients into leaves
    queue: list  # ready nodes, the one to run next last
    needed: object  # a set of nodes worth running, or None for all
    node: object  # the one that runs, or ran last
    callbacks: list  # functions to call when all is done, or None


@native
class Runs:
    """The number of the last run, and the active runs."""

    epoch: i64
    active: list


runs = Runs()
runs.active = []


@native
@exclusive
def claim(run: Run, node: GradNode) -> None:
    """Makes the entries of a node those of this run."""
    active = runs.active
    for k in range(len(active)):
        other = cast(Run, active[k])
        if other.epoch == node.epoch:
            if other.kept is None:
                other.kept = {}
            other.kept[node] = (node.pending, node.buffer)
    node.epoch = run.epoch
    node.pending = 0
    node.buffer = None
    if run.kept is not None:
        found = run.kept.get(node)
        if found is not None:
            node.pending = found[0]
            node.buffer = found[1]


@native
@exclusive
def begin(run: Run, roots: list) -> None:
    """Counts, for every node reachable from the roots, the gradients it will get."""
    runs.epoch += 1
    epoch = runs.epoch
    run.epoch = epoch
    runs.active.append(run)
    pending: list = []
    for k in range(len(roots)):
        root = cast(GradNode, roots[k])
        if root.epoch != epoch:
            claim(run, root)
            pending.append(root)
    while len(pending) > 0:
        node = cast(GradNode, pending.pop())
        edges = node.edges
        for k in range(len(edges)):
            if edges[k] is not None:
                following = cast(GradNode, edges[k])
                if following.epoch != epoch:
                    claim(run, following)
                    pending.append(following)
                following.pending += 1


@native
@exclusive
def end(run: Run, roots: list) -> None:
    """Forgets a run; the roots may still hold gradients if it failed."""
    active = runs.active
    for k in range(len(active)):
        if active[k] is run:
            active[k] = active[len(active) - 1]
            active.pop()
            break
    for k in range(len(roots)):
        root = cast(GradNode, roots[k])
        if root.epoch == run.epoch:
            root.buffer = None


@native
def push(queue: list, node: GradNode) -> None:
    """Enters a ready node so that the queue stays ordered, the latest node last."""
    queue.append(node)
    k = len(queue) - 1
    while k > 0:
        before = cast(GradNode, queue[k - 1])
        if before.number <= node.number:
            return
        queue[k] = before
        queue[k - 1] = node
        k -= 1


@native
@exclusive
@inline
def received(run: Run, node: GradNode, slot: i64) -> list:
    """The gradients that the node has received in this run, with a slot for result ``slot``."""
    if node.epoch != run.epoch:
        claim(run, node)
    if node.buffer is None:
        node.buffer = []
    buffer = node.buffer
    while len(buffer) <= slot:
        buffer.append(None)
    return buffer


@native
@exclusive
@inline
def handed_over(run: Run, node: GradNode) -> list:
    """Remove and return the gradients that the node has received in this run."""
    if node.epoch != run.epoch:
        claim(run, node)
    gradients = node.buffer
    node.buffer = None
    return gradients


@native
@exclusive
@inline
def arrived(run: Run, node: GradNode) -> None:
    """Notes that one of those that the node waits for has run."""
    if node.epoch != run.epoch:
        claim(run, node)
    node.pending -= 1
    if node.pending == 0:
        push(run.queue, node)


@native
@exclusive
@inline
def start(run: Run, root: GradNode) -> None:
    """Enters a node that a run begins with, unless others of the run lead to it."""
    if root.epoch != run.epoch:
        claim(run, root)
    if root.pending == 0:
        root.pending = -1
        push(run.queue, root)


@native
def deliver(run: Run, node: GradNode, slot: i64, gradient: object) -> None:
    """Add a gradient of result ``slot`` to the gradients that the node has received."""
    if node.expected is not None:
        gradient = state.conform(run.node, node, slot, gradient)
    buffer = received(run, node, slot)
    known = buffer[slot]
    if known is None:
        buffer[slot] = gradient
    else:
        buffer[slot] = state.add(known, gradient)


@native
def run_steps(run: Run, roots: list) -> None:
    """Runs every node reachable from the roots, whose buffers hold the gradients to start from."""
    queue = run.queue
    for k in range(len(roots)):
        start(run, cast(GradNode, roots[k]))
    while len(queue) > 0:
        node = cast(GradNode, queue.pop())
        run.node = node
        gradients = handed_over(run, node)
        results: tuple = None
        found: object = None
        if run.captures is not None:
            found = run.captures.get(node)
        wanted = run.needed is None
        if not wanted:
            wanted = node in run.needed
            if not wanted and found is None:
                gradients = None
        if gradients is None and (wanted or found is not None):
            if node.kind != DERIVED or node.hooks is not None or node.posthooks is not None:
                gradients = state.unreached(node)
        if gradients is not None:
            if node.kind == ACCUMULATE:
                if cast(Tensor, node.variable)._rush_hooks is not None:
                    gradients = state.run_hooks(node, gradients)
            elif node.hooks is not None:
                gradients = state.run_hooks(node, gradients)
            if found is not None:
                for k in range(len(found)):
                    slot: i64 = found[k][0]
                    if slot < len(gradients):
                        place: i64 = found[k][1]
                        run.captured[place] = gradients[slot]
            if wanted and node.posthooks is not None:
                gradients = state.run_prehooks(node, gradients)
            if node.kind == ACCUMULATE:
                if run.accumulate != 0 and wanted:
                    state.accumulate(node.variable, gradients[0], run.create)
                    if node.posthooks is not None:
                        state.run_posthooks(node, (), gradients)
            elif wanted:
                if state.anomaly != 0:
                    state.watch(node, None)
                if node.kind == DERIVED:
                    results = derive(run, node, gradients)
                else:
                    results = state.call_function(node, gradients, run.retain)
                if state.anomaly != 0 and results is not None:
                    state.watch(node, results)
                if node.posthooks is not None:
                    results = state.run_posthooks(node, results, gradients)
        edges = node.edges
        slots = node.slots
        for k in range(len(edges)):
            if edges[k] is not None:
                following = cast(GradNode, edges[k])
                if results is not None:
                    if results[k] is not None:
                        slot = slots[k]
                        deliver(run, following, slot, results[k])
                arrived(run, following)


@native
def drive(run: Run, roots: list) -> None:
    """Runs every node reachable from the roots, recording if the run says so; not even an interrupt leaves that mode
    behind, nor do hooks a hook on saved tensors."""
    own = mine
    grad = own.grad
    outer = own.run
    hooks = own.hooks
    packing = own.packing
    own.grad = run.create
    own.run = run
    try:
        run_steps(run, roots)
    finally:
        own.grad = grad
        own.run = outer
        own.hooks = hooks
        own.packing = packing


@native
@exclusive
def alone(run: Run) -> bool:
    """True if no other thread is in a backward pass: it might read memory that this one would overwrite."""
    active = runs.active
    for k in range(len(active)):
        if cast(Run, active[k]).thread != run.thread:
            return False
    return True


@native
def derive(run: Run, node: GradNode, gradients: list) -> tuple:
    """The gradients of a node's arguments, from the derived backward operator of its plan; None where no gradient
    reached it."""
    reached = False
    for k in range(len(gradients)):
        if gradients[k] is not None:
            reached = True
    if not reached:
        return None
    plan = node.plan
    saved = node.saved
    if saved is None:
        state.freed(node)
    if run.create != 0:
        return state.derive_recorded(node, gradients, run.retain)
    constants = plan.constants
    cotangents = plan.cotangents
    count = len(saved)
    arguments = new_tuple(count + len(constants) + len(cotangents))
    at = 0
    tensors = 0
    missing = 0
    for k in range(count):
        value = saved[k]
        if type(value) is state.tensor or type(value) is state.parameter:
            tensor = cast(Tensor, value)
            version: i64 = node.versions[k]
            if counter(tensor).version != version and k < count - plan.spare:
                state.stale(node, k)
            tensors += 1
        tuple_set(arguments, at, value)
        at += 1
    for k in range(len(constants)):
        tuple_set(arguments, at, constants[k])
        at += 1
    for k in range(len(cotangents)):
        gradient: object = None
        slot: i64 = cotangents[k]
        if slot < len(gradients):
            gradient = gradients[slot]
        if gradient is None:
            missing = 1
            gradient = state.zeros(plan.outputs[slot])
        tuple_set(arguments, at, gradient)
        at += 1
    derived = plan.derived
    if run.retain == 0 and tensors != 0 and plan.lasting == 0:
        node.saved = None
        if plan.donating is not None and alone(run):
            derived = plan.donating
    results = derived(*filled(arguments))
    if type(results) is not tuple:
        results = (results,)
    if missing != 0:
        results = state.partly_reached(node, gradients, results)
    return results
