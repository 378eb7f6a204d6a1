"""Programs with operators that are written as others are: PyTorch reads them, and its own run here."""
import io

import numpy as np
import pytest

judge = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

DRAWN = np.random.default_rng(0)
TABLE = DRAWN.normal(size=(5, 3)).astype("float32")
ROWS, FLAT, STARTS = np.array([[1, 2], [0, 3], [1, 1]]), np.array([1, 2, 0, 3, 1]), np.array([0, 3, 3])
IMAGE, SQUARE = DRAWN.normal(size=(1, 2, 3, 4)).astype("float32"), DRAWN.normal(size=(4, 4)).astype("float32")
CALLS = {
    **{f"bags of rows, {mode}": (lambda t, w, i, mode=mode: t.nn.functional.embedding_bag(i, w, mode=mode),
                                 (TABLE, ROWS))
       for mode in ("sum", "mean", "max")},
    **{f"bags by starts, {mode}": (lambda t, w, i, o, mode=mode: t.nn.functional.embedding_bag(
        i, w, o, mode=mode, padding_idx=1), (TABLE, FLAT, STARTS)) for mode in ("sum", "mean", "max")},
    "weighted bags": (lambda t, w, i, s: t.nn.functional.embedding_bag(i, w, mode="sum", per_sample_weights=s),
                      (TABLE, ROWS, DRAWN.normal(size=(3, 2)).astype("float32"))),
    "nearest": (lambda t, x: t.nn.functional.interpolate(x, scale_factor=2.0), (IMAGE,)),
    "nearest of a size": (lambda t, x: t.nn.functional.interpolate(x, size=(6, 12)), (IMAGE,)),
    "nearest of a row": (lambda t, x: t.nn.functional.interpolate(x[0], scale_factor=3), (IMAGE,)),
    "slogdet": (lambda t, a: tuple(t.linalg.slogdet(a)), (SQUARE,)),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b)[0], (SQUARE, SQUARE[:, :2])),
}


def module(library, call):
    class Calling(library.nn.Module):
        def forward(self, *values):
            return call(library, *values)

    return Calling()


def read(writer, reader, program):
    file = io.BytesIO()
    writer.export.save(program, file)
    file.seek(0)
    return reader.export.load(file).module()


@pytest.mark.parametrize("name", CALLS)
def test_both_ways(name):
    call, arrays = CALLS[name]
    mine, theirs = tuple(map(rl.tensor, arrays)), tuple(map(judge.tensor, arrays))
    wanted = judge.utils._pytree.tree_leaves(call(judge, *theirs))
    program = rl.export.export(module(rl, call), mine)
    assert all(str(node.target).startswith("aten.") for node in program.graph.nodes
               if node.op == "call_function" and "getitem" not in str(node.target))
    found = [program.run_decompositions().module()(*mine), read(rl, judge, program)(*theirs)]
    if name != "lstsq":  # PyTorch does not export it: the sizes of its further results are data
        found.append(read(judge, rl, judge.export.export(module(judge, call), theirs))(*mine))
    for one in found:
        for a, b in zip(rl.utils._pytree.tree_leaves(one), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


RECURRENT = [("LSTM", {}), ("LSTM", {"bidirectional": True, "num_layers": 2, "batch_first": True}),
             ("LSTM", {"proj_size": 2, "bias": False}), ("GRU", {"num_layers": 2}), ("GRU", {"bidirectional": True}),
             ("RNN", {"nonlinearity": "relu"}), ("RNN", {"batch_first": True})]


@pytest.mark.parametrize("kind,options", RECURRENT, ids=str)
def test_recurrent_networks_of_pytorch(kind, options):
    net, x = getattr(judge.nn, kind)(3, 4, **options), DRAWN.normal(size=(5, 2, 3)).astype("float32")
    made = read(judge, rl, judge.export.export(net, (judge.tensor(x),)))
    for a, b in zip(rl.utils._pytree.tree_leaves(made(rl.tensor(x))),
                    judge.utils._pytree.tree_leaves(net(judge.tensor(x))), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    made(rl.tensor(x))[0].sum().backward()
    net(judge.tensor(x))[0].sum().backward()
    for name, value in made.named_parameters():
        np.testing.assert_allclose(value.grad.numpy(), net.get_parameter(name).grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_packed_sequences_and_cells(name):
    gates, cells = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[name], 2 if name == "lstm" else 1
    data, sizes = DRAWN.normal(size=(6, 3)).astype("float32"), np.array([3, 2, 1])
    weights = [DRAWN.normal(size=s).astype("float32")
               for s in ((gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,))]
    start = DRAWN.normal(size=(1, 3, 4)).astype("float32")
    for call in ("packed", "cell"):
        found = []
        for library in (rl, judge):
            given, hx = list(map(library.tensor, weights)), library.tensor(start)
            if call == "packed":
                one = getattr(library.ops.aten, name).data(library.tensor(data), library.tensor(sizes), [hx] * 2
                                                           if cells == 2 else hx, given, True, 1, 0.0, False, False)
            else:
                one = getattr(library.ops.aten, f"{name}_cell")(library.tensor(data[:3]), [hx[0]] * 2 if cells == 2
                                                                else hx[0], *given)
            found.append([v.numpy() for v in judge.utils._pytree.tree_leaves(one)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_weights_that_do_not_fit_are_refused():
    x, weights = rl.ones(2, 1, 3), [rl.ones(16, 3), rl.ones(16, 4), rl.ones(16)]
    with pytest.raises(RuntimeError, match="do not fit"):
        rl.ops.aten.lstm(x, [rl.zeros(1, 1, 4)] * 2, weights, True, 1, 0.0, False, False, False)


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("padding", [-1, -4, 2, None])
def test_padding_of_bags_counts_from_the_end(mode, padding):
    given = TABLE, np.array([0, 4, 2, 1]), np.array([0, 2])
    a, b = (t.ops.aten.embedding_bag.padding_idx(*map(t.tensor, given), False, mode, False, None, False, padding)[0]
            for t in (rl, judge))
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    if padding == -1:
        a, b = (t.ops.aten._embedding_bag.default(*map(t.tensor, given), False, mode, False, None, False, padding)[0]
                for t in (rl, judge))
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_packets_of_norms_take_what_pytorchs_take():
    x = rl.tensor(TABLE)
    found = rl.ops.aten.group_norm(x, 1, None, None, 1e-5, False)
    assert found.tolist() == rl.ops.aten.group_norm.default(x, 1, None, None, 1e-5, False).tolist()
