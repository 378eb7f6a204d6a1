"""Public interface of a node of the backward graph: ``tensor.grad_fn``."""
from __future__ import annotations

import collections
import functools
import itertools
import weakref

from ..core.meta import Meta
from ..core.native import GradNode, Tensor, engine, history, mine, state
from ..core.native.objects import ACCUMULATE, DERIVED
from .passing import DelayedError, UndefinedGrad
from .slow_paths import Before, call_function, unreached

_numbers = itertools.count()
notes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # node: users' metadata
# id of a GradNode: its GraphNode, which keeps it, while anybody holds one
seen: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


NO_HOOK = object()


class Handle:
    """Remove a hook: ``handle.remove()``, or leaving a ``with`` block.  Without ``hook``, the caller adds the hook
    under the handle's ``id``."""

    def __init__(self, hooks: dict, hook=NO_HOOK):
        self.hooks, self.id = hooks, next(_numbers)
        if hook is not NO_HOOK:
            hooks[self.id] = hook

    def remove(self):
        self.hooks.pop(self.id, None)

    def hooks_dict_ref(self) -> dict:
        """The dict of hooks that contains this one."""
        return self.hooks

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


class GraphNode:
    """A node of the backward graph: ``name()``, ``next_functions``, ``register_hook``, ``metadata``."""

    def __init__(self, node: GradNode):
        self.grad_node = node

    def name(self):
        node = self.grad_node
        if node.kind == ACCUMULATE:
            return "torch::autograd::AccumulateGrad"
        return class_name(node)

    @property
    def next_functions(self):
        return tuple((node_of(e) if e is not None else None, s) for e, s in edges_of(self.grad_node))

    @property
    def metadata(self):
        """A dict for user-defined data, which the node keeps."""
        return notes.setdefault(self.grad_node, {})

    def _sequence_nr(self) -> int:
        """Sequence number of the node: of the ready nodes, a backward pass runs the one with the highest number."""
        return self.grad_node.number

    def _set_sequence_nr(self, number: int):
        """Replace the sequence number of the node."""
        self.grad_node.number = number

    def register_hook(self, hook):
        """Call ``hook(grad_inputs, grad_outputs)`` after this node; its result replaces the gradients that the node
        returned."""
        return Handle(self.around(), hook)

    def register_prehook(self, hook):
        """Call ``hook(grad_outputs)`` before this node; its result replaces the incoming gradients."""
        return Handle(self.around(), Before(hook))

    def around(self) -> dict:
        """Hooks that run before and after the node."""
        self.grad_node.posthooks = {} if self.grad_node.posthooks is None else self.grad_node.posthooks
        return self.grad_node.posthooks

    def __call__(self, *gradients):
        """Return the gradients of the node's inputs, given those of its outputs.  TypeError for another number of
        gradients."""
        return applied(self.grad_node, gradients)

    def __getattr__(self, name):
        if name.startswith(("_saved_", "_raw_saved_")):
            from .inspection import Unknown, look_up
            try:
                return look_up(self.grad_node, name)
            except Unknown:
                pass
        raise AttributeError(f"{class_name(self.grad_node)!r} object has no attribute {name!r}")

    def __dir__(self):
        from .inspection import names_of
        return [*super().__dir__(), *names_of(self.grad_node)]

    def __eq__(self, other):
        return isinstance(other, GraphNode) and other.grad_node is self.grad_node

    def __hash__(self):
        return id(self.grad_node)

    def __repr__(self):
        return f"<{class_name(self.grad_node)} object at {hex(id(self.grad_node))}>"


class AccumulateGrad(GraphNode):
    """The node of a leaf, which adds gradients to ``variable.grad``."""

    @property
    def variable(self):
        return self.grad_node.variable


class FunctionNode(GraphNode):
    """The node of a user-defined function: also has the attributes of its context."""

    @property
    def _raw_saved_tensors(self):
        from .inspection import SavedTensor
        return tuple(SavedTensor.of(self.grad_node, k) for k in range(len(self.grad_node.function.context.kept())))

    def __getattr__(self, name):
        return getattr(self.grad_node.function.context, name)

    def __setattr__(self, name, value):
        if name == "grad_node":
            return object.__setattr__(self, name, value)
        setattr(self.grad_node.function.context, name, value)


class GradientEdge(collections.namedtuple("GradientEdge", "node output_nr ownership_token", defaults=(None,))):
    """One output of a node: identifies a gradient without its tensor."""


