"""Calls of packaged models: arguments by name and nesting to tensors one after another, and results nested again."""
from __future__ import annotations

import math

from ...utils.pytree_text import treespec_loads
from ..core.native import Tensor
from ..core.nodes import ARITHMETIC
from ..core.pytree import flatten_as, tree_unflatten


class Nesting:
    """The calling convention of a manifest.  ``plain``: results are a tensor, or a tuple of them; ``direct``:
    positional arguments are the tensors; ``measured``: some results are computed from sizes."""

    def __init__(self, manifest: dict):
        told = manifest["call"]
        self.in_spec, self.out_spec = treespec_loads(told["in_spec"]), treespec_loads(told["out_spec"])
        self.names, self.arguments, self.results = told["names"], told["arguments"], told["results"]
        self.varying, self.count = manifest["varying"], len(manifest["inputs"])
        tensors = not any(self.results)
        self.plain = tensors and (self.out_spec.is_leaf() or self.out_spec.type is tuple and len(self.results) > 1
                                  and all(one.is_leaf() for one in self.out_spec.children_specs))
        positional, named = self.in_spec.children_specs
        self.keys = list(named.context)
        self.direct = not (named.children_specs or any(self.arguments)) and all(
            one.is_leaf() for one in positional.children_specs)
        self.measured = any(row and "size" in row for row in self.results)

    def tensors(self, args: tuple, kwargs: dict) -> tuple:
        """The tensors of a call as the model takes them: arguments as they were exported, or, without keywords, the
        tensors alone in their order.  TypeError for arguments that are unknown, missing, doubled, or nested otherwise;
        ValueError for other constants than the program was exported with."""
        if not self.keys and not kwargs and self.are_leaves(args):
            return args
        self.check_names(args, kwargs)
        tree = (*args, *(kwargs[name] for name in self.names[len(args):])), {key: kwargs[key] for key in self.keys}
        try:
            leaves = flatten_as(tree, self.in_spec)
        except ValueError as error:
            raise TypeError(f"the arguments are nested otherwise than they were exported: {error}") from error
        found = []
        for k, (leaf, constant) in enumerate(zip(leaves, self.arguments, strict=True)):
            if constant is None and not isinstance(leaf, Tensor):
                raise TypeError(f"leaf {k} of the arguments must be a tensor, not {type(leaf).__name__}")
            if constant is None:
                found.append(leaf)
            elif repr(leaf) != constant:
                raise ValueError(f"leaf {k} of the arguments is {leaf!r}: the model was exported for {constant} only")
        return tuple(found)

    def are_leaves(self, args: tuple) -> bool:
        """True if arguments are the model's tensors, one after another."""
        return len(args) == self.count and all(isinstance(one, Tensor) for one in args)

    def check_names(self, args: tuple, kwargs: dict):
        """TypeError where arguments by position and name are not each of the model's once."""
        wanted = [*self.names[len(args):], *self.keys]
        if len(args) > len(self.names):
            raise TypeError(f"the model takes {len(self.names)} arguments by position, but {len(args)} were given; "
                            f"{self.told()}")
        doubled = [name for name in self.names[:len(args)] if name in kwargs]
        unknown = [name for name in kwargs if name not in wanted and name not in doubled]
        missing = [name for name in wanted if name not in kwargs]
        for what, names in (("got multiple values for", doubled), ("has no", unknown), ("misses the", missing)):
            if names:
                raise TypeError(f"the model {what} argument{'s'[:len(names) - 1]} {', '.join(names)}; {self.told()}")

    def told(self) -> str:
        """The names of arguments, for messages."""
        by_name = f"; by name {', '.join(self.keys)}" if self.keys else ""
        return f"it takes {', '.join(self.names) or 'none'}{by_name} ({self.count} tensors)"

    def nested(self, found, given: tuple):
        """The results of a call; ``given``: its tensors, where results are computed of their sizes."""
        outputs = found if type(found) is tuple else (found,)
        tensors = iter(outputs)
        sizes = [(given[k].shape[dim] - offset) // factor
                 for k, dim, factor, offset in (v["source"] for v in self.varying)] if self.measured else ()

        def result(row):
            if row is None:
                return next(tensors)
            if "output" in row:
                return outputs[row["output"]]
            return row["value"] if "value" in row else computed(row["size"], sizes)

        return tree_unflatten(map(result, self.results), self.out_spec)


def computed(formula, sizes) -> int:
    """The number that a manifest's formula is."""
    if type(formula) is int:
        return formula
    if len(formula) == 1:
        return sizes[formula[0]]
    operation, told, operands = formula
    operands = [computed(one, sizes) for one in operands]
    if operation == "sum":
        return told[1] + sum(factor * one for factor, one in zip(told[0], operands, strict=True))
    return math.prod(operands) if operation == "product" else ARITHMETIC[operation](*operands)
