"""Dataclasses as arguments and results: fields that are None are part of the nesting, in programs, files and
packages."""
import collections
import dataclasses
import io
import itertools
import json

import pytest

judge = pytest.importorskip("torch")

import rushlight as torch  # noqa: E402

from .trees import assert_same, load_again, load_package  # noqa: E402

pytree, Dim = torch.utils._pytree, torch.export.Dim
NAMES = "left", "middle", "right"


@dataclasses.dataclass
class Triple:
    left: object = None
    middle: object = None
    right: object = None


torch.export.register_dataclass(Triple, serialized_type_name="tests.dataclasses.Triple")
judge.export.register_dataclass(Triple, serialized_type_name="tests.dataclasses.Triple")


class Shifting(torch.nn.Module):
    def forward(self, one):
        left, middle, right = (None if value is None else value * (k + 2)
                               for k, value in enumerate((one.left, one.middle, one.right)))
        return Triple(right, left, middle), {"none": None, "first": one.left}


def triples(rows):
    """A Triple for each choice of fields that are None; the others are tensors of ``rows`` rows."""
    for choice in itertools.product((True, False), repeat=3):
        yield Triple(*(torch.randn(rows, 2) if chosen else None for chosen in choice))


@pytest.mark.parametrize("k", range(7))
def test_fields_that_are_none_come_back_at_their_places(k, tmp_path):
    given, other = (list(triples(rows))[k] for rows in (3, 5))
    entries = [{0: Dim.AUTO} for name in NAMES if getattr(given, name) is not None]
    instance = Triple(*(None if getattr(given, name) is None else {0: Dim.AUTO} for name in NAMES))
    for entry in (entries, instance):
        program = torch.export.export(Shifting(), (given,), dynamic_shapes=(entry,))
        assert list(program.graph_signature.user_inputs) == [f"one_{name}" for name in NAMES
                                                             if getattr(given, name) is not None]
    made = [program.module(), load_again(program).module(), program.run_decompositions().module(),
            torch.export.unflatten(program)]
    if k in (1, 5):
        made.append(load_package(program, tmp_path / "model.pt2"))
    for one in made:
        assert_same(one(other), Shifting()(other))
        for wrong in (t for t in triples(5) if [t.left is None, t.middle is None, t.right is None] != [
                other.left is None, other.middle is None, other.right is None]):
            with pytest.raises((ValueError, TypeError)):
                one(wrong)
            break


@pytest.mark.parametrize("k", range(8))
def test_nestings_are_those_of_pytorch_in_files(k):
    value = list(triples(1))[k]
    leaves, spec = pytree.tree_flatten(value)
    theirs, judged = judge.utils._pytree.tree_flatten(value)
    assert len(leaves) == len(theirs) and spec.context == judged.context
    text = judge.utils._pytree.treespec_dumps(judged)
    assert json.loads(pytree.treespec_dumps(spec)) == json.loads(text)
    assert_same(pytree.tree_unflatten(leaves, pytree.treespec_loads(text)), value)
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(value)] == [
        judge.utils._pytree.keystr(path) for path, _ in judge.utils._pytree.tree_leaves_with_path(value)]


class Plain:
    def __init__(self, x, y=7):
        self.x, self.y = x, y


def test_fields_are_named_or_dropped():
    @dataclasses.dataclass
    class Dropped:
        x: object
        y: object = 5
        z: object = dataclasses.field(default=None, init=False)

    pytree.register_dataclass(Dropped, drop_field_names=["y"])
    found = pytree.tree_map(lambda n: n + 1, Dropped(1, 2))
    assert (found.x, found.y) == (2, 5)
    pytree.register_dataclass(Plain, field_names=["x", "y"])
    assert vars(pytree.tree_map(lambda n: n + 1, Plain(1))) == {"x": 2, "y": 8}


def test_fields_that_do_not_fit_are_refused():
    @dataclasses.dataclass
    class Two:
        x: object
        y: object = 5

    for register in (pytree.register_dataclass, judge.utils._pytree.register_dataclass):
        for kind, names, error in ((Two, ["x"], "does not include all dataclass fields"),
                                   (Two, ["x", "y", "z"], "does not include all dataclass fields"),
                                   (collections.UserString, None, "field_names must be specified")):
            with pytest.raises(ValueError, match=error):
                register(kind, field_names=names)
    torch.export.register_dataclass(Two)
    with pytest.raises(ValueError, match="already registered"):
        torch.export.register_dataclass(Two)


def test_fields_that_are_none_may_be_children():
    @dataclasses.dataclass
    class Kept:
        x: object
        y: object = None

    torch._export.utils.register_dataclass_as_pytree_node(Kept, return_none_fields=True)
    leaves, spec = pytree.tree_flatten(Kept(3))
    assert leaves == [3, None] and spec.context == [["x", "y"], []]
    assert pytree.tree_unflatten(leaves, pytree.treespec_loads(pytree.treespec_dumps(spec))) == Kept(3)


def test_files_of_pytorch_with_fields_that_are_none():
    class Module(judge.nn.Module):
        def forward(self, one):
            return Triple(one.right + 1, None, one.left * 2)

    file = io.BytesIO()
    judge.export.save(judge.export.export(Module(), (Triple(judge.ones(2), None, judge.zeros(2)),)), file)
    file.seek(0)
    found = torch.export.load(file).module()(Triple(torch.ones(2), None, torch.zeros(2)))
    assert found.left.tolist() == [1, 1] and found.middle is None and found.right.tolist() == [2, 2]


def test_state_of_programs_is_found_by_its_nodes():
    utils = torch._export.utils

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.plain = torch.nn.Parameter(torch.ones(2)), torch.full((2,), 3.0)
            self.register_buffer("kept", torch.zeros(2))
            self.register_buffer("dropped", torch.full((2,), 2.0), persistent=False)

        def forward(self, x):
            return x * self.weight + self.kept + self.dropped + self.plain

    module = Module()
    program = torch.export.export(module, (torch.ones(2),))
    nodes = program.graph.find_nodes(op="placeholder")
    found = [(utils.get_param(program, n), utils.get_buffer(program, n), utils.get_lifted_tensor_constant(program, n))
             for n in nodes]
    values = [[value.tolist() for value in column if value is not None] for column in zip(*found)]
    assert values == [[[1, 1]], [[0, 0], [2, 2]], [[3, 3]]]
    assert [sum(value is not None for value in row) for row in found] == [1, 1, 1, 1, 0]
