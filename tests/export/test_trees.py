"""Drawn trees of arguments and results keep their nesting in programs and files, and sizes are said to vary by it."""
import random

import pytest

import rushlight as torch

from .trees import Case, Pair, Record, assert_same, draw_tree, load_again, pytree

Dim = torch.export.Dim


@pytest.mark.parametrize("seed", range(24))
def test_drawn_trees_go_through_programs_and_files(seed):
    case = Case(seed)
    program = torch.export.export(case.module, case.args, case.kwargs)
    for one in (program.module(), load_again(program).module()):
        for args, kwargs in case.calls():
            assert_same(one(*args, **kwargs), case.module(*args, **kwargs))


class Sums(torch.nn.Module):
    def forward(self, a, *rest, k, **named):
        return sums((a, rest, k, [named[name] for name in sorted(named)]))


def sums(tree) -> list:
    """The sums of a tree's tensors."""
    if isinstance(tree, torch.Tensor):
        return [tree.sum(0)]
    if isinstance(tree, Record):
        tree = tree.left, tree.right
    children = [tree[key] for key in (7, "a b", "p", "q", "z") if key in tree] if isinstance(tree, dict) else tree
    return [one for child in children for one in sums(child)] if isinstance(children, (tuple, list)) else []


def draw_arguments(rng):
    def leaf():
        return torch.ones(rng.randint(2, 5), 2) if rng.random() < 0.8 else rng.choice((None, 3, "text"))

    tree = [draw_tree(rng, leaf, 2) for _ in range(6)]
    kwargs = [("k", tree[3]), ("u", tree[4]), ("v", tree[5])]
    rng.shuffle(kwargs)
    return (tree[0], *tree[1:rng.randint(1, 3)]), dict(kwargs)


def entry_of(rng, tree, free: list):
    """An entry of ``dynamic_shapes`` for a tree; the tensors that it lets vary are added to ``free``."""
    if isinstance(tree, torch.Tensor):
        if rng.random() < 0.5:
            return rng.choice((None, {}, {0: None}, {0: Dim.STATIC}, {0: tree.shape[0]}, (None, None), [None, 2]))
        free.append(tree)
        return rng.choice(({0: Dim.DYNAMIC}, {0: Dim.AUTO}, (Dim.DYNAMIC, None), [Dim.AUTO, 2],
                           {0: Dim(f"n{len(free)}"), 1: 2}))
    if isinstance(tree, dict):
        keys = list(tree)
        rng.shuffle(keys)
        return {key: entry_of(rng, tree[key], free) for key in keys}
    if isinstance(tree, Record):
        return [entry_of(rng, one, free) for one in (tree.left, tree.right) if one is not None]
    if isinstance(tree, (tuple, list)):
        if rng.random() < 0.15:
            return None
        found = [entry_of(rng, one, free) for one in tree]
        return Pair(*found) if isinstance(tree, Pair) else type(tree)(found)
    return None


@pytest.mark.parametrize("seed", range(24))
def test_entries_of_drawn_trees_are_matched_by_names_and_keys(seed):
    rng, free = random.Random(seed), []
    args, kwargs = draw_arguments(rng)
    rest = {name: kwargs[name] for name in kwargs if name != "k"}
    bound = {"a": args[0], **({"rest": args[1:]} if len(args) > 1 else {}), "k": kwargs["k"], "named": rest}
    shapes = {name: entry_of(rng, value, free) for name, value in bound.items()}
    if rng.random() < 0.5:
        shapes = tuple(shapes.values())
    else:
        shapes = dict(rng.sample(list(shapes.items()), len(shapes)))
    module = torch.export.export(Sums(), args, kwargs, dynamic_shapes=shapes).module()
    leaves, spec = pytree.tree_flatten((args, kwargs))
    for k, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        changed, others = pytree.tree_unflatten([*leaves[:k], torch.ones(9, 2), *leaves[k + 1:]], spec)
        if any(leaf is one for one in free):
            assert_same(module(*changed, **others), Sums()(*changed, **others))
        else:
            with pytest.raises(RuntimeError, match="Guard failed"):
                module(*changed, **others)


class Two(torch.nn.Module):
    def forward(self, d, y=None):
        one, other = d.values() if isinstance(d, dict) else (d.left, d.right) if isinstance(d, Record) else d
        return one.sum(0) + other.sum(0)


FREE, PLAIN = {0: Dim.DYNAMIC}, torch.ones(3, 2)
DICT, LIST, TUPLE, PAIR, RECORD = ({"p": PLAIN, "q": PLAIN}, [PLAIN, PLAIN], (PLAIN, PLAIN), Pair(PLAIN, PLAIN),
                                   Record(PLAIN, PLAIN))
