"""Compiled programs against NumPy: shapes, strides, dtypes, tails, fusion."""

import numpy as np
import pytest

import rushlight
from rushlight._src.core import dtypes
from rushlight._src.graph.graph import Store

from .programs import Program, compute

pytestmark = pytest.mark.processor

SHAPES = [(1,), (5,), (64,), (1000,), (5, 7), (3, 1000), (200, 3), (17, 33, 5), (2, 3, 4, 5), (130, 129)]
rng = np.random.default_rng(0)


def floats(shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise_with_broadcasting_and_scalars(shape):
    x, b = floats(shape), floats(shape[-1:])
    p = Program()
    a, c, s = p.of(x), p.of(b), p.input((), dtypes.float64, weak=True)
    found, = p.run([p.mul(p.add(a, c), s)], [x, b, 1.5])
    np.testing.assert_allclose(found, (x + b) * np.float32(1.5), rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_layouts(shape):
    x = floats(shape)
    last, rank = len(shape) - 1, len(shape)
    back = tuple(range(last, -1, -1))
    np.testing.assert_array_equal(compute(lambda p, a: p.permute(a, dims=back), x), x.T)
    np.testing.assert_array_equal(compute(lambda p, a: p.add(a, a), x.T), x.T + x.T)
    np.testing.assert_array_equal(compute(lambda p, a: p.reshape(p.neg(p.permute(a, dims=back)), shape=(x.size,)), x),
                                  -x.T.reshape(-1))
    np.testing.assert_array_equal(compute(lambda p, a: p.flip(a, dims=(0, last) if last else (0,)), x),
                                  np.flip(x, (0, last) if last else 0))
    padded = compute(lambda p, a: p.pad(a, low=(2,) * rank, high=(1,) * rank, inner=(0,) * rank, value=3.0), x)
    np.testing.assert_array_equal(padded, np.pad(x, ((2, 1),) * rank, constant_values=3))
    np.testing.assert_array_equal(compute(lambda p, a: p.cat((a, p.neg(a), a), dim=last), x),
                                  np.concatenate([x, -x, x], -1))
    np.testing.assert_array_equal(compute(lambda p, a: p.cat((a, a), dim=0), x), np.concatenate([x, x], 0))
    odd = x[..., ::2]
    np.testing.assert_array_equal(compute(lambda p, a: p.neg(a), odd), -odd)


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(shape):
    x = floats(shape)
    rank = len(shape)
    for dims in {(0,), (rank - 1,), tuple(range(rank)), (0, rank - 1) if rank > 1 else (0,), (rank // 2,)}:
        for name, numpy in (("sum", np.sum), ("amax", np.max), ("amin", np.min), ("prod", np.prod)):
            found = compute(lambda p, a: getattr(p, name)(a, dims=dims), x)
            np.testing.assert_allclose(found, numpy(x, dims, keepdims=True), rtol=1e-4, atol=1e-5)
        positive = compute(lambda p, a: p.any(p.gt(a, 2.0), dims=dims), x)
        np.testing.assert_array_equal(positive, np.any(x > 2, dims, keepdims=True))
    for dim in range(rank):
        np.testing.assert_array_equal(compute(lambda p, a: p.argmax(a, dims=(dim,)), x), x.argmax(dim, keepdims=True))
        coarse = np.round(x)
        np.testing.assert_array_equal(compute(lambda p, a: p.argmin(a, dims=(dim,)), coarse),
                                      coarse.argmin(dim, keepdims=True))


def test_extremes_carry_nan():
    x = floats((40, 50))
    x[3, 4] = x[5, 49] = np.nan
    for dims in ((0,), (1,), (0, 1)):
        np.testing.assert_array_equal(compute(lambda p, a: p.amax(a, dims=dims), x), x.max(dims, keepdims=True))
    np.testing.assert_array_equal(compute(lambda p, a: p.argmax(a, dims=(1,)), x), x.argmax(1, keepdims=True))


def softmax(p, a, dim):
    e = p.exp(p.sub(a, p.amax(a, dims=(dim,))))
    return p.div(e, p.sum(e, dims=(dim,)))


@pytest.mark.parametrize("shape,dim", [((7, 1000), 1), ((64, 17), 0), ((3, 5, 40), 1), ((2, 3), 1)])
def test_softmax_is_one_kernel(shape, dim):
    x = floats(shape)
    p = Program()
    found, = p.run([softmax(p, p.of(x), dim)], [x])
    e = np.exp(x - x.max(dim, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(dim, keepdims=True), rtol=4e-6)
    assert len(p.program.steps) == 1


def test_layer_norm_is_one_kernel():
    x, w, b = floats((50, 768)), floats(768), floats(768)
    p = Program()
    a, scale, shift = p.of(x), p.of(w), p.of(b)
    mean = p.mul(p.sum(a, dims=(1,)), 1 / 768)
    d = p.sub(a, mean)
    rstd = p.rsqrt(p.add(p.mul(p.sum(p.mul(d, d), dims=(1,)), 1 / 768), 1e-5))
    y = p.add(p.mul(p.mul(d, rstd), scale), shift)
    found, m, r = p.run([y, mean, rstd], [x, w, b])
    mu, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    np.testing.assert_allclose(found, (x - mu) / np.sqrt(var + 1e-5) * w + b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(m, mu, rtol=1e-4, atol=1e-6)
    assert len(p.program.steps) == 1


def test_cross_entropy():
    x, target = floats((50, 100)), rng.integers(0, 100, 50)
    p = Program()
    a, t = p.of(x), p.of(target)
    shifted = p.sub(a, p.amax(a, dims=(1,)))
    total = p.log(p.sum(p.exp(shifted), dims=(1,)))
    chosen = p.gather(p.sub(shifted, total), p.reshape(t, shape=(50, 1)), dim=1)
    loss = p.mul(p.sum(p.neg(chosen), dims=(0, 1)), 1 / 50)
    found, = p.run([p.reshape(loss, shape=())], [x, target])
    e = x - x.max(1, keepdims=True)
    wanted = -(e - np.log(np.exp(e).sum(1, keepdims=True)))[np.arange(50), target].mean()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    low = 0 if dtype is np.uint8 else -100
    x, y = rng.integers(low, 100, 300).astype(dtype), rng.integers(low, 100, 300).astype(dtype)
    y[y == 0] = 1
    for name, numpy in (("add", np.add), ("mul", np.multiply), ("floor_divide", np.floor_divide),
                        ("remainder", np.remainder),
                        ("fmod", np.fmod), ("maximum", np.maximum), ("bitwise_xor", np.bitwise_xor), ("lt", np.less)):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(compute(lambda p, a, b: getattr(p, name)(a, b), x, y), numpy(x, y),
                                          err_msg=name)
    wide = compute(lambda p, a: p.convert(a, dtype=dtypes.float32), x)
    np.testing.assert_array_equal(wide, x.astype(np.float32))
    np.testing.assert_array_equal(compute(lambda p, a: p.sum(p.convert(a, dtype=dtypes.int64), dims=(0,)), x),
                                  [x.sum()])


def test_float_division():
    x, y = floats(1000) * 10, floats(1000)
    for name, numpy in (("remainder", np.remainder), ("fmod", np.fmod), ("floor_divide", np.floor_divide)):
        np.testing.assert_allclose(compute(lambda p, a, b: getattr(p, name)(a, b), x, y), numpy(x, y), rtol=1e-6,
                                   atol=1e-6)


def test_halves_round_once_when_stored():
    x = floats(1003).astype(np.float16)
    found = compute(lambda p, a: p.add(p.mul(a, 3.0), 0.1), x)
    wanted = (x.astype(np.float32) * np.float32(3) + np.float32(0.1)).astype(np.float16)
    np.testing.assert_array_equal(found, wanted)


def test_sums_read_halves_as_memory_would_hold_them():
    x = floats(1003).astype(np.float16)
    found = compute(lambda p, a: p.convert(p.sum(p.mul(a, 3.3), dims=(0,)), dtype=dtypes.float32), x)
    terms = (x.astype(np.float32) * np.float32(3.3)).astype(np.float16)
    np.testing.assert_allclose(found, [terms.astype(np.float32).sum()], rtol=1e-6)


def test_bfloat16():
    bits = (floats(1003).view(np.uint32) >> 16).astype(np.uint16)
    p = Program()
    a = p.input((1003,), dtypes.bfloat16)
    found, total = p.run([p.exp(a), p.convert(p.sum(a, dims=(0,)), dtype=dtypes.float32)], [bits])
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose((found.astype(np.uint32) << 16).view(np.float32), np.exp(wide), rtol=2 ** -8)
    np.testing.assert_allclose(total, [wide.sum()], rtol=1e-4, atol=1e-4)


def test_bool():
    x = rng.random((30, 70)) < 0.5
    np.testing.assert_array_equal(compute(lambda p, a: p.logical_not(a), x), ~x)
    np.testing.assert_array_equal(compute(lambda p, a: p.where(a, 2.0, p.convert(a, dtype=dtypes.float32)), x),
                                  np.where(x, 2, 0))
    np.testing.assert_array_equal(compute(lambda p, a: p.all(a, dims=(1,)), x), x.all(1, keepdims=True))


def test_gathers():
    x, at = floats((100, 48)), rng.integers(0, 100, (7, 9))
    np.testing.assert_array_equal(compute(lambda p, a, i: p.take(a, i, dim=0), x, at), x[at])
    along = rng.integers(0, 48, (100, 5))
    np.testing.assert_array_equal(compute(lambda p, a, i: p.gather(a, i, dim=1), x, along),
                                  np.take_along_axis(x, along, 1))
    columns = rng.integers(0, 48, (11,))
    np.testing.assert_array_equal(compute(lambda p, a, i: p.take(a, i, dim=1), x, columns), x[:, columns])


@pytest.mark.parametrize("wrong", [100, -1, 1 << 40])
def test_index_out_of_range_raises_the_flag(wrong):
    x, at = floats((100, 48)), rng.integers(0, 100, 9)
    p = Program()
    a, i = p.of(x), p.of(at)
    p.run([p.take(a, i, dim=0)], [x, at])
    assert p.flag == 0
    at[4] = wrong
    p = Program()
    a, i = p.of(x), p.of(at)
    p.run([p.take(a, i, dim=0)], [x, at])
    assert p.flag == 1


@pytest.mark.parametrize("combine", ["add", "set", "max", "mul"])
def test_scatters(combine):
    update = {"add": np.add.at, "max": np.maximum.at, "mul": np.multiply.at,
              "set": lambda o, k, v: o.__setitem__(k, v)}[combine]
    rows = 60 if combine == "set" else 20  # of two values for one place, devices keep either
    x, source = floats((rows, 48)), floats((6, 9, 48))
    at = rng.permutation(rows)[:54].reshape(6, 9) if combine == "set" else rng.integers(0, rows, (6, 9))
    wanted = x.copy()
    update(wanted, at, source)
    found = compute(lambda p, a, i, s: p.put(a, i, s, dim=0, combine=combine), x, at, source)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    for dim, shape in ((0, (7, 40)), (1, (15, 30))):
        at, source = rng.integers(0, x.shape[dim], shape), floats(shape)
        wanted = x.copy()
        grid = list(np.ogrid[:shape[0], :shape[1]])
        grid[dim] = at
        update(wanted, tuple(grid), source)
        found = compute(lambda p, a, i, s: p.scatter(a, i, s, dim=dim, combine=combine), x, at, source)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_scatter_into_zeros_then_used():
    at, source = rng.integers(0, 50, 200), floats((200, 8))
    found = compute(lambda p, i, s: p.mul(p.put(p.full(shape=(50, 8), value=0.0, dtype=dtypes.float32), i, s, dim=0,
                                                combine="add"), 2.0), at, source)
    wanted = np.zeros((50, 8), np.float32)
    np.add.at(wanted, at, source)
    np.testing.assert_allclose(found, 2 * wanted, rtol=1e-5, atol=1e-6)


def test_random_bits():
    from rushlight._src.ops.prims.indexed import philox

    p = Program()
    seed, offset = p.input((), dtypes.int64, weak=True), p.input((), dtypes.int64, weak=True)
    found, = p.run([p.random_bits(seed, offset, shape=(7, 13))], [12345678901234, 77])
    np.testing.assert_array_equal(found.reshape(-1), philox(12345678901234, 77, 91).astype(np.int64))


@pytest.mark.parametrize("shape", [(1,), (16,), (63,), (131,), (3, 5, 7)])
@pytest.mark.parametrize("skipped", range(5))
def test_neighbouring_words_of_the_stream_may_begin_within_a_block(shape, skipped):
    """Float32 beside them makes vectors of 32-bit lanes; what is read begins ``skipped`` words after the start of a
    block."""
    from rushlight._src.ops.prims.indexed import philox

    count = int(np.prod(shape))
    p = Program()
    seed, offset = p.input((), dtypes.int64, weak=True), p.input((), dtypes.int64, weak=True)
    words = p.slice(p.random_bits(seed, offset, shape=(skipped + count,)), starts=(skipped,), steps=(1,),
                    shape=(count,))
    found, = p.run([p.mul(p.convert(p.right_shift(p.reshape(words, shape=shape), 8), dtype=dtypes.float32), 0.5)],
                   [-5, 1 << 33])
    wanted = philox(-5, 1 << 33, skipped + count)[skipped:] >> 8
    np.testing.assert_array_equal(found.reshape(-1), wanted.astype(np.float32) / 2)


def test_in_place():
    x, g = floats((40, 30)), floats((40, 30))
    before = x.copy()
    p = Program()
    a, b = p.of(x), p.of(g)
    p.run([Store(p.add(a, p.mul(b, 0.1)), a)], [x, g])
    np.testing.assert_allclose(x, before + g * np.float32(0.1), rtol=1e-6)


def test_in_place_hazards():
    x = floats((40, 40))
    before = x.copy()
    p = Program()
    a = p.of(x)
    p.run([Store(p.permute(a, dims=(1, 0)), a)], [x])
    np.testing.assert_array_equal(x, before.T)
    p = Program()
    a = p.of(before)
    p.run([Store(softmax(p, a, 1), a)], [before])
    np.testing.assert_allclose(before.sum(1), 1, rtol=1e-5)


def test_two_outputs_swap():
    x, y = floats(100), floats(100)
    a, b = x.copy(), y.copy()
    p = Program()
    m, n = p.of(a), p.of(b)
    p.run([Store(p.neg(n), m), Store(p.neg(m), n)], [a, b])
    np.testing.assert_array_equal(a, -y)
    np.testing.assert_array_equal(b, -x)


def test_empty_and_scalar_shapes():
    assert compute(lambda p, a: p.neg(a), np.zeros((0, 4), np.float32)).shape == (0, 4)
    np.testing.assert_array_equal(compute(lambda p, a: p.sum(a, dims=(0,)), np.zeros((0, 4), np.float32)),
                                  np.zeros((1, 4)))
    np.testing.assert_array_equal(compute(lambda p, a: p.exp(a), np.zeros((), np.float32)), 1)


def test_machine_code_is_shared_between_shapes():
    addresses = set()
    for shape in ((30, 40), (70, 90)):
        p = Program()
        program = p.compile(softmax(p, p.input(shape), 1))
        addresses |= {s.address for s in program.steps}
    assert len(addresses) == 1


def test_machine_code_is_shared_between_small_groups():
    addresses = set()
    for size in (2, 3, 4, 8):  # channels of a group
        x, scale, shift = floats((2, 3, size, 33)), floats((2, 3, 1, 1)), floats((3, size, 1))
        p = Program()
        a, b, c = p.of(x), p.of(scale), p.of(shift)
        b, c = p.expand(b, shape=x.shape), p.expand(p.reshape(c, shape=(1, 3, size, 1)), shape=x.shape)
        found, = p.run([p.add(p.mul(a, b), c)], [x, scale, shift])
        np.testing.assert_allclose(found, x * scale + shift, rtol=1e-6, atol=1e-6)
        addresses |= {s.address for s in p.program.steps}
    assert len(addresses) == 1


@pytest.mark.parametrize("shape", [(16, 16), (40, 50), (300, 17), (5, 33, 70), (64, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8])
def test_transposing_copies(shape, dtype):
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    dims = tuple(range(len(shape)))[::-1]
    p = Program()
    found, = p.run([p.copy(p.permute(p.of(x), dims=dims))], [x])
    np.testing.assert_array_equal(found, x.T)
    if dtype is np.float32:
        y = floats(shape[::-1])
        np.testing.assert_array_equal(compute(lambda p, a, b: p.add(p.permute(a, dims=dims), b), x, y), x.T + y)


@pytest.mark.parametrize("shape,dims", [((1000, 333), (0, 1)), ((100003,), (0,)), ((30011, 5), (0,)),
                                        ((3, 70001), (1,)), ((20000, 64), (0,))])
def test_long_reductions_are_split(shape, dims):
    x = floats(shape)
    p = Program()
    a = p.of(x)
    total, largest = p.sum(p.mul(a, 0.5), dims=dims), p.amax(a, dims=dims)
    found, top = p.run([p.add(total, 1.0), largest], [x])
    np.testing.assert_allclose(found, (x * 0.5).sum(dims, keepdims=True, dtype=np.float64) + 1, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(top, x.max(dims, keepdims=True))
    assert len(p.program.steps) == 2


def test_a_gradient_and_its_column_sums_in_one_pass():
    x, g = floats((500, 70)), floats((500, 70))
    p = Program()
    a, b = p.of(x), p.of(g)
    d = p.mul(b, p.cos(a))
    found, column = p.run([d, p.sum(d, dims=(0,))], [x, g])
    np.testing.assert_allclose(found, g * np.cos(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(column, (g * np.cos(x)).sum(0, keepdims=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64])
@pytest.mark.parametrize("shape", [(5, 7), (40, 70), (130, 33)])
def test_turned_memory(dtype, shape):
    """Loads that run backwards along another axis than stores: squares are turned in registers, edges one by one."""
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    for k in (1, 2, 3):
        assert np.array_equal(rushlight.tensor(x).rot90(k).numpy(), np.rot90(x, k))
    assert np.array_equal((rushlight.tensor(x).flip(-1).t() + 1).contiguous().numpy(), np.flip(x, -1).T + 1)
