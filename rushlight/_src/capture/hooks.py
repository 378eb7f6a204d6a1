"""Hooks on gradients of intermediate values: those that only compute become part of the graph's derivative; backward
passes call the others."""
from __future__ import annotations

import functools
import inspect

from ..._ops import Callable
from ..core.interpret import recording
from ..core.kinds import P
from ..core.native import Op
from ..core.op import make
from ..graph.graph import Graph, Node, nodes_in
from ...utils.hooks import RemovableHandle
from ...autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from ..autograd.function import Context
from .classes import is_framework, static
from .bytecode import listing
from .errors import Again, Break
from .parts import ATTRIBUTES, CALLED, METHODS, Part
from .unbacked import in_stages
from .record import expressions_in
from .transforms import Transformed
from .values import Constant, ContainerMethod, Function, HookHandle, Object, Partial, TensorValue

COMPUTING = ("LOAD_", "BINARY", "UNARY_", "COMPARE", "CALL", "PUSH_NULL", "POP_TOP", "NOP", "COPY", "SWAP",
             "STORE_FAST", "RETURN_", "BUILD_TUPLE", "BUILD_SLICE", "KW_NAMES", "JUMP")


class Effect(Break):
    """Raised if a captured hook has side effects."""


class Observer:
    """A hook with side effects on the gradient of an intermediate value, or (None) a retained gradient; and its
    position in the program."""

    def __init__(self, tensor, hook, place):
        self.tensor, self.hook, self.place = tensor, hook, place


