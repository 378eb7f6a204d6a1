"""Node: one step of a user's graph."""
from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any, Union

from .._src.autograd.mode import set_recording
from .._src.core.native import Op
from .immutable_collections import immutable_dict, immutable_list

OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")


def map_aggregate(a, fn):
    """``a`` with ``fn`` applied to every leaf of nested tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(v, fn) for v in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(v, fn) for v in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(v, fn) for v in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """``a`` with each Node within nested containers replaced by ``fn(node)``."""
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def plain(value):
    """Return arguments in new plain tuples, lists and dicts, which functions may mutate."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    return {k: plain(v) for k, v in value.items()} if isinstance(value, immutable_dict) else value


class Node:
    """One step of a Graph: ``op`` says what kind, ``target`` what is called or fetched, ``args`` and ``kwargs`` with
    what.

    ``op`` is one of "placeholder", "get_attr", "call_function", "call_method", "call_module", "output".  ``users`` are
    the nodes that read this one; ``meta`` is a dict for whatever passes know of it.
    """

    def __init__(self, graph, name, op, target, args=(), kwargs=None, return_type=None):
        if op not in OPCODES:
            raise AssertionError(f"there is no opcode {op!r}: choose one of {', '.join(OPCODES[:-1])}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {types_name(target)} but a "
                "Callable is expected")
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {types_name(target)} but a str is "
                "expected")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users, self._input_nodes, self.meta = {}, {}, {}
        self._args, self._kwargs = (), immutable_dict()
        self._prev = self._next = self
        self._erased = False
        self._update(tuple(args), dict(kwargs or {}))

    # --- the list that a graph is -------------------------------------------------------------------------------------
    next = property(lambda self: self._next, doc="The node after this one.")
    prev = property(lambda self: self._prev, doc="The node before this one.")

    def prepend(self, x: "Node"):
        """Moves ``x`` before this node.  AssertionError if it is of another graph."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: "Node"):
        """Moves ``x`` after this node."""
        if self is not x:
            self._next.prepend(x)

    def _unlink(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other):
        return self.position() < other.position()

    def position(self) -> int:
        """How many nodes of the graph come before this one."""
        return next(k for k, node in enumerate(self.graph.nodes) if node is self)

    # --- arguments ----------------------------------------------------------------------------------------------------
    args = property(lambda self: self._args, lambda self, args: self._update(tuple(args), self._kwargs),
                    doc="Positional arguments; assign to change them.")
    kwargs = property(lambda self: self._kwargs, lambda self, kwargs: self._update(self._args, dict(kwargs)),
                      doc="Keyword arguments; assign to change them.")

    def _update(self, args, kwargs):
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def note(node):
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        self._args, self._kwargs = map_arg(args, note), map_arg(kwargs, note)

    def update_arg(self, idx: int, arg):
        """Replaces the positional argument at ``idx``."""
        args = list(self._args)
        args[idx] = arg
        self.args = args

    def insert_arg(self, idx: int, arg):
        """Puts a positional argument in before the one at ``idx``."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg):
        """Replaces a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    @property
    def all_input_nodes(self) -> list:
        """The nodes that this one reads, each once."""
        return list(self._input_nodes)

    def replace_input_with(self, old_input: "Node", new_input: "Node"):
        """Reads ``new_input`` wherever this node read ``old_input``."""
        def choose(node):
            return new_input if node is old_input else node

        self._update(map_arg(self._args, choose), map_arg(self._kwargs, choose))

    def replace_all_uses_with(self, replace_with: "Node", delete_user_cb=lambda user: True, *,
                              propagate_meta=False) -> list:
        """Makes every user of this node read ``replace_with``; the users that were changed."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- what it is ---------------------------------------------------------------------------------------------------
    @property
    def stack_trace(self):
        """Source location of this node in the user's program, if recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether removing this node would change more than its own value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return (writes(self.target) or self.target in IMPURE or getattr(self.target, "effect", False)
                    or impure_random and is_random(self.target))
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_module":
            module = self.graph.owning_module.get_submodule(
                self.target) if self.graph.owning_module is not None else None
            return getattr(module, "_is_impure", False)
        return False

    def format_node(self, placeholder_names=None, maybe_return_typename=None) -> str | None:
        """This node as a line of the graph's listing; None for a placeholder when ``placeholder_names`` collects
        them.  The annotation of an output replaces the item of the list ``maybe_return_typename``."""
        if self.op == "placeholder":
            shown = self.target + (f": {type_text(self.type)}" if self.type is not None else "")
            if placeholder_names is not None:
                placeholder_names.append(shown)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]{default}"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        shown = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self.target_text()}]"
        if self.op == "get_attr":
            return shown
        return f"{shown}(args = {format_value(self.args)}, kwargs = {format_value(dict(self.kwargs))})"

    def target_text(self) -> str:
        """The target as text: a path, or the qualified name of a function."""
        if isinstance(self.target, str):
            return self.target
        from .code import qualified_name
        return qualified_name(self.target)

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """(args, kwargs) with every argument under its parameter's name where the signature is known, else None."""
        import inspect
        if self.op == "call_function":
            signature = self.target.signature if isinstance(self.target, Op) else signature_of(self.target)
        elif self.op == "call_module":
            signature = inspect.signature(root.get_submodule(self.target).forward)
        else:
            return None
        if signature is None:
            return None
        try:
            bound = signature.bind(*self.args, **self.kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        if not normalize_to_only_use_kwargs:
            return ArgsKwargsPair(bound.args, bound.kwargs)
        return ArgsKwargsPair((), dict(bound.arguments))

    def __repr__(self):
        return self.name

    def __reduce__(self):
        raise TypeError("a Node cannot be pickled or copied by itself: copy its Graph, or use graph.node_copy(node)")

    def __deepcopy__(self, memo):
        return memo.get(id(self), self)


class ArgsKwargsPair(tuple):
    """What ``normalized_arguments`` gives: ``args`` and ``kwargs``."""

    def __new__(cls, args, kwargs):
        return super().__new__(cls, (args, kwargs))

    args = property(lambda self: self[0])
    kwargs = property(lambda self: self[1])


def types_name(value) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


def signature_of(function):
    import inspect
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def operator_under(target):
    """The declared operator that a target is (an overload of ``torch.ops``, or an operator itself), or None."""
    return target if isinstance(target, Op) else getattr(target, "op", None)


def writes(target) -> bool:
    """Whether a call writes into an argument."""
    found, schema = operator_under(target), getattr(target, "schema", None)
    return isinstance(found, Op) and found.traits.get("into") is not None or getattr(schema, "is_mutable", False)


def is_random(target) -> bool:
    """Whether a call draws random numbers, and so moves the stream on."""
    found = operator_under(target)
    packet = getattr(target, "overloadpacket", None)
    from .._ops import known_overloads
    return isinstance(found, Op) and bool(found.traits.get("random")) or packet is not None and any(
        argument.base == "Generator" for known in known_overloads(packet).values() for argument in known.arguments)


IMPURE = {set_recording, setattr, operator.setitem, operator.delitem, print, *(getattr(operator, name) for name in (
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift",
    "imatmul"))}


def has_side_effect(fn):
    """Marks a function so that dead-code elimination keeps calls of it; usable as a decorator."""
    IMPURE.add(fn)
    return fn


def format_value(value) -> str:
    """Arguments as text, nodes as %name."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(format_value, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {format_value(v)}' for k, v in value.items())}}}"
    return str(value)


def type_text(annotation) -> str:
    """An annotation as Python writes it."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return (annotation.__name__ if annotation.__module__ == "builtins"
                else f"{annotation.__module__}.{annotation.__qualname__}".replace("rushlight._src.core.native.objects.",
                                                                                  "torch."))
    return str(annotation)


Target = Union[Callable[..., Any], str]  # what a node calls, as annotations name it
Argument = Union[Node, tuple, list, dict, slice, range, str, int, float, bool, complex, None]
