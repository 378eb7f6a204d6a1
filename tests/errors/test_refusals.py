"""Calls that PyTorch refuses: the same kind of error, with the words that programs look for."""
import io

import pytest
import torch

import rushlight


class Spoiled:
    """A sparse matrix whose rows begin at the wrong place, as a file could say."""

    def __init__(self, lib, layout):
        self.lib, self.layout = lib, layout

    def __reduce_ex__(self, protocol):
        lib = self.lib
        return lib._utils._rebuild_sparse_tensor, (getattr(lib, self.layout),
                                                   (lib.tensor([3, 1, 2]), lib.tensor([0, 1]), lib.ones(2),
                                                    lib.Size([2, 2])))


def loaded(lib, layout):
    file = io.BytesIO()
    lib.save(Spoiled(lib, layout), file)
    file.seek(0)
    return lib.load(file)


def weighted_twice(lib):
    layer = lib.nn.utils.weight_norm(lib.nn.Linear(2, 2))
    return lib.nn.utils.weight_norm(layer)


def clipped(lib):
    weight = lib.nn.Parameter(lib.ones(2))
    weight.grad = lib.full((2,), float("inf"))
    return lib.nn.utils.clip_grad_norm_([weight], 1, norm_type=1, error_if_nonfinite=True)


REFUSED = {
    "one value per group": (lambda t: t.nn.functional.group_norm(t.zeros(1, 4, 1), 4), ValueError,
                            "more than 1 value per channel"),
    "vector for a matrix": (lambda t: t.nn.functional.cosine_embedding_loss(t.zeros(0, 0), t.zeros(0), t.zeros(0)),
                            RuntimeError, "expects 2D"),
    "two hooks": (weighted_twice, RuntimeError, "register two weight_norm hooks"),
    "order of a norm": (clipped, RuntimeError, "total norm of order 1.0 for gradients"),
    "csr from a file": (lambda t: loaded(t, "sparse_csr"), RuntimeError,
                        r"`crow_indices\[..., 0\] == 0` is not satisfied"),
    "csc from a file": (lambda t: loaded(t, "sparse_csc"), RuntimeError,
                        r"`ccol_indices\[..., 0\] == 0` is not satisfied"),
    "nested from a vector": (lambda t: t.nested.as_nested_tensor(t.zeros(3), layout=t.jagged), RuntimeError,
                             "Expected tensor argument to have dim"),
    "nested from a number": (lambda t: t.nested.as_nested_tensor(t.zeros(()), layout=t.jagged), RuntimeError,
                             "Expected tensor argument to have dim"),
    "map2_ with history": (lambda t: t.zeros(2).map2_(t.zeros(2), t.zeros(2, requires_grad=True), lambda a, b, c: a),
                           RuntimeError, "requires grad"),
    "subclass of a type": (lambda t: type("Mine", (t.FloatTensor,), {}), TypeError, "is not an acceptable base type"),
    "condition of numbers": (lambda t: t._check_tensor_all(t.ones(1)), TypeError,
                             "cond tensor must have dtype torch.bool"),
    "new of another dtype": (lambda t: t.zeros(1).new(t.zeros(1, dtype=t.int32)), TypeError, "expected"),
    "types of a convolution": (lambda t: t.nn.functional.conv1d(t.zeros(1, 1, 3), t.zeros(1, 1, 3, dtype=t.complex64)),
                               RuntimeError, "(?=.*Float)(?=.*ComplexFloat)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, words = REFUSED[name]
    # PyTorch checks files where invariants are asked for
    for lib in (torch, rushlight) if "file" not in name else (rushlight,):
        with pytest.raises(error, match=words):
            call(lib)


def test_positions_beyond_a_table_without_columns():
    for lib in (torch, rushlight):
        with pytest.raises((IndexError, RuntimeError)):
            lib.nn.functional.embedding(lib.tensor([5]), lib.zeros(3, 0))
        assert tuple(lib.nn.functional.embedding(lib.tensor([2]), lib.zeros(3, 0)).shape) == (1, 0)


def test_new_shares_memory_and_takes_elements():
    def seen(lib):
        x = lib.tensor([1.0, 2.0])
        shared = x.new(x)
        shared[0] = 5
        return x.tolist(), x.new((3, 4)).tolist(), tuple(x.new(lib.Size([3, 4]))
                                                         .shape), tuple(x.new(()).shape), tuple(x.new().shape), tuple(
                                                             x.new(size=(2, 1)).shape)

    assert seen(rushlight) == seen(torch)


def test_ragged_sizes_are_symbols():
    nested = rushlight.nested.as_nested_tensor(rushlight.ones(2, 3, 5), layout=rushlight.jagged)
    assert isinstance(nested.shape[1], rushlight.SymInt) and not isinstance(nested.shape[1],
                                                                            rushlight.SymFloat) and not isinstance(
                                                                                nested.shape[0], rushlight.SymInt)


def test_random_numbers_into_integers():
    for lib in (torch, rushlight):
        out = lib.empty(4, dtype=lib.int64)
        lib.bernoulli(lib.ones(4), out=out)
        assert out.tolist() == [1, 1, 1, 1]
