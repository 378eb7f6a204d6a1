"""Hooks on gradients of intermediate values: where they only compute, they become part of the graph's derivative."""
from __future__ import annotations

import inspect

from .._ops import Callable
from ..core.interpret import recording
from ..core.kinds import P
from ..core.native import Op
from ..core.op import make
from ..graph.graph import Graph, Node, nodes_in
from ..utils.hooks import RemovableHandle
from .attributes import is_framework
from .bytecode import listing
from .errors import Break
from .readings import in_stages
from .record import expressions_in
from .transforms import Transformed
from .values import Constant, ContainerMethod, Function, Object, TensorValue

COMPUTING = ("LOAD_", "BINARY", "UNARY_", "COMPARE", "CALL", "PUSH_NULL", "POP_TOP", "NOP", "COPY", "SWAP", "STORE_FAST", "RETURN_", "BUILD_TUPLE", "BUILD_SLICE", "KW_NAMES", "JUMP")


class Hooks:
    """How the machine records ``register_hook``.  ``computing``: the hook that is followed, which may call only what has no effects."""

    computing = None

    def register_hook(self, tensor, hook):
        """``tensor.register_hook(hook)`` of a value of the graph."""
        recorder, node, hook = self.recorder, tensor.fake.node, self.force(hook)
        if isinstance(hook, Object) and not is_framework(getattr(hook.value, "__module__", "")) and inspect.isfunction(hook.value):
            hook = self.as_function(hook)
        if node.op is None or not tensor.fake.needs_grad or node in recorder.bases or node in recorder.writers or not isinstance(hook, Function):
            raise Break("RB011", "register_hook() of a value from outside, or that shares memory")
        if not all(one.op.startswith(COMPUTING) for one in listing(hook.code).instructions):
            raise Break("RB011", f"a hook {hook.name}() that does more than compute")
        body = self.derivative(tensor.fake, hook)
        if body is not None:
            self.attach(recorder, node, body)
        frame = self.frames[-1]
        return Transformed(RemovableHandle({}, None), (frame.code, frame.now.offset), "the handle of a hook, which is kept")

    def derivative(self, fake, hook):
        """What a hook makes of a gradient, as a Graph: of that, and of other values of the graph; None where it leaves it as it is."""
        recorder = self.recorder
        gradient = recorder.fake(Node(recorder.name("g"), None, meta=fake.meta), fake.meta, False, fake.inputs)
        start, drawn = len(recorder.nodes), self.drawn
        self.computing = hook
        try:
            with recording(False):
                result = self.force(self.now(hook, [self.from_python(gradient)]))
        finally:
            self.computing = None
        nodes = recorder.nodes[start:]
        del recorder.nodes[start:]
        if isinstance(result, Constant) and result.value is None:
            return None
        wrong = in_stages(nodes) or drawn != self.drawn or any(n in recorder.writers or any(expressions_in(n.args)) for n in nodes)
        if wrong or not isinstance(result, TensorValue) or tuple(result.fake.meta.shape) != tuple(fake.meta.shape):
            raise Break("RB011", "a hook whose result is no gradient of the graph")
        within = {gradient.node, *nodes}
        outside = dict.fromkeys(n for node in nodes for n in nodes_in((node.args, tuple(node.params.values()))) if n not in within)
        if any(n.weak for n in outside):
            raise Break("RB011", "a hook that reads numbers which vary")
        return Graph([gradient.node, *outside], nodes, [result.fake.node])

    def attach(self, recorder, node, body):
        """Puts a hook between a value and all that reads it; one that was registered earlier runs first."""
        node = recorder.hooked.get(node, node)
        inner = Node(recorder.name("t"), node.op, node.args, node.params, node.meta, where=node.where)
        recorder.nodes.insert(recorder.nodes.index(node), inner)
        others = body.inputs[1:]
        place = max([recorder.nodes.index(n) for n in others if n.op is not None], default=-1)
        if place > recorder.nodes.index(node):
            raise Break("RB011", "a hook that reads what is computed later than its value")
        node.become(hooked(body), (inner, *others))
        recorder.hooked[node] = inner

    def check_computing(self, function):
        """A Break for a call that may have effects, while a hook is followed."""
        if function is self.computing:
            return
        plain = isinstance(function, ContainerMethod) and isinstance(function.owner, TensorValue)
        known = isinstance(function, Object) and (isinstance(function.value, (Op, Callable)) or is_framework(getattr(function.value, "__module__", None)))
        if not (plain or known):
            raise Break("RB011", f"a hook that calls a {self.describe(function)}")


def hooked(body: Graph):
    """The operator that is its first argument, and whose gradient ``body`` makes of that of the result; the others are what that reads."""
    from .backends import run
    signature = inspect.Signature([inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY) for k in range(len(body.inputs))])
    made = make("hooked", lambda *values, **named: P.copy((*values, *named.values())[0]), None, signature)

    def vjp(g, y, value, *others):
        with recording(False):
            found, = run(body, [g, *others])
        return [P.convert(found, dtype=value.dtype), *[None] * len(others)]

    made.rules["vjp"] = vjp
    return made
