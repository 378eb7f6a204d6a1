"""Gradients across remote calls.

Within ``context()`` calls record the tensors that they send and receive.  ``backward`` traverses the graphs of all
workers: if one begins with a tensor that came from another worker, its gradient is sent there, and continues from the
tensor that was sent.  Gradients of parameters stay in the context of their worker (``get_gradients``).
"""
from __future__ import annotations

import contextlib
import itertools
import threading

from .._src.autograd.mode import no_grad

SHIFT = 48  # a context's number: the worker that made it, then a count
COUNT, PLACE = itertools.count(1), threading.local()


class DistAutogradContext:
    """One worker's state of a distributed autograd context: tensors sent (by name), origins of received ones, the
    gradients accumulated, and the other workers."""

    def __init__(self, number: int):
        self.number, self.sent, self.received, self.gradients, self.others = number, {}, {}, {}, set()
        self.guard = threading.Lock()

    def _context_id(self) -> int:
        return self.number

    def add(self, leaf, gradient):
        with self.guard:
            held = self.gradients.get(id(leaf))
            with no_grad():
                self.gradients[id(leaf)] = leaf, gradient if held is None else held[1] + gradient


def is_available() -> bool:
    return True


def known(agent, number: int) -> DistAutogradContext:
    with agent.guard:
        return agent.contexts.setdefault(number, DistAutogradContext(number))


@contextlib.contextmanager
def inside(number):
    """A block within a context, by its number; None for none."""
    before = getattr(PLACE, "number", None)
    PLACE.number = number
    try:
        yield
    finally:
        PLACE.number = before


def context_here(agent):
    return getattr(PLACE, "number", None)


class context:  # noqa: N801 - PyTorch's name
    """A block whose remote calls are part of a backward; it yields the context's number.

    RuntimeError before ``init_rpc``, or within another one.
    """

    def __enter__(self) -> int:
        from .rpc.workers import current
        agent = current()
        if context_here(agent) is not None:
            raise RuntimeError(f"Already have autograd context id for this thread: {context_here(agent)}")
        self.agent, self.number = agent, (agent.info.id << SHIFT) + next(COUNT)
        known(agent, self.number)
        PLACE.number = self.number
        return self.number

    def __exit__(self, *error):
        PLACE.number = None
        release(self.number)


def release(number: int):
    """Forgets a context here and in the workers that were called within it."""
    from .rpc.workers import current
    agent = current()
    with agent.guard:
        found = agent.contexts.pop(number, None)
    for worker in found.others if found is not None else ():
        asked(agent, worker, release, number)


def asked(agent, worker: int, function, *args):
    """Have a worker run a function of this module; return a Future."""
    from .rpc.messages import packed
    message = packed((agent.info.id, None, "call", function, args, {}, None))
    return agent.ask(agent.workers[worker], message, 0, True)


# --- what calls carry -------------------------------------------------------------------------------------------------
def recorder(agent, number, worker: int):
    """Return a function that records the tensors sent to a worker; None outside of a context."""
    if number is None:
        return None
    held = known(agent, number)
    held.others.add(worker)

    def record(tensors):
        name = (agent.info.id, next(COUNT))
        held.sent[name] = tensors
        return name
    return record


def arrived(agent, number, worker: int, tensors, name):
    """Record tensors that have come from a worker, which stores them under a name."""
    held = known(agent, number)
    held.others.add(worker)
    for k, tensor in enumerate(tensors):
        held.received[id(tensor)] = tensor, worker, name, k


# --- backward ---------------------------------------------------------------------------------------------------------
def leaves_of(tensors) -> list:
    """The leaves of the graphs that end in tensors."""
    found, seen, rest, held = {}, set(), [], []  # ``held`` keeps the objects alive: their ids stay unique
    for tensor in tensors:
        if tensor.grad_fn is None:
            found[id(tensor)] = tensor
        else:
            rest.append(tensor.grad_fn)
    while rest:
        step = rest.pop()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        held.append(step)
        found.update({id(leaf): leaf for leaf in [getattr(step, "variable", None)] if leaf is not None})
        rest += [before for before, _ in step.next_functions]
    return list(found.values())


def backward(context_id: int, roots, retain_graph: bool = False):
    """Adds the gradients of the sum of roots (tensors of one element) to the context, in all workers.

    RuntimeError for a context that this worker does not know, or a root without a gradient or of more elements.
    """
    from .rpc.workers import current
    agent = current()
    if context_id not in agent.contexts:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError("not a scalar: roots of backward have one element")
    go_on(agent, known(agent, context_id), list(roots), [None] * len(roots))


def go_on(agent, held, tensors, gradients):
    """Run the backward from tensors of this worker, and send gradients on to the origins of its leaves.  Backward is
    linear in the gradients, so gradients that arrive in pieces may continue in pieces."""
    from ..autograd import grad
    leaves = [leaf for leaf in leaves_of(tensors) if leaf.requires_grad]
    found = grad(tensors, leaves, gradients, retain_graph=True, allow_unused=True)
    there: dict = {}
    for leaf, gradient in zip(leaves, found):
        if gradient is None:
            continue
        if id(leaf) in held.received:
            _, worker, name, k = held.received[id(leaf)]
            there.setdefault((worker, name), []).append((k, gradient))
        else:
            held.add(leaf, gradient)
    waiting = [asked(agent, worker, continued, held.number, name, pieces) for (worker, name), pieces in there.items()]
    for future in waiting:
        future.wait()


def continued(number: int, name, pieces):
    """Continue with received gradients of tensors that this worker has sent under a name."""
    from .rpc.workers import current
    agent = current()
    held = known(agent, number)
    go_on(agent, held, [held.sent[name][k] for k, _ in pieces], [gradient for _, gradient in pieces])


def get_gradients(context_id: int) -> dict:
    """{leaf: its gradient in a context}, of this worker.  RuntimeError for a context that it does not know."""
    from .rpc.workers import current
    agent = current()
    if context_id not in agent.contexts:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    return dict(agent.contexts[context_id].gradients.values())


def _retrieve_context(context_id: int) -> DistAutogradContext:
    from .rpc.workers import current
    return current().contexts[context_id]


def _current_context() -> DistAutogradContext:
    from .rpc.workers import current
    agent = current()
    return agent.contexts[context_here(agent)]
