"""The backward engine: runs steps, latest first, each once all of its gradients have arrived.

What a run knows of a step stands in the step itself.  Where several runs are under way (in threads, or since a step's
own backward runs one) and reach the same step, the one that touches it has its own entries there, and keeps for the
others what was theirs.
"""
from __future__ import annotations

from .language import cast, exclusive, filled, i64, inline, native, new_tuple, tuple_set
from .objects import ACCUMULATE, DERIVED, Step, Tensor, counter, mine, state


@native
class Run:
    """What one backward pass knows."""

    epoch: i64
    thread: i64  # in which it runs
    kept: dict  # steps that another run took over -> (pending, buffer)
    retain: i64  # keep what steps saved
    create: i64  # record the backward itself
    captures: dict  # step -> list of (slot, place in ``captured``), for ``autograd.grad``
    captured: list
    accumulate: i64  # write gradients into leaves
    queue: list  # ready steps, the one to run next last
    needed: object  # a set of steps worth running, or None for all
    step: object  # the one that runs, or ran last
    callbacks: list  # functions to call when all is done, or None


@native
class Runs:
    """The number of the last run, and those that are under way."""

    epoch: i64
    active: list


runs = Runs()
runs.active = []


@native
@exclusive
def claim(run: Run, step: Step) -> None:
    """Makes the entries of a step those of this run."""
    active = runs.active
    for k in range(len(active)):
        other = cast(Run, active[k])
        if other.epoch == step.epoch:
            if other.kept is None:
                other.kept = {}
            other.kept[step] = (step.pending, step.buffer)
    step.epoch = run.epoch
    step.pending = 0
    step.buffer = None
    if run.kept is not None:
        found = run.kept.get(step)
        if found is not None:
            step.pending = found[0]
            step.buffer = found[1]


@native
@exclusive
def begin(run: Run, roots: list) -> None:
    """Counts, for every step reachable from the roots, the gradients it will get."""
    runs.epoch += 1
    epoch = runs.epoch
    run.epoch = epoch
    runs.active.append(run)
    pending: list = []
    for k in range(len(roots)):
        root = cast(Step, roots[k])
        if root.epoch != epoch:
            claim(run, root)
            pending.append(root)
    while len(pending) > 0:
        step = cast(Step, pending.pop())
        edges = step.edges
        for k in range(len(edges)):
            if edges[k] is not None:
                following = cast(Step, edges[k])
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
        root = cast(Step, roots[k])
        if root.epoch == run.epoch:
            root.buffer = None


@native
def push(queue: list, step: Step) -> None:
    """Enters a ready step so that the queue stays ordered, the latest step last."""
    queue.append(step)
    k = len(queue) - 1
    while k > 0:
        before = cast(Step, queue[k - 1])
        if before.number <= step.number:
            return
        queue[k] = before
        queue[k - 1] = step
        k -= 1


@native
@exclusive
@inline
def received(run: Run, step: Step, slot: i64) -> list:
    """What the step has received in this run, with room for a gradient of result ``slot``."""
    if step.epoch != run.epoch:
        claim(run, step)
    if step.buffer is None:
        step.buffer = []
    buffer = step.buffer
    while len(buffer) <= slot:
        buffer.append(None)
    return buffer


@native
@exclusive
@inline
def handed_over(run: Run, step: Step) -> list:
    """What the step has received in this run, which it then no longer holds."""
    if step.epoch != run.epoch:
        claim(run, step)
    gradients = step.buffer
    step.buffer = None
    return gradients


@native
@exclusive
@inline
def arrived(run: Run, step: Step) -> None:
    """Notes that one of those that the step waits for has run."""
    if step.epoch != run.epoch:
        claim(run, step)
    step.pending -= 1
    if step.pending == 0:
        push(run.queue, step)


@native
@exclusive
@inline
def start(run: Run, root: Step) -> None:
    """Enters a step that a run begins with, unless others of the run lead to it."""
    if root.epoch != run.epoch:
        claim(run, root)
    if root.pending == 0:
        root.pending = -1
        push(run.queue, root)