class NodeType(type):
    """Metaclass of Node: makes classes that do not derive from it instances of Node."""

    kinds = (GraphNode, DelayedError, UndefinedGrad)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.kinds)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, cls.kinds)


class Node(metaclass=NodeType):
    """Base of all nodes and of the contexts of functions: ``isinstance(tensor.grad_fn, Node)``."""


def class_name(node: GradNode) -> str:
    """Name that PyTorch prints: AddBackward0 for ``add``."""
    if node.kind == ACCUMULATE:
        return "AccumulateGrad"
    if node.kind != DERIVED:
        return node.extra if isinstance(node.extra, str) else "CopySlices"
    stem = node.plan.op.name.split(".")[-1].strip("_")
    if stem == "copy":
        return "CopyBackwards"
    if stem in COMPOSITES and (given := given_to(node.plan)):
        return COMPOSITES[stem](given)
    return "".join(part.capitalize() for part in stem.split("_")) + "Backward0"


def given_to(plan) -> dict:
    """Return the Meta, or the value, of each parameter of the call that a plan is for."""
    from .inspection import parameters
    return dict(parameters(plan))


def name_linear(given: dict) -> str:
    """Return the name of the node with which PyTorch's ``linear`` ends."""
    rank, has_bias = len(given["self"].shape), isinstance(given.get("bias"), Meta)
    if rank == 2:
        return "AddmmBackward0" if has_bias else "MmBackward0"
    if has_bias:
        return "ViewBackward0"
    return "SqueezeBackward4" if rank == 1 else "UnsafeViewBackward0"


def name_convolution(given: dict) -> str:
    """Return the name of the node with which PyTorch's convolutions end: one without a batch drops its dimension."""
    return "ConvolutionBackward0" if len(given["self"].shape) == len(given["weight"].shape) else "SqueezeBackward1"


def name_extreme(overload: int):
    """Return the function that names the node of an overload of PyTorch's ``max`` and ``min``."""
    return lambda given: f"{'Max' if given['largest'] else 'Min'}Backward{overload}"


# operators named otherwise by PyTorch, also composites, of which it records the operators they call:
# name -> a function of the call that names the (last) node
COMPOSITES = {"linear": name_linear, "extreme_along": name_extreme(0), "extreme_of_all": name_extreme(1),
              **{f"{stem}{rank}d": name_convolution for stem in ("conv", "conv_transpose") for rank in (1, 2, 3)}}


def edges_of(node: GradNode):
    """Return (node, slot) for each argument that is a tensor, or a scalar that PyTorch makes one: (None, 0) for those
    that require no gradient."""
    if node.plan is None:
        return zip(node.edges, node.slots)
    from .inspection import wants
    edges = iter(zip(node.edges, node.slots))
    return [next(edges) if wanted else (None, 0) for wanted in wants(node.plan)]


def _grad_fn(self):
    """Node of the backward graph that made this tensor; None for a leaf."""
    if self._rush_grad_node is None and (self._base is None or not history.joins(self)):
        return None
    node = history.edge(self)
    return None if node is None else node_of(node)


@functools.cache
def kind_of(name: str, base=GraphNode) -> type:
    """Return the class of nodes of one name, which programs print and compare."""
    return type(name, (base,), {"__module__": __name__})


def node_of(node: GradNode) -> GraphNode:
    """Return the public object of a node: the same one as long as it is referenced."""
    known = seen.get(id(node))
    if known is None:
        if node.kind == ACCUMULATE:
            kind = AccumulateGrad
        else:
            kind = kind_of(class_name(node), FunctionNode if hasattr(node.function, "context") else GraphNode)
        known = seen[id(node)] = kind(node)
    return known


def applied(node: GradNode, gradients):
    """Apply a node to the gradients of its outputs: one, or a tuple.  TypeError for another number of them than it has
    outputs."""
    if len(gradients) != len(unreached(node)):
        raise TypeError(f"{class_name(node)} expected {len(unreached(node))} arguments, got {len(gradients)} instead")
    if node.kind == ACCUMULATE:
        state.accumulate(node.variable, gradients[0], 0)
        return ()
    run = engine.Run()
    run.retain, run.create = 1, mine.grad
    results = engine.derive(run, node, list(gradients)) if node.kind == DERIVED else call_function(node, gradients, 1)
    results = (None,) * len(node.edges) if results is None else results
    return results[0] if len(results) == 1 else results


def _keep_grad_fn(self):
    raise RuntimeError("grad_fn of a tensor cannot be deleted: detach() the tensor instead")


Tensor.grad_fn = Tensor._grad_fn = property(_grad_fn, None, _keep_grad_fn)
