"""Drawn trees of arguments and results: modules that take and return them, and calls in every way that they allow."""
import collections
import dataclasses
import io
import random

import rushlight as torch

pytree = torch.utils._pytree
Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    left: object
    right: object


torch.export.register_dataclass(Record, serialized_type_name="tests.trees.Record")
pytree._register_namedtuple(Pair, serialized_type_name="tests.trees.Pair")
CONSTANTS = (None, 0, -3, 2.5, True, False, "text", "", 1 << 40)
SHAPES = ((), (2,), (2, 3), (1, 3))


def draw_tree(rng: random.Random, draw_leaf, depth: int):
    """A tree of at most ``depth`` levels of containers."""
    kind = rng.choice(("leaf", "leaf", "tuple", "list", "dict", "named", "record", "ordered")) if depth else "leaf"
    if kind == "leaf":
        return draw_leaf()
    if kind in ("named", "record"):
        return {"named": Pair, "record": Record}[kind](*(draw_tree(rng, draw_leaf, depth - 1) for _ in range(2)))
    children = [draw_tree(rng, draw_leaf, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind in ("dict", "ordered"):
        keys = rng.sample(("p", "q", "a b", 7, "z"), len(children))
        return (dict if kind == "dict" else collections.OrderedDict)(zip(keys, children))
    return (tuple if kind == "tuple" else list)(children)


class Drawn(torch.nn.Module):
    """A module that computes by drawn Python text: what it returns is drawn from its arguments, its state, what it
    computes of them, and constants."""

    def __init__(self, rng: random.Random, given: dict):
        super().__init__()
        self.register_buffer("scale", torch.tensor(1.5))
        self.weight = torch.nn.Parameter(torch.tensor([0.5]))
        leaves = [(name + pytree.keystr(path), leaf) for name, value in given.items()
                  for path, leaf in pytree.tree_leaves_with_path(value)]
        tensors = [text for text, leaf in leaves if isinstance(leaf, torch.Tensor)]
        numbers = [text for text, leaf in leaves if isinstance(leaf, (int, float))]
        parts = [f"{k + 1} * {text}.sum()" for k, text in enumerate(tensors)] + [f"{text} % 8" for text in numbers]
        total = " + ".join(["self.scale * 2", *parts])
        sources = [["total", "scaled"], ["total + 1", "total + 2"], ["self.scale", "self.weight"],
                   [text for text, _ in leaves], [f"{text} * 2" for text in tensors], [repr(one) for one in CONSTANTS]]
        results = written(draw_tree(rng, lambda: Text(rng.choice(rng.choice([one for one in sources if one]))), 3))
        defaults = "a=None, b=None, *, c=None, d=2, e=None"
        self.text = f"def forward(self, {defaults}):\n    total = {total}\n    scaled = total * self.weight\n" \
                    f"    return {results}\n"
        space = {"Pair": Pair, "Record": Record, "OrderedDict": collections.OrderedDict}
        exec(self.text, space)
        self.function = space["forward"]

    def forward(self, a=None, b=None, *, c=None, d=2, e=None):
        return self.function(self, a, b, c=c, d=d, e=e)


class Text(str):
    """An expression."""

    __slots__ = ()


def written(tree) -> str:
    """A tree of expressions as one expression."""
    if isinstance(tree, Text):
        return tree
    if isinstance(tree, Pair):
        return f"Pair({', '.join(map(written, tree))})"
    if isinstance(tree, Record):
        return f"Record({written(tree.left)}, {written(tree.right)})"
    if isinstance(tree, dict):
        text = "{" + ", ".join(f"{key!r}: {written(one)}" for key, one in tree.items()) + "}"
        return f"OrderedDict({text})" if isinstance(tree, collections.OrderedDict) else text
    inner = "".join(f"{written(one)}, " for one in tree)
    return f"[{inner}]" if isinstance(tree, list) else f"({inner})"


class Case:
    """A drawn module and call: ``args``, ``kwargs``."""

    def __init__(self, seed: int):
        rng = self.rng = random.Random(seed)
        def leaf():
            if rng.random() < 0.35:
                return rng.choice(CONSTANTS)
            if made and rng.random() < 0.2:
                return rng.choice(made)  # the same tensor twice
            made.append(torch.randn(rng.choice(SHAPES)))
            return made[-1]

        made: list = []
        torch.manual_seed(seed)
        values = {name: draw_tree(rng, leaf, 3) for name in "abcde"}
        self.args = tuple(values[name] for name in "ab"[:rng.randint(0, 2)])
        kwargs = [name for k, name in enumerate("abcde") if k >= len(self.args) and rng.random() < 0.7]
        rng.shuffle(kwargs)
        self.kwargs = {name: values[name] for name in kwargs}
        self.module = Drawn(rng, {name: values[name] for name in (*"ab"[:len(self.args)], *kwargs)})

    def calls(self) -> list:
        """Calls that mean the same: keywords, and keys of dicts, in other orders, tensors with other numbers."""
        found = [(self.args, self.kwargs)]
        for one_each in (True, True, False):  # a tensor that stands at two places is one again, or two
            names = list(self.kwargs)
            self.rng.shuffle(names)
            again = {} if one_each else None
            found.append((tuple(self.renew(one, again) for one in self.args),
                          {name: self.renew(self.kwargs[name], again) for name in names}))
        return found

    def renew(self, tree, again: dict | None):
        """The tree with other tensors, one for each that ``again`` has or gets, whose dicts are in other orders."""
        if isinstance(tree, torch.Tensor):
            if again is None:
                return torch.randn(tuple(tree.shape))
            if id(tree) not in again:
                again[id(tree)] = torch.randn(tuple(tree.shape))
            return again[id(tree)]
        if isinstance(tree, dict):
            keys = list(tree)
            self.rng.shuffle(keys)
            return type(tree)((key, self.renew(tree[key], again)) for key in keys)
        children, spec = pytree.tree_flatten(tree, is_leaf=lambda one: one is not tree)
        return tree if spec.is_leaf() else pytree.tree_unflatten([self.renew(one, again) for one in children], spec)


def load_again(program):
    """The program after it was written to a file and read."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def load_package(program, path):
    """The program as a package."""
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))
    return torch._inductor.aoti_load_package(path)


def assert_same(found, wanted):
    """Trees of the same nesting, tensors of the same values and dtypes, constants of the same values and types."""
    leaves, spec = pytree.tree_flatten(found)
    others, its = pytree.tree_flatten(wanted)
    assert spec == its, (found, wanted)
    for one, other in zip(leaves, others):
        if isinstance(one, torch.Tensor):
            assert isinstance(other, torch.Tensor) and one.dtype is other.dtype
            torch.testing.assert_close(one, other, check_stride=False)
        else:
            assert type(one) is type(other) and one == other
