"""Making tensors at the edges of what is allowed: ranges of random numbers, memory of others, windows, dimensions."""
import array

import numpy as np
import pytest
import torch

import rushlight as rl


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "bfloat16", "int64"])
def test_random_numbers_stay_in_their_dtype(dtype):
    for low, high in ((0, 1), (0, 2), (-1, 2), (0, 257), (0, 70000), (-300, 5), (-2**62, 2**62)):
        found = []
        for framework in (rl, torch):
            try:
                framework.empty(4, dtype=getattr(framework, dtype)).random_(low, high)
                found.append("")
            except RuntimeError as error:
                found.append(str(error).partition(" is out of bounds")[0])
        assert found[0] == found[1], (low, high)


def test_random_numbers_over_more_than_half_of_all():
    x = rl.randint(-2**63, 2**63 - 1, (20000,))
    assert x.min() < -9 * 10**18 and x.max() > 9 * 10**18
    assert abs(float(x.double().mean())) < 2**63 * 0.02
    span = 2**62 + 2**40
    y = rl.randint(-span, span, (20000,))
    assert -span <= int(y.min()) and int(y.max()) < span and abs(float((y > 0).double().mean()) - 0.5) < 0.02


def test_asarray_of_memory_of_others():
    x = rl.arange(4, dtype=rl.int32)
    assert rl.asarray(x.__dlpack__()).data_ptr() == x.data_ptr()
    assert rl.asarray(x.__dlpack__(), copy=True).data_ptr() != x.data_ptr()
    assert rl.asarray(memoryview(x.numpy()), dtype=rl.int32).data_ptr() == x.data_ptr()
    assert rl.asarray(array.array("f", [1, 2]), copy=False).tolist() == [1, 2]
    for wrong in (lambda: rl.asarray([1, 2], copy=False), lambda: rl.asarray(x, dtype=rl.float32, copy=False),
                  lambda: rl.asarray(np.ones(2), dtype=rl.float32, copy=False),
                  lambda: rl.frombuffer([1], dtype=rl.int8)):
        with pytest.raises(ValueError):
            wrong()


def test_old_constructors_make_tensors_of_the_host_alone():
    assert rl.Tensor(device="cpu").shape == (0,) and rl.FloatTensor(2, device="cpu").shape == (2,)
    for make in (lambda: rl.Tensor(2, device="meta"), lambda: rl.FloatTensor(2, device="meta")):
        with pytest.raises(RuntimeError, match="legacy constructor"):
            make()


@pytest.mark.parametrize("t", [rl, torch], ids=["here", "torch"])
def test_old_forms_refuse_devices_of_other_types_and_beside_tensors(t):
    x = t.ones(1)
    for make in (t.Tensor, t.FloatTensor, x.new):
        with pytest.raises(RuntimeError, match="Legacy tensor .* is not supported"):
            make(x, device="cpu")
    for given in ((), (2, 3), ([2.0, 3.0],), (t.Size([2]),)):
        with pytest.raises(RuntimeError, match="legacy constructor expects device type: cpu but device type: meta"):
            x.new(*given, device="meta")
    assert x.to("meta").new(3).device.type == "meta" and x.new((2.0, 3.0), device="cpu").tolist() == [2, 3]


def test_points_between_complex_numbers_are_complex():
    assert rl.logspace(0, 1j, 3).dtype is rl.complex64
    for name in ("linspace", "logspace"):
        with pytest.raises(RuntimeError, match="safely cast"):
            getattr(rl, name)(0, 1j, 3, dtype=rl.float32)


def test_refusals_of_dimensions():
    x = rl.ones(2, 3)
    for error, text, call in ((TypeError, "dims", lambda: x.flip()),
                              (RuntimeError, "out of range", lambda: x.rot90(1, [0, 2])),
                              (RuntimeError, "`destination`", lambda: x.movedim((0, 1), (1, 1))),
                              (RuntimeError, "must be >= 0", lambda: x.unfold(0, -1, 1)),
                              (TypeError, "tuple of Tensors", lambda: rl.column_stack(x))):
        with pytest.raises(error, match=text):
            call()
    assert x.flip(()).tolist() == x.tolist()


def test_rows_with_nan_differ_from_each_other():
    nan = float("nan")
    assert rl.unique(rl.tensor([[nan], [1.0], [nan], [1.0]]), dim=0, return_counts=True)[1].tolist() == [2, 1, 1]


def test_tangents_of_complex_numbers_far_out():
    nan, inf = float("nan"), float("inf")
    points = [complex(a, b) for a in (0.0, 1.0, nan, inf) for b in (0.0, 2.0, nan, inf, -inf)]
    for name in ("tan", "tanh"):
        got, wanted = (getattr(f, name)(f.tensor(points, dtype=f.complex128)) for f in (rl, torch))
        same = np.testing.assert_allclose
        same(rl.view_as_real(got).numpy(), torch.view_as_real(wanted).numpy(), err_msg=name)