class Hooks(Part, part="hooks"):
    """Capture component for ``register_hook`` and ``retain_grad``.  ``computing``: the hook under capture, which may
    have no side effects."""

    needs = "calls", "outside", "random", "training", "values", "writes"

    def __init__(self, machine):
        super().__init__(machine)
        self.observers: list = []  # hooks with side effects on gradients
        self.computing = None  # the hook under capture
        self.hung: list = []  # handles of hooks on tensors from outside

    def register_hook(self, tensor, hook):
        """``tensor.register_hook(hook)`` on a value of the graph."""
        recorder, node, hook = self.machine.recorder, tensor.fake.node, self.values.force(hook)
        if tensor.source is not None and tensor.fake._rush_needs_grad:
            return self.hang("register_hook", tensor, hook)
        hook = self.opened(hook)
        core = innermost(hook)
        if (node.op is None or not tensor.fake._rush_needs_grad or node in recorder.bases or node in recorder.writers
            or not isinstance(core, Function)):
            raise Break("RB011", "register_hook() of a value from outside, or that shares memory")
        body, observed = None, not all(one.op.startswith(COMPUTING) for one in listing(core.code).instructions)
        if not observed:
            depth, start = len(self.machine.frames), len(recorder.nodes)
            try:
                body = self.derivative(tensor.fake, hook)
            except Effect:
                del self.machine.frames[depth:], recorder.nodes[start:]
                observed = True
        if observed:
            self.observe(tensor, hook)
        if body is not None:
            if any(o.tensor is tensor for o in self.observers):
                raise Break("RB011", "a hook that changes a gradient that another hook observes")
            self.attach(recorder, node, body)
        frame = self.machine.frames[-1]
        return Transformed(RemovableHandle({}, None), (frame.code, frame.now.offset),
                           "the handle of a hook, which is kept")

    def opened(self, hook):
        """Return a hook and its underlying function, which is a Function if it is the program's."""
        if isinstance(hook, Object) and type(hook.value) is functools.partial:
            hook = self.calls.partial_of(hook)
        if isinstance(hook, Partial):
            return Partial(self.opened(self.values.force(hook.function)), hook.arguments, hook.keywords)
        if isinstance(hook, Object) and not is_framework(getattr(hook.value, "__module__",
                                                                 "")) and inspect.isfunction(hook.value):
            return self.calls.as_function(hook)
        return hook

    def hang(self, method, tensor, hook):
        """Register a hook on a tensor from outside at the end of the segment: backward passes come later."""
        if tensor.source is None or not tensor.fake._rush_needs_grad or tensor.fake.node in self.written():
            raise Break("RB011", f"{method}() of a tensor that is made or written in the compiled function")
        made = HookHandle(tensor, method, hook, self.machine.recorder.place())
        self.hung.append(made)
        return made

    def written(self) -> set:
        """Return the graph inputs that the graph writes to."""
        recorder = self.machine.recorder
        return {recorder.root(t) for targets in recorder.targets.values() for t in targets}

    def left(self) -> list:
        """Return the hooks that a segment registers; a break at one whose tensor is written after it."""
        found, written = [one for one in self.hung if not one.removed], self.written()
        for one in found:
            if one.tensor.fake.node in written:
                raise Again(one.place, Break("RB011", f"{one.method}() of a tensor that is written later"))
        return found

    def needed(self):
        """Raise a break at a hook on a tensor from outside, which a backward pass in the graph may have to call."""
        for one in self.hung:
            if not one.removed:
                raise Again(one.place, Break(
                    "RB011", f"{one.method}() before a backward pass of the compiled function"))

    @METHODS.by((HookHandle, "remove"))
    def remove(self, handle):
        handle.removed = True
        return Constant(None)

    @ATTRIBUTES.by(HookHandle)
    def of_handle(self, owner, name):
        if name != "remove":
            raise Break("RB004", f"attribute {name!r} of the handle of a hook")
        return ContainerMethod(owner, name)

    @CALLED.by(static(saved_tensors_hooks, "__init__"), static(save_on_cpu, "__init__"))
    def hooks_on_saved(self, *arguments, **keywords):
        raise Break("RB011", "hooks on saved tensors")

    @CALLED.by(*(static(disable_saved_tensors_hooks, name) for name in ("__init__", "__enter__")), told=True)
    def without_hooks(self, method, *arguments, **keywords):
        """Return a context that refuses hooks: its effects on the thread are captured."""
        return self.calls.inline(self.calls.as_function(self.values.from_python(method)), list(arguments), keywords)

    @CALLED.by(static(Context, "saved_tensors").fget)
    def saved_tensors(self, context):
        """``ctx.saved_tensors`` in a ``backward`` that is compiled by itself."""
        context = self.values.force(context)
        if not isinstance(context, Object) or context.source is None:
            raise Break("RB011", "saved_tensors of a context made in the compiled function")
        return self.outside.wrap(context.value.saved_tensors, context.source.attribute("saved_tensors"))

    def observe(self, tensor, hook):
        """Let the segment's backward passes call a hook with side effects, or (None) retain the gradient."""
        if tensor.fake.node in self.machine.recorder.hooked:
            raise Break("RB011", "a gradient that a hook changes and another one observes")
        self.observers.append(Observer(tensor, hook, self.machine.recorder.place()))

    def retain_grad(self, tensor):
        """``tensor.retain_grad()``."""
        node = tensor.fake.node
        if not tensor.fake._rush_needs_grad:
            raise Break("RB007", "retain_grad() of a tensor that does not require grad")
        if tensor.source is None and node not in self.machine.recorder.leaves and not self.retains(tensor):
            self.observe(tensor, None)
        elif tensor.source is not None and not tensor.real.is_leaf:
            raise Break("RB011", "retain_grad() of a value from outside")
        return Constant(None)

    def retains(self, tensor) -> bool:
        """True if a tensor made here retains its gradient."""
        return any(o.tensor is tensor and o.hook is None for o in self.observers)

    def observed_by(self, outputs) -> list:
        """Return the tensors with observers that a backward pass from these nodes reaches, in reverse topological
        order."""
        tensors = list(dict.fromkeys(o.tensor for o in self.observers))
        found = self.training.reach([t.fake.node for t in tensors])
        reached = frozenset().union(*(found.get(o, ()) for o in outputs))
        nodes = self.machine.recorder.nodes
        return sorted((t for t in tensors if t.fake.node in reached), key=lambda t: nodes.index(t.fake.node),
                      reverse=True)

    def observed(self, tensor, gradient):
        """Call the hooks of a tensor that a backward pass has reached; they read the gradient without changing it."""
        for one in [o for o in self.observers if o.tensor is tensor and o.hook is not None]:
            changed = self.values.force(self.machine.now(one.hook, [gradient]))
            if not (isinstance(changed, Constant) and changed.value is None):
                raise Again(one.place, Break("RB011", "a hook that changes the gradient and has effects"))
        if self.retains(tensor):
            self.writes.put(tensor, "grad",
                            self.training.accumulated(self.writes.set_attributes.get((id(tensor), "grad")), gradient,
                                                      False),
                     False)

    def unseen(self, carrying):
        """Raise a break at a hook that a later backward pass from these outputs, which retain history, would call."""
        for one in self.observers:
            found = self.training.reach([one.tensor.fake.node])
            if any(found.get(node) for node in carrying):
                raise Again(one.place, Break(
                    "RB011", "register_hook() or retain_grad(), and a backward pass later than "
                    "in the compiled function"))

    def derivative(self, fake, hook):
        """Return a hook's result as a Graph of the gradient and other values of the graph; None if it does not change
        the gradient."""
        recorder = self.machine.recorder
        gradient = recorder.fake(Node(recorder.name("g"), None, meta=fake._rush_meta), fake._rush_meta, False,
                                 fake.inputs)
        start, drawn = len(recorder.nodes), self.random.drawn
        self.computing = innermost(hook)
        try:
            with recording(False):
                result = self.values.force(self.machine.now(hook, [self.values.from_python(gradient)]))
        finally:
            self.computing = None
        nodes = recorder.nodes[start:]
        del recorder.nodes[start:]
        if isinstance(result, Constant) and result.value is None:
            return None
        wrong = in_stages(nodes) or drawn != self.random.drawn or any(n in recorder.writers
                                                                      or any(expressions_in(n.args))
                                                               for n in nodes)
        if (wrong or not isinstance(result, TensorValue)
                or tuple(result.fake._rush_meta.shape) != tuple(fake._rush_meta.shape)):
            raise Break("RB011", "a hook whose result is not a gradient of the graph")
        within = {gradient.node, *nodes}
        outside = dict.fromkeys(n for node in nodes for n in nodes_in((node.args, tuple(node.params.values())))
                                if n not in within)
        if any(n.weak for n in outside):
            raise Break("RB011", "a hook that reads varying numbers")
        return Graph([gradient.node, *outside], nodes, [result.fake.node])

    def attach(self, recorder, node, body):
        """Put a hook between a value and its readers; one that was registered earlier runs first."""
        node = recorder.hooked.get(node, node)
        inner = Node(recorder.name("t"), node.op, node.args, node.params, node.meta, where=node.where)
        recorder.nodes.insert(recorder.nodes.index(node), inner)
        others = body.inputs[1:]
        place = max([recorder.nodes.index(n) for n in others if n.op is not None], default=-1)
        if place > recorder.nodes.index(node):
            raise Break("RB011", "a hook that reads values computed after its own")
        node.become(hooked(body), (inner, *others))
        recorder.hooked[node] = inner

    def check_computing(self, function):
        """Raise Break for a call that may have side effects, while a hook is captured."""
        if function is self.computing or isinstance(function, Partial):
            return
        plain = isinstance(function, ContainerMethod) and isinstance(function.owner, TensorValue)
        known = isinstance(function, Object) and (isinstance(function.value, (Op, Callable))
                                                  or is_framework(getattr(function.value, "__module__", None)))
        if not (plain or known):
            raise Effect("RB011", f"a hook that calls a {self.values.describe(function)}")


def innermost(hook):
    """Return the function within nested partials."""
    return innermost(hook.function) if isinstance(hook, Partial) else hook


def hooked(body: Graph):
    """Return the operator that returns its first argument, and whose gradient is ``body`` of the result's gradient; the
    other arguments are read by that."""
    from ..graph.running import run
    signature = inspect.Signature([inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY)
                                   for k in range(len(body.inputs))])
    made = make("hooked", lambda *values, **named: P.copy((*values, *named.values())[0]), None, signature)

    def vjp(g, y, value, *others):
        with recording(False):
            found, = run(body, [g, *others])
        return [P.convert(found, dtype=value.dtype), *[None] * len(others)]

    made.rules["vjp"] = vjp
    return made