@native
def deliver(run: Run, step: Step, slot: i64, gradient: object) -> None:
    """Adds a gradient of result ``slot`` to what the step has received."""
    buffer = received(run, step, slot)
    known = buffer[slot]
    if known is None:
        buffer[slot] = gradient
    else:
        buffer[slot] = state.add(known, gradient)


@native
def run_steps(run: Run, roots: list) -> None:
    """Runs every step reachable from the roots, whose buffers hold the gradients to start from."""
    queue = run.queue
    for k in range(len(roots)):
        start(run, cast(Step, roots[k]))
    while len(queue) > 0:
        step = cast(Step, queue.pop())
        run.step = step
        gradients = handed_over(run, step)
        results: tuple = None
        found: object = None
        if run.captures is not None:
            found = run.captures.get(step)
        wanted = run.needed is None
        if not wanted:
            wanted = step in run.needed
            if not wanted and found is None:
                gradients = None
        if gradients is None and (wanted or found is not None):
            if step.kind != DERIVED or step.hooks is not None or step.posthooks is not None:
                gradients = state.unreached(step)
        if gradients is not None:
            if step.kind == ACCUMULATE:
                if cast(Tensor, step.variable)._hooks is not None:
                    gradients = state.run_hooks(step, gradients)
            elif step.hooks is not None:
                gradients = state.run_hooks(step, gradients)
            if found is not None:
                for k in range(len(found)):
                    slot: i64 = found[k][0]
                    if slot < len(gradients):
                        place: i64 = found[k][1]
                        run.captured[place] = gradients[slot]
            if wanted and step.posthooks is not None:
                gradients = state.run_prehooks(step, gradients)
            if step.kind == ACCUMULATE:
                if run.accumulate != 0 and wanted:
                    state.accumulate(step.variable, gradients[0], run.create)
                    if step.posthooks is not None:
                        state.run_posthooks(step, (), gradients)
            elif wanted:
                if state.anomaly != 0:
                    state.watch(step, None)
                if step.kind == DERIVED:
                    results = derive(run, step, gradients)
                else:
                    results = state.call_function(step, gradients, run.retain)
                if state.anomaly != 0 and results is not None:
                    state.watch(step, results)
                if step.posthooks is not None:
                    results = state.run_posthooks(step, results, gradients)
        edges = step.edges
        slots = step.slots
        for k in range(len(edges)):
            if edges[k] is not None:
                following = cast(Step, edges[k])
                if results is not None:
                    if results[k] is not None:
                        slot = slots[k]
                        deliver(run, following, slot, results[k])
                arrived(run, following)


@native
def drive(run: Run, roots: list) -> None:
    """Runs every step reachable from the roots, recording if the run says so; not even an interrupt leaves that mode
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
    """Whether no other thread is in a backward pass: it might read what this one would spend."""
    active = runs.active
    for k in range(len(active)):
        if cast(Run, active[k]).thread != run.thread:
            return False
    return True


@native
def derive(run: Run, step: Step, gradients: list) -> tuple:
    """The gradients of a step's arguments, from the derived backward operator of its plan; None where no gradient
    reached it."""
    reached = False
    for k in range(len(gradients)):
        if gradients[k] is not None:
            reached = True
    if not reached:
        return None
    plan = step.plan
    saved = step.saved
    if saved is None:
        state.freed(step)
    if run.create != 0:
        return state.derive_recorded(step, gradients, run.retain)
    constants = plan.constants
    cotangents = plan.cotangents
    count = len(saved)
    arguments = new_tuple(count + len(constants) + len(cotangents))
    at = 0
    tensors = 0
    for k in range(count):
        value = saved[k]
        if type(value) is state.tensor or type(value) is state.parameter:
            tensor = cast(Tensor, value)
            version: i64 = step.versions[k]
            if counter(tensor).version != version:
                state.stale(step, k)
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
            gradient = state.zeros(plan.outputs[slot])
        tuple_set(arguments, at, gradient)
        at += 1
    derived = plan.derived
    if run.retain == 0 and tensors != 0:
        step.saved = None
        if plan.spending is not None and alone(run):
            derived = plan.spending
    results = derived(*filled(arguments))
    if type(results) is tuple:
        return results
    return (results,)
