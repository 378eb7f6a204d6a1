"""Tensors: printing, indexing, exchange, dtypes, errors; torch is the judge."""
import copy
import pickle

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("expression", [
    "t.tensor([1.0, 2.5, -3.0])", "t.arange(12).reshape(3, 4)", "t.tensor([[1e-5, 1.0], [3e8, 2.0]])", "t.zeros(0, 3)",
    "t.tensor(3)",
    "t.tensor([True, False])", "t.ones(2, 2, dtype=t.float64)", "t.arange(2000)", "t.ones(3, requires_grad=True) * 2",
    "t.tensor([float('nan'), float('inf'), 1.0])",
    "t.ones(2, 3, 4)", "t.tensor([1+2j, 3-1j])"])
def test_printing(expression):
    ours, theirs = (repr(eval(expression, {"t": t})) for t in (rl, torch))
    assert ours.replace("MulBackward0", "").split("grad_fn")[0] == theirs.replace("MulBackward0",
                                                                                  "").split("grad_fn")[0]


INDICES = ["0", "-1", "1:", "::2", "..., 0", ":, 1:3", "None, 0", "[0, 2]", "[0, 2], [1, 3]", ":, [1, 0]", "x > 5",
           "t.tensor([2, 0])", "1, ..., None", "[[0], [1]], [1, 2]",
           "t.tensor([True, False, True])", "slice(None), t.tensor([[0, 1], [2, 3]])"]


@pytest.mark.parametrize("index", INDICES)
def test_indexing(index):
    results = []
    for t in (rl, torch):
        x = t.arange(12).reshape(3, 4)
        results.append(eval(f"x[{index}]", {"x": x, "t": t}).tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("index", INDICES)
def test_assignment(index):
    results = []
    for t in (rl, torch):
        x = t.arange(12).reshape(3, 4)
        exec(f"x[{index}] = -1", {"x": x, "t": t})
        results.append(x.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("expression,error", [
    ("x[5]", IndexError), ("x[0, 0, 0]", IndexError), ("x.view(5)", RuntimeError), ("x + t.ones(7)", RuntimeError),
    ("x.sum(3)", IndexError), ("x @ x", RuntimeError),
    ("t.zeros(-1)", RuntimeError), ("len(t.tensor(1))", TypeError), ("bool(x)", RuntimeError),
    ("x.item()", RuntimeError), ("t.tensor('a')", TypeError), ("t.cat([])", (RuntimeError, ValueError)),
    ("x.permute(0, 0)", RuntimeError), ("t.empty(1 << 50)", RuntimeError), ("x.expand(2, 2)", RuntimeError),
    ("t.tensor([[1], [1, 2]])", ValueError), ("x.to('cuda:7')", (RuntimeError, AssertionError)),
    ("x.squeeze(5)", IndexError), ("t.arange(3)[t.tensor([7])]", IndexError)])
def test_errors(expression, error):
    for t in (rl, torch):
        with pytest.raises(error):
            eval(expression, {"x": t.arange(6.0).reshape(2, 3), "t": t})


def test_numpy_shares_memory():
    array = np.arange(6.0)
    x = rl.from_numpy(array)
    x[0] = 9
    assert array[0] == 9
    x.numpy()[1] = 7
    assert array[1] == 7


def test_dlpack_both_ways():
    x = rl.arange(6.0)
    assert np.from_dlpack(x).tolist() == x.tolist()
    assert torch.from_dlpack(x).tolist() == x.tolist()
    y = rl.from_dlpack(torch.arange(4.0))
    assert y.tolist() == [0, 1, 2, 3]


def test_copy_and_pickle():
    x = rl.arange(6.0).reshape(2, 3).requires_grad_()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.tolist() == x.tolist() and y.requires_grad and y.data_ptr() != x.data_ptr()


def test_promotion_matches_torch():
    names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
             "complex64", "complex128"]
    for a in names:
        for b in names:
            assert str(rl.promote_types(getattr(rl, a), getattr(rl, b))) == str(torch.promote_types(getattr(torch, a),
                                                                                                    getattr(torch, b)))
        for scalar in (True, 2, 2.5, 1j):
            if a == "float16" and scalar == 1j:
                continue  # there is no complex type of half precision here
            ours, theirs = (t.result_type(t.ones(2, dtype=getattr(t, a)), scalar) for t in (rl, torch))
            assert str(ours) == str(theirs), (a, scalar)


def test_half_precision_rounds_once():
    a = torch.randn(1000)
    for dtype in ("float16", "bfloat16"):
        ours = rl.tensor(a.numpy()).to(getattr(rl, dtype))
        theirs = a.to(getattr(torch, dtype))
        assert (ours * 3 + 1).float().tolist() == (theirs * 3 + 1).float().tolist()


def test_random_stream_depends_only_on_the_seed():
    rl.manual_seed(7)
    first = rl.rand(5).tolist(), rl.randn(5).tolist(), rl.randint(10, (5,)).tolist()
    rl.manual_seed(7)
    assert first == (rl.rand(5).tolist(), rl.randn(5).tolist(), rl.randint(10, (5,)).tolist())
    state = rl.get_rng_state()
    x = rl.rand(3).tolist()
    rl.set_rng_state(state)
    assert rl.rand(3).tolist() == x


def test_normal_numbers_are_normal():
    rl.manual_seed(0)
    x = rl.randn(20000)
    assert abs(x.mean().item()) < 0.03 and abs(x.std().item() - 1) < 0.03


@pytest.mark.parametrize("write", ["copy_", "add_", "mul_"])
def test_overlapping_writes_are_refused(write):
    x, y = rl.arange(6.0), torch.arange(6.0)
    for t in (x, y):
        with pytest.raises(RuntimeError):
            getattr(t[1:], write)(t[:-1])
        with pytest.raises(RuntimeError):
            getattr(t[:4].view(2, 2), write)(t[:4].view(2, 2).t())
        getattr(t[:3], write)(t[3:])  # apart
        getattr(t, write)(t)  # the very same elements
        getattr(t[:3], write)(t[:3])
    assert x.tolist() == y.tolist()


def test_shapes_hold_whole_numbers():
    import numpy as np

    assert rl.Size([rl.tensor(3), np.int64(4), 5]) == (3, 4, 5) and all(type(n) is int
                                                                        for n in rl.Size([rl.tensor(3), np.int64(4)]))
    for wrong in (rl.ones(3), [1.5], ["a"]):
        with pytest.raises(TypeError, match="takes an iterable of 'int'"):
            rl.Size(wrong)


def test_named_results_are_made_of_one_sequence():
    made = rl.return_types.max((rl.ones(1), rl.zeros(1)))
    assert made.values.item() == 1 and made.indices.item() == 0 and rl.return_types.qr(Q=1, R=2) == (1, 2)


def test_every_name_that_a_tensor_lists_is_there():
    """But for those that only some tensors have, which raise an error that says so."""
    names = dir(rl.ones(2, 2))
    assert names == sorted(names) and {"shape", "add_", "grad"} <= set(names)
    assert all(hasattr(rl.ones(2, 2), name) for name in set(names) - {"imag"})
