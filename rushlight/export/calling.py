"""Calls of exported programs: flatten arguments, check inputs, unflatten results."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.core.pytree import flatten_as, tree_flatten, tree_structure, tree_unflatten
from ..fx import CodeGen, GraphModule
from ..fx.code import PythonCode, Writer
from ..nn import Module
from .conditions import plain, sizes_in, text, value
from .dims import Hint


class GuardFailed(AssertionError, RuntimeError):
    """An input that a program was not exported for."""


def flattened(given, spec) -> list:
    """The leaves of (arguments, keywords); keys of dicts may come in any order.  ValueError where they are nested
    otherwise than a program's were."""
    try:
        return flatten_as(given, spec)
    except ValueError as error:
        raise ValueError(f"the exported program takes arguments nested as {spec}, not as {tree_structure(given)}: "
                         f"{error}") from error


class fx_pytree:
    """Functions that a program's source calls to flatten its arguments."""

    @staticmethod
    def tree_flatten_spec(given, spec):
        args, kwargs = given
        return flattened((tuple(args), kwargs), spec)


class pytree:
    """Functions that a program's source calls to unflatten its results."""

    @staticmethod
    def tree_unflatten(leaves, spec):
        return tree_unflatten(list(leaves), spec)


class Nested(CodeGen):
    """Writes a graph of flat inputs and outputs as a function of nested ones: ``names`` are its parameters, the last
    ``keywords`` of them by name."""

    def __init__(self, names, keywords, in_spec, out_spec):
        self.names, self.keywords, self.in_spec, self.out_spec = list(names), keywords, in_spec, out_spec

    def _gen_python_code(self, graph, root_module, verbose=False, **shown) -> PythonCode:
        writer = Writer(graph, root_module, verbose, **shown)
        made = writer.write()
        made.globals.update(fx_pytree=fx_pytree, pytree=pytree)
        _, _, body = made.src.partition(":\n")
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        for node in placeholders:
            if node.name != node.target:
                body = body.replace(f"    {node.name} = {node.target}\n", "", 1)
        count = len(self.names) - self.keywords
        positional = ", ".join(self.names[:count])
        named = ", ".join(f"{name!r}:{name}" for name in self.names[count:])
        inputs = "".join(f"{node.name}, " for node in placeholders)
        unpack = (f"    {inputs[:-1]} = fx_pytree.tree_flatten_spec(([{positional}], {{{named}}}), "
                  f"{root_module}._in_spec)\n") if placeholders else ""
        lines, result = ("\n" + body.rstrip()).rsplit("\n    return ", 1)  # the last line, whatever its text has in it
        lines = lines[1:] + "\n" if lines else ""
        parameters = [root_module, *self.names[:count], *(["*"] if self.keywords else []), *self.names[count:]]
        made.src = (f"\n\n\ndef forward({writer.join_parameters(parameters)}):\n{unpack}{lines}    return "
                    f"pytree.tree_unflatten({result}, {root_module}._out_spec)\n    ")
        return made

    def process_inputs(self, *args):
        return tree_flatten(args)[0]

    def process_outputs(self, outputs):
        return tree_unflatten(list(outputs), self.out_spec)


class Guards(Module):
    """Checks the inputs of a program: ``expected`` has (shape, dtype, dimensions that vary) of each tensor,
    (None, example, {None: hint}) of an int that varies, and (None, value, {}) of other inputs; ``names`` what the
    program calls them; ``conditions`` what else it assumes of sizes."""

    _is_impure = True

    def __init__(self, expected, names, conditions=()):
        super().__init__()
        self.expected, self.names, self.conditions = expected, names, tuple(conditions)

    def forward(self, *leaves):
        """RuntimeError for an input that the program was not exported for."""
        sizes: dict = {}
        for name, leaf, (shape, dtype, varying) in zip(self.names, leaves, self.expected):
            if None in varying:
                self.check_number(name, leaf, varying[None])
                continue
            if shape is None:
                if leaf is not dtype and leaf != dtype:
                    raise GuardFailed(f"Guard failed: {name} == {dtype!r}, but got {leaf!r}: the program was exported "
                                      "for this value only")
                continue
            if not isinstance(leaf, Tensor) or leaf.dim() != len(shape) or leaf.dtype != dtype:
                raise GuardFailed(f"Guard failed: input {name} must be a tensor of {len(shape)} dimensions and {dtype}")
            for dim, (size, wanted) in enumerate(zip(leaf.shape, shape)):
                self.check_size(f"{name}.size()[{dim}]", size, wanted, varying.get(dim), sizes)
        self.check_conditions(leaves)

    def check_conditions(self, leaves):
        """Check the guards on sizes beyond their declared ranges."""
        for condition in self.conditions:
            found = {s: s.value_in(leaves) for s in sizes_in(condition)}
            if not value(condition, found):
                told = text(plain(condition), lambda s: s.text(self.names))
                raise GuardFailed(f"Guard failed: {told}, but got {', '.join(map(str, found.values()))}")

    @staticmethod
    def check_number(name, number, free):
        """GuardFailed unless an input is an int within the bounds of its entry in ``dynamic_shapes``."""
        if not isinstance(number, int):
            raise GuardFailed(f"Guard failed: input {name} must be an int, but got {number!r}")
        for fits, relation, limit in ((free.min is None or number >= free.min, ">=", free.min),
                                      (free.max is None or number <= free.max, "<=", free.max)):
            if not fits:
                raise GuardFailed(f"Guard failed: {name} {relation} {limit}, but got {number}")

    def check_size(self, place, size, wanted, free, sizes):
        if free is None:
            if size != wanted:
                raise GuardFailed(f"Guard failed: {place} == {wanted}, but got {size}: the program was exported for "
                                  f"{wanted}. Name that dimension in dynamic_shapes when you export.")
        else:
            if size < (free.min or 0) or free.max is not None and size > free.max:
                bound = f">= {free.min}" if size < (free.min or 0) else f"<= {free.max}"
                raise GuardFailed(f"Guard failed: {place} {bound}, but got {size}: {free} allows {free.min} to "
                                  f"{free.max}")
            if isinstance(free, Hint):
                return
            value, rest = divmod(size - free.offset, free.factor)
            if rest:
                raise GuardFailed(f"Guard failed: {place} == {free.__name__}, but got {size}")
            known = sizes.setdefault(free.root.__name__, (value, place))
            if known[0] != value:
                raise GuardFailed(f"Guard failed: {place} == {known[0] * free.factor + free.offset}, but got {size}: "
                                  f"sizes named {free.root.__name__!r} differ, {known[1]} is another")


def refusing(name):
    def refuse(self, mode: bool = True):
        raise NotImplementedError(
            f"Calling {name}() is not supported yet: an exported program has fixed whether it trains. Export the "
            "module "
            "again.")

    refuse.__name__ = name
    return refuse


class ExportedModule(GraphModule):
    """What ``ExportedProgram.module()`` gives: called like the original, with the same state."""

    train, eval = refusing("train"), refusing("eval")
