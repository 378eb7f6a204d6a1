"""NumPy within compiled code: one graph, with the values, dtypes and shapes, the changes of arguments and the errors of
NumPy itself."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.capture.errors import CaptureError

CASES = {
    "operators": lambda a, b, i: (a * 2 + b - i, a / 3, i // 2, i % 3, a ** 2, -a, a @ b.T, i & 3, ~i, a > b,
                                  (a == a).all(), i + 1.5, i / 2, np.float32(3) * a),
    "reductions": lambda a, b, i: (a.sum(0), a.sum(axis=1, keepdims=True), np.max(i, axis=1), i.mean(), i.std(),
                                   a.var(ddof=1), i.prod(), a.argmax(), a.argmin(1),
                                   np.cumsum(i, 1), a.any(), np.all(i, axis=0), i.sum(dtype=np.float32), np.cumprod(a),
                                   a.min(axis=(0, 1)), np.mean(a, (0, 1))),
    "shapes": lambda a, b, i: (a.T, a.reshape(-1), a.reshape(4, 3), np.transpose(a, (1, 0)), a.ravel(),
                               np.expand_dims(a, (0, 2)), np.squeeze(a[None]), a.swapaxes(0, 1),
                               np.moveaxis(a[None], 0, 2), a.shape, a.ndim, a.size, a.dtype, a.nbytes, len(a),
                               np.shape(a)),
    "pieces": lambda a, b, i: (np.concatenate([a, i]), np.stack([a, b], 1), np.vstack([a, b]), np.hstack([a, b]),
                               np.split(a, 3), np.tile(a, 2), np.repeat(i, 2, axis=1),
                               np.roll(a, 1, 0), np.take(a, i[0] % 3, 0), np.column_stack([a[0], b[0]]),
                               np.take_along_axis(a, i[:1] % 3 - 1, 0), np.take_along_axis(a, i[0] % 3, None),
                               np.fft.fftshift(a), np.fft.ifftshift(a, axes=1)),
    "indices": lambda a, b, i: (a[0], a[0, 1], a[:, 1], a[..., 0], a[i[0] % 3], a[a > 0], a[[0, 1]], a[None],
                                a[1:, ::2], [r.sum() for r in a], a[a > 0].sum()),
    "functions": lambda a, b, i: (np.where(a > 0, a, 0), np.clip(a, -0.5, 0.5), a.clip(0), np.maximum(a, 0), np.abs(a),
                                  np.sqrt(np.abs(a)), np.exp(i), np.diff(a), np.tril(a),
                                  np.dot(a, b.T), np.einsum("ij,kj->ik", a, b), np.outer(i[0], i[1]), np.linalg.norm(a),
                                  np.linalg.inv(a[:3, :3]), np.fft.fft(a),
                                  np.sort(a, axis=1), np.logaddexp(a, b), np.arctan2(a, b), np.isnan(a),
                                  np.tensordot(a, b, ([1], [1])), np.inner(a, b), np.trace(a)),
    "made within": lambda a, b, i: (np.zeros_like(i), np.full_like(a, 3), np.arange(3) + a[:, 0], np.zeros((2, 2)),
                                    np.array([1, 2]) + a[0, 0], np.ones(4) @ a.T, np.eye(3) @ a,
                                    np.array([a[0], b[0]]), np.asarray(a) is a),
    "dtypes": lambda a, b, i: (a.astype(np.float32) * 2.5, a.astype("f4") + np.float64(1), a.astype(np.float32).mean(),
                               i.astype(np.uint8) + 1, (a > 0) * 1, np.exp(i.astype(np.int8)),
                               i.astype(np.int16).sum(), np.float16(2) * a.astype(np.float32), (a + 1j).real,
                               np.abs(a + 1j)),
    "numbers": lambda a, b, i: (np.pi * a.sum(), isinstance(a, np.ndarray), isinstance(a.sum(), float), a.sum() * 2,
                                a[0, 0] + 1, np.sqrt(3.0), a.tolist(), i.max().item(), int(i.sum())),
    "tensors": lambda a, b, i: ((torch.from_numpy(a) * 2).numpy() + b, torch.tensor(a) + 1, torch.as_tensor(i),
                                torch.tensor(b) * a.sum(), np.asarray(torch.from_numpy(a))),
}


def changed(a, b, i):
    a[0] = 5
    b += a
    a[a > 3] -= 1
    view = a.T
    view[0, 0] = 9
    np.add(a, b, out=b)
    one = a[1, 1]
    a[1, 1] = 0
    return a, view, one


CASES["changes"] = changed


def one_object(a, b, i):
    c, total = a, a.sum()
    before = total
    c += 1
    total += 1
    i[1:] = i[:-1]
    return c is a, c, total, before, i.T.copy() + np.take(i[0], 1), np.tensordot(a, b), i ** 2, a ** i


CASES["one object"] = one_object


def given():
    numbers = np.random.default_rng(0)
    return numbers.standard_normal((3, 4)), numbers.standard_normal((3, 4)), numbers.integers(0, 9, (3, 4))


def check(got, wanted):
    assert type(got) is type(wanted)
    if isinstance(wanted, (tuple, list)):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted):
            check(g, w)
    elif isinstance(wanted, (np.ndarray, np.generic)) and wanted.dtype == object:
        assert got.tolist() == wanted.tolist()
    elif isinstance(wanted, (np.ndarray, np.generic)):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=2e-6 if wanted.dtype.itemsize <= 4 else 1e-9, atol=1e-12)
    else:
        assert got.dtype == wanted.dtype and torch.allclose(got, wanted) if isinstance(
            wanted, torch.Tensor) else got == wanted


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
@pytest.mark.parametrize("name", CASES)
def test_one_graph(name, backend):
    plain, mine = given(), given()
    wanted = CASES[name](*plain)
    got = torch.compile(CASES[name], fullgraph=True, backend=backend)(*mine)
    check((got, mine), (wanted, plain))
    if name == "one object":
        assert got[1] is mine[0]
    if name == "changes":
        assert got[0] is mine[0] and np.shares_memory(got[1], mine[0])


def test_dtypes_and_shapes_are_guarded():
    for dtype in (np.float32, np.int8, np.bool_, np.complex128, np.uint16):
        doubled = torch.compile(lambda a: a * 2, fullgraph=True, backend="eager")
        for shape in ((2,), (5,), (2, 3)):
            check(doubled(np.ones(shape, dtype)), np.ones(shape, dtype) * 2)


@pytest.mark.parametrize("function, make", [
    (lambda a, b: a + b, lambda: (np.ones(3), np.ones(4))), (lambda a: a.foo, lambda: (np.ones(3),)),
    (lambda a: a[7], lambda: (np.ones(3),)),
    (lambda a: a.sum(3), lambda: (np.ones(3),)), (lambda a: np.add(a, 1.5, out=a), lambda: (np.ones(3, int),)),
    (lambda a: np.split(a, 2), lambda: (np.ones(3),)),
    (lambda a: a ** -1, lambda: (np.arange(3),)), (lambda a: a + 300, lambda: (np.ones(3, np.uint8),))])
def test_errors_are_those_of_numpy(function, make):
    with pytest.raises(Exception) as wanted:
        function(*make())
    with pytest.raises(type(wanted.value)) as found:
        torch.compile(function, backend="eager")(*make())
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("make", [lambda: np.arange(6.0)[::-1], lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
                                  lambda: np.arange(3.0).astype(">f8"),
                                  lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
                                  lambda: np.array([1, 2], object)])
def test_arrays_that_are_not_followed(make):
    check(torch.compile(lambda a: a + a, backend="eager")(make()), make() + make())


@pytest.mark.parametrize("function", [lambda a: a[::-1] * 2, lambda a: np.flip(a) + 1, lambda a: np.unique(a),
                                      lambda a: a // 0, lambda a: a ** a, lambda a: a + 1 if a.sum() > 2 else a - 1,
                                      lambda a: (np.sin(a), str(a))])
def test_what_is_not_followed_runs_as_it_is(function):
    a = np.arange(4)
    with np.errstate(all="ignore"):
        check(torch.compile(function, backend="eager")(a), function(a))


@pytest.mark.parametrize("part", [lambda a: a.T, lambda a: a[1:], lambda a: a.reshape(-1), lambda a: a,
                                  lambda a: a[:, ::2]])
def test_arguments_that_share_memory(part):
    def program(a, b):
        a[0] = 5
        return b * 2

    a, b = np.zeros((3, 3)), np.zeros((3, 3))
    check(torch.compile(program, fullgraph=True)(a, part(a)), program(b, part(b)))
    a, b = (torch.from_numpy(x) for x in (a * 0, b * 0))
    assert torch.equal(torch.compile(program)(a, torch.from_numpy(part(a.numpy()))),
                       program(b, torch.from_numpy(part(b.numpy()))))


def test_the_setting():
    program = torch.compile(lambda a: np.sin(a), fullgraph=True, backend="eager")
    with torch._dynamo.config.patch(trace_numpy=False), pytest.raises(torch._dynamo.exc.Unsupported):
        program(np.ones(3))
    check(program(np.ones(3)), np.sin(np.ones(3)))


@pytest.mark.parametrize("given", [["L", "U"], [b"a"], [1j, None], ["2026-01-01"]], ids=str)
def test_arrays_that_no_tensor_holds(given):
    f = torch.compile(lambda x: (x + 1, np.array(given), np.asarray(given)))
    for _ in range(2):
        total, *arrays = f(torch.ones(2))
        assert total.tolist() == [2, 2]
        for array in arrays:
            assert array.dtype == np.array(given).dtype and array.tolist() == given
    with pytest.raises(CaptureError, match="not a tensor dtype"):
        torch.compile(lambda: np.array(given), fullgraph=True)()
