"""Saved values of nodes under the user's hooks: packed in the forward pass, unpacked in the backward pass."""
from __future__ import annotations

from ..core.interpret import recording
from ..core.native import GradNode, Scope, Tensor, counter, held, history, mine, state
from ..core.native.hooks import connect
from ..core.native.objects import ACCUMULATE, FUNCTION
from ..core.native.scopes import HOOKS, PACKING
from ..core.op import OPS
from ..core.tensor import alias
from .node import class_name
from .reached import partly_reached
from .slow_paths import changed, freed, full_of, recorded_gradients


class Packed:
    """A saved tensor as the pack hook left it."""

    __slots__ = ("value", "unpack", "__weakref__")

    def __init__(self, value, unpack):
        self.value, self.unpack = value, unpack

    def take_copies(self, storage, copy):
        """Replace the value if it has this storage, which will be written."""
        if isinstance(self.value, Tensor) and self.value._rush_storage is storage:
            self.value = copy(self.value)

    def unpacked(self) -> Tensor:
        """Unpack the tensor.  TypeError if the hook returns another object."""
        with quiet():
            found = self.unpack(self.value)
        if not isinstance(found, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}")
        return found


class quiet(Scope):
    """A block in which no hook is called, since hooks themselves compute."""

    def __enter__(self):
        self.outer = held(PACKING, self.outer, None)
        mine.packing = 0


def packed(tensor: Tensor) -> Packed:
    """Apply the innermost pack hook to a tensor.  RuntimeError if it modifies the tensor."""
    return packed_by(tensor, *mine.hooks[-1])


def packed_by(tensor: Tensor, pack, unpack) -> Packed:
    """Apply a pack hook to a tensor; the result keeps the unpack hook."""
    version = tensor._version
    with quiet(), recording(False):
        value = pack(tensor)
    if tensor._version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not "
            "be modified by in-place operations: clone() first.")
    made = Packed(value, unpack)
    if isinstance(value, Tensor) and value._rush_storage is not None and value._rush_storage is tensor._rush_storage:
        history.lend_storage(value._rush_storage, state.weak(made))
    return made


def pack(node: GradNode) -> None:
    """Make a derived node one that unpacks its saved values before it computes its gradients."""
    if any(isinstance(value, Tensor) for value in node.saved):
        unpacking(node, [packed(handed(value, node, code)) if isinstance(value, Tensor) else value
                         for value, code in zip(node.saved, node.plan.saves)])


def unpacking(node: GradNode, saved) -> None:
    """Make the node a function of its gradients and of ``saved``, some of which is packed."""
    links = [(history.edge(v), v._rush_output) if isinstance(v, Tensor) and code >= 0 and v._rush_needs_grad else None
             for v, code in zip(node.saved, node.plan.saves)]
    node.extra = class_name(node)
    node.function = Unpacking(node.plan, saved, node.versions, links, node)
    node.kind, node.outputs, node.saved = FUNCTION, node.plan.outputs, None


class Unpacking:
    """Function of a derived node with saved values, some of them packed."""

    def __init__(self, plan, saved, versions, links, node):
        self.plan, self.saved, self.versions, self.links, self.node = plan, saved, versions, links, state.weak(node)

    def __call__(self, *gradients):
        plan = self.plan
        if self.saved is None:
            freed(None)
        read = len(self.saved) if mine.grad else len(self.saved) - plan.spare
        values = [self.value(k, k < read) for k in range(len(self.saved))]
        if mine.grad:
            return recorded_gradients(self.node(),
                                      [v if link is None else linked(v, *link) for v, link in zip(values, self.links)],
                                      gradients)
        cotangents = [gradients[k] if k < len(gradients) and gradients[k] is not None else full_of(plan.outputs[k], 0)
                      for k in plan.cotangents]
        results = plan.derived(*values, *plan.constants, *cotangents)
        results = results if isinstance(results, tuple) else (results,)
        return results if all(g is not None for g in gradients) else partly_reached(self.node(), gradients, results)

    def value(self, k, is_read=True):
        """Saved value k, unpacked; an error if it is read and was modified in place since."""
        if self.saved is None:
            freed(None)
        value = self.saved[k]
        if isinstance(value, Packed):
            return value.unpacked()
        if is_read and isinstance(value, Tensor) and counter(value).version != self.versions[k]:
            changed(value, self.plan.op.name, self.versions[k])
        return value

    def release(self):
        if not self.plan.lasting:
            self.saved = None


def linked(value: Tensor, edge: GradNode, output: int) -> Tensor:
    """Return an unpacked tensor with the history of the packed one."""
    made = alias(value)
    made._rush_needs_grad = 1
    if edge.kind == ACCUMULATE:
        made._rush_accumulator = state.weak(edge)
    else:
        made._rush_grad_node, made._rush_output = edge, output
    return made


def handed(value: Tensor, node: GradNode, code: int) -> Tensor:
    """Return a saved tensor for a hook: results without the node that saves them, since that would be a reference
    cycle."""
    return OPS["detach"](value) if code < 0 or value._rush_grad_node is node else value


class hooked(Scope):
    """A block in which ``pair`` (pack, unpack) is the innermost pair of hooks; a string disables hooks, also those of
    outer blocks.  RuntimeError if they are disabled."""

    def __init__(self, pair):
        self.pair = pair

    def __enter__(self):
        refused = isinstance(self.pair, str)
        if mine.hooks and refused != isinstance(mine.hooks[-1], str):
            raise RuntimeError(self.pair if refused else mine.hooks[-1])
        self.outer = held(HOOKS | PACKING, self.outer, None)
        mine.hooks += (self.pair,)
        mine.packing = 0 if refused else 1


def are_hooks_allowed() -> bool:
    """True if ``saved_tensors_hooks`` can be entered: False in a block of ``disable_saved_tensors_hooks``."""
    return not (mine.hooks and isinstance(mine.hooks[-1], str))


connect("_src/autograd/saved.py", pack=pack)
