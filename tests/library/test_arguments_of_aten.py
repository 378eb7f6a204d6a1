"""Operators whose arguments are others in ``torch.ops.aten`` than in the functions that users call."""
import io

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

BOTH = (rl, torch)


@pytest.mark.parametrize("row", [-1, -3, 2, 0, None])
def test_the_row_that_pads_is_exported(row):
    found = []
    for lib in BOTH:
        class Module(lib.nn.Module):
            def forward(self, w, x):
                return lib.nn.functional.embedding(x, w, row)

        w, x = lib.ones(3, 2, requires_grad=True), lib.tensor([2, 1, 0])
        program = lib.export.export(Module(), (w, x))
        node, = (n for n in program.graph.nodes if n.op == "call_function")
        node.target(w, x, *node.args[2:]).sum().backward()
        found.append((str(node.target), node.args[2:], w.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("row", [-1, -2, 2, 0])
def test_negative_rows_pad_nothing_in_aten(row):
    found = []
    for lib in BOTH:
        w = lib.ones(3, 2, requires_grad=True)
        lib.ops.aten.embedding.default(w, lib.tensor([2, 1, 0]), row).sum().backward()
        found.append(w.grad.tolist())
    assert found[0] == found[1]


def unpooled(lib, overload):
    values, at = lib.ops.aten.max_pool2d_with_indices.default(lib.arange(30.).reshape(1, 1, 5, 6), [2, 2], [2, 2])
    operator = lib.ops.aten.max_unpool2d
    return (operator.default if overload else operator)(values, at, [5, 6])


def contracted(lib, overload):
    operator, x = lib.ops.aten.tensordot, lib.arange(24.).reshape(2, 3, 4)
    return (operator.default if overload else operator)(x, x + 1, [1, 2], [1, 2])


def pooled(lib, overload):
    operator = lib.ops.aten.adaptive_max_pool2d
    return (operator.default if overload else operator)(lib.arange(16.).reshape(1, 4, 4), [2, 2])[1]


@pytest.mark.parametrize("overload", [False, True], ids=["packet", "overload"])
@pytest.mark.parametrize("call", [unpooled, contracted, pooled])
def test_calls_of_operators_that_export_spells_with_simpler_ones(call, overload):
    ours, theirs = (call(lib, overload) for lib in BOTH)
    assert ours.tolist() == theirs.tolist() and list(ours.shape) == list(theirs.shape)


def test_arguments_of_no_schema_are_refused():
    x = rl.ones(2, 2)
    for lib in BOTH:
        with pytest.raises((TypeError, RuntimeError)):
            lib.ops.aten.tensordot.default(lib.ones(2, 2), lib.ones(2, 2), [1], [0], 3)
    with pytest.raises(TypeError, match="embedding_bag"):
        rl.ops.aten.embedding_bag.default(x)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_modes_of_bags_are_exported(mode):
    class Bags(rl.nn.Module):
        def forward(self, w, x):
            return rl.nn.functional.embedding_bag(x, w, mode=mode)

    w, x = rl.arange(6.).reshape(3, 2), rl.tensor([[0, 2], [1, 1]])
    program, file = rl.export.export(Bags(), (w, x)), io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    wanted = torch.nn.functional.embedding_bag(torch.tensor(x.numpy()), torch.tensor(w.numpy()), mode=mode).tolist()
    assert program.module()(w, x).tolist() == wanted == rl.export.load(file).module()(w, x).tolist()


@pytest.mark.parametrize("args", [(), (2,), (1,), ("fro",)])
def test_norms_are_exported(args):
    class Norm(rl.nn.Module):
        def forward(self, x):
            return rl.norm(x, *args)

    x = rl.arange(6.).reshape(3, 2)
    node, = (n for n in rl.export.export(Norm(), (x,)).graph.nodes if n.op == "call_function")
    theirs = torch.ops.aten.norm.Scalar(torch.tensor(x.numpy()), *node.args[1:])
    assert str(node.target) == "aten.norm.Scalar" and theirs.item() == pytest.approx(rl.norm(x, *args).item())


def numbers(lib, *shape, above=0.0):
    return (lib.arange(6.0).reshape(shape or (2, 3)) * 5 % 7 - 3) / 2 + above


LOSSES = {
    "mse_loss": lambda lib: (numbers(lib), numbers(lib, above=1.5), 0),
    "l1_loss": lambda lib: (numbers(lib), numbers(lib, above=1.5), 2),
    "huber_loss": lambda lib: (numbers(lib), numbers(lib, above=1.5), 0, 0.5),
    "smooth_l1_loss": lambda lib: (numbers(lib), numbers(lib, above=1.5), 0, 0.5),
    "soft_margin_loss": lambda lib: (numbers(lib), lib.ones(2, 3), 0),
    "kl_div": lambda lib: (numbers(lib), numbers(lib, above=2.0), 0),
    "hinge_embedding_loss": lambda lib: (numbers(lib), -lib.ones(2, 3), 0.5, 0),
    "poisson_nll_loss": lambda lib: (numbers(lib, above=2.0), lib.ones(2, 3), False, True, 0.25, 0),
    "binary_cross_entropy_with_logits": lambda lib: (numbers(lib), lib.ones(2, 3), None, None, 0),
    "margin_ranking_loss": lambda lib: (numbers(lib), numbers(lib, above=1.0), lib.ones(2, 3), 0.5, 0),
    "cross_entropy_loss": lambda lib: (numbers(lib), lib.tensor([0, 2]), None, 0, 2, 0.1),
    "nll_loss_nd": lambda lib: (numbers(lib), lib.tensor([0, 2]), None, 0, 2),
    "elu": lambda lib: (numbers(lib), 0.5, 2.0, 3.0),
    "linalg_vector_norm": lambda lib: (numbers(lib), 1, [0], True),
    "std": lambda lib: (numbers(lib), False),
}


@pytest.mark.parametrize("overload", [False, True], ids=["packet", "overload"])
@pytest.mark.parametrize("name", LOSSES)
def test_positions_are_those_of_the_schema(name, overload):
    found = []
    for lib in BOTH:
        operator = getattr(lib.ops.aten, name)
        found.append((operator.default if overload else operator)(*LOSSES[name](lib)))
    assert list(found[0].shape) == list(found[1].shape)
    assert found[0].flatten().tolist() == pytest.approx(found[1].flatten().tolist(), rel=1e-5, abs=1e-6)


def test_a_generator_is_not_taken_for_a_write_in_place():
    x = rl.tensor([-1.0, 2.0])
    with pytest.raises(TypeError, match="generator cannot be passed on"):
        rl.ops.aten.rrelu(x, 0.1, 0.3, True, rl.Generator())
    assert x.tolist() == [-1, 2]
