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