WRONG = [  # argument, dynamic_shapes, error, its text
    (DICT, ({"p": FREE},), "UserError", r"`inputs\[0\]` has 2 elements, but `dynamic_shapes\[0\]` has 1"),
    (DICT, ({"p": FREE, "r": None},), "UserError", r"`inputs\[0\]` has keys \['p', 'q'\], but .* \['p', 'r'\]"),
    (DICT, {"d": [FREE, None]}, "UserError", r"`inputs\['d'\]` is a <class 'dict'>, but .* is a <class 'list'>"),
    (DICT, {"d": {"p": {"x": FREE}, "q": None}}, "AssertionError", "Expected index to be int, got 'x'"),
    (DICT, {"e": None}, "UserError", r"must be the arg names \['d'\] of `inputs`, but here they are \['e'\]"),
    (DICT, {"d": None, "y": None}, "UserError", "must be the arg names"),
    (DICT, (None, None), "UserError", "`inputs` has 1 elements, but `dynamic_shapes` has 2"),
    (LIST, ((FREE, None),), "UserError", r"is a <class 'list'>, but .* is a <class 'tuple'>"),
    (LIST, ([FREE],), "UserError", "has 2 elements, but .* has 1"),
    (LIST, (FREE,), "UserError", "is a <class 'list'>, but .* is a <class 'dict'>"),
    (TUPLE, ([FREE, None],), "UserError", "is a <class 'tuple'>, but .* is a <class 'list'>"),
    (PAIR, ((FREE, None),), "UserError", "Pair'>, but .* is a <class 'tuple'>"),
    (RECORD, ({"left": FREE, "right": None},), "UserError", "Record'>, but .* is a <class 'dict'>"),
    (TUPLE, ((FREE, 3),), "UserError", r"Unexpected input tensor shape 3 specified at `dynamic_shapes\[0\]\[1\]`"),
    (TUPLE, ((FREE, Dim.DYNAMIC),), "UserError", "Unexpected input tensor shape Dim.DYNAMIC"),
    (TUPLE, ((FREE, {0: "n"}),), "UserError", "Unexpected dimension 'n' mapped to index 0"),
    (TUPLE, ((FREE, (None,)),), "UserError", r"to have the same length as the actual tensor shape"),
    (TUPLE, ((FREE, {0: 4}),), "ConstraintViolationError", "Static shape constraint of 4 does not match input size"),
    (TUPLE, ((FREE, {2: Dim.DYNAMIC}),), "ValueError", "names dimension 2"),
    (TUPLE, "d", "AssertionError", "expected dynamic_shapes to be dict, tuple, or list"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_entries_that_do_not_match_are_refused(number):
    value, shapes, error, text = WRONG[number]
    with pytest.raises(Exception, match=text) as found:
        torch.export.export(Two(), (value,), dynamic_shapes=shapes)
    assert type(found.value).__name__ == error


def test_constants_take_no_sizes():
    for entry in ({0: Dim.DYNAMIC}, {}):
        with pytest.raises(AssertionError, match=r"`inputs\[1\]` is 3, which has no sizes"):
            torch.export.export(Two(), (TUPLE, 3), dynamic_shapes=(None, entry))
    with pytest.raises(RuntimeError, match="Cannot associate shape Dim.DYNAMIC"):
        torch.export.export(Two(), (TUPLE, 2.5), dynamic_shapes=(None, Dim.DYNAMIC))
    for entry in (None, Dim.STATIC, Dim.AUTO, 3):
        torch.export.export(Two(), (TUPLE, 3), dynamic_shapes=(None, entry))


def test_empty_dynamic_shapes_fix_all_sizes():
    for shapes in (None, (), {}, []):
        module = torch.export.export(Two(), (TUPLE,), dynamic_shapes=shapes).module()
        with pytest.raises(RuntimeError, match="Guard failed"):
            module((PLAIN, torch.ones(4, 2)))


class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        return x - 10 * y + self.weight


def test_a_tensor_that_is_several_arguments_is_an_input_for_each():
    model, x, y = Difference(), torch.ones(2), torch.full((2,), 2.0)
    for example in ((x, x), (model.weight, x), (x, model.weight), (model.weight, model.weight)):
        module = torch.export.export(model, example).module()
        for call in ((x, y), (y, x), (x, x), (model.weight, y)):
            assert module(*call).tolist() == model(*call).tolist()


def test_arguments_that_were_exported_by_name_are_taken_by_name_alone():
    x, y = torch.ones(2), torch.full((2,), 2.0)
    module = torch.export.export(Difference(), (), {"y": y, "x": x}).module()
    assert module(x=x, y=y).tolist() == module(y=y, x=x).tolist() == [-18.0, -18.0]
    for args, kwargs in (((x, y), {}), ((x,), {"y": y}), ((), {"x": x}), ((), {"x": x, "y": y, "z": y})):
        with pytest.raises(TypeError):
            module(*args, **kwargs)


def test_trees_of_other_classes_or_keys_are_refused():
    for value, others in ((DICT, [{"p": PLAIN}, {"p": PLAIN, "r": PLAIN}, LIST]), (LIST, [TUPLE, [PLAIN], PLAIN]),
                          (PAIR, [TUPLE, DICT]), (RECORD, [PAIR, LIST])):
        module = torch.export.export(Two(), (value,)).module()
        for other in others:
            with pytest.raises(ValueError, match="takes arguments nested as"):
                module(other)
