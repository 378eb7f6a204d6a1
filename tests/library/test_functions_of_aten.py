"""Operators of ``torch.ops.aten`` that are functions here, compared with PyTorch's."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

IMAGE = np.arange(30, dtype="float32").reshape(1, 1, 5, 6) ** 1.5
UPSAMPLED = [("upsample_nearest2d", "vec", (None, (2.0, 1.5))), ("upsample_nearest2d", "vec", (None, [1.7, 2.3])),
             ("upsample_nearest2d", "vec", ([7, 9], None)), ("upsample_nearest2d", "default", ([8, 13], 1.7, 2.3)),
             ("upsample_nearest2d", "default", ([10, 12], 2.0, 2.0)),
             ("upsample_nearest2d", "default", ([8, 12], 1.7, None)),
             ("upsample_bilinear2d", "vec", (None, False, (1.7, 2.3))),
             ("upsample_bilinear2d", "default", ([8, 13], False, 1.7, 2.3)),
             ("upsample_bilinear2d", "default", ([8, 13], True, 1.7, 2.3)),
             ("upsample_bicubic2d", "vec", ([7, 9], True, None)),
             ("_upsample_nearest_exact2d", "default", ([8, 13], 1.7, 2.3))]


@pytest.mark.parametrize("name,overload,args", UPSAMPLED)
def test_upsampled(name, overload, args):
    ours, theirs = (getattr(getattr(lib.ops.aten, name), overload)(lib.tensor(IMAGE), *args) for lib in (rl, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-3)


def test_scales_that_contradict_the_size_are_refused():
    with pytest.raises(NotImplementedError, match="scales"):
        rl.ops.aten.upsample_nearest2d.default(rl.tensor(IMAGE), [10, 12], 3.0, 3.0)


@pytest.mark.parametrize("number", [1, 2.5, True])
def test_scalar_tensor(number):
    ours, theirs = (lib.ops.aten.scalar_tensor(number) for lib in (rl, torch))
    assert str(ours.dtype) == str(theirs.dtype) and ours.item() == theirs.item()


def test_metadata_of_tensors():
    for lib in (rl, torch):
        check, x = lib.ops.aten._assert_tensor_metadata.default, lib.ones(2)
        check(x, [2], [1], lib.float32, device=lib.device("cpu"), layout=lib.strided)
        for kwargs in ({"device": lib.device("meta")}, {"layout": lib.sparse_coo}, {"dtype": lib.int64}):
            with pytest.raises(RuntimeError, match="mismatch"):
                check(x, **kwargs)


@pytest.mark.parametrize("train,drops", [(None, True), (True, True), (False, False)])
def test_native_dropout(train, drops):
    for lib in (rl, torch):
        out, kept = lib.ops.aten.native_dropout(lib.ones(1000), 0.5, train)
        assert kept.all().item() is not drops and (out == 0).any().item() is drops


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_rows(mode, padding, last):
    def call(library):
        table = library.arange(15.0).reshape(5, 3).sin()
        given = table, library.tensor([0, 1, 2, 3]), library.tensor([0, 1, 4] if last else [0, 2])
        packet = library.ops.aten.embedding_bag
        found = packet.padding_idx(*given, False, mode, False, None, last, padding)
        return [*found, *(packet.default(*given, False, mode, False, None, last) if padding is None else ())]

    for a, b in zip(call(rl), call(torch), strict=True):
        assert a.shape == tuple(b.shape) and rl.allclose(a.double(), rl.tensor(b.double().tolist(), dtype=rl.float64))


@pytest.mark.parametrize("enabled", [True, False])
def test_norms_take_a_switch_of_cudnn(enabled):
    def call(library):
        x = library.arange(24.0).reshape(2, 4, 3)
        return (library.ops.aten.group_norm.default(x, 2, None, None, 1e-5, enabled),
                library.ops.aten.layer_norm.default(x, [3], None, None, 1e-5, enabled))

    for a, b in zip(call(rl), call(torch), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["_native_batch_norm_legit", "_batch_norm_with_update", "_batch_norm_no_update"])
def test_norms_of_batches(name):
    """With the mean and the inverse deviation, and the running statistics afterwards."""
    def call(library):
        x, mean, var = library.arange(24.0).reshape(2, 4, 3) ** 1.5, library.zeros(4), library.ones(4)
        training = [True] * (name == "_native_batch_norm_legit")
        found = getattr(library.ops.aten, name).default(x, None, None, mean, var, *training, 0.1, 1e-5)
        return [y for y in found if y.dtype is not library.uint8] + [mean, var]

    for a, b in zip(call(rl), call(torch), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_gradient_of_a_dropout():
    def call(library):
        mask = library.tensor([True, False, True])
        return library.ops.aten.native_dropout_backward.default(library.arange(3.0), mask, 2.0)

    assert call(rl).tolist() == call(torch).tolist()
