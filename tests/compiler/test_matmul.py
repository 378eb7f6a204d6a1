"""Planned matmuls against NumPy: odd tails, layouts, batches, empty sizes, epilogues, other CPUs."""

import sys

import numpy as np
import pytest

from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.devices.cpu.templates.matmul import Matmul, plan_matmul
from rushlight._src.devices.cpu.templates.sequence import SUBTRACTED

from .contractions import Runner, bias_epilogue

pytestmark = [pytest.mark.processor, pytest.mark.sampled]  # all cases with `-m long`

TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "int32": 0, "int64": 0, "int8": 0, "uint8": 0}
SHAPES = [(4, 3, 5), (1, 1, 1), (14, 32, 16), (17, 33, 19), (100, 65, 70), (3, 200, 1000), (500, 100, 33),
          (1000, 40, 600),
          (1, 300, 500), (300, 1, 500), (2, 40, 7), (40, 3, 100), (4, 5000, 20), (3, 70, 33), (13, 17, 16),
          (450, 50, 30)]


def strides(array):
    return tuple(stride // array.itemsize for stride in array.strides)


def random(shape, dtype):
    generator = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0 if np.dtype(dtype).kind == "u" else -9, 9, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def operand(batch, rows, columns, layout, dtype):
    """A matrix that is contiguous ("n"), transposed in memory ("t"), or has gaps ("g")."""
    if layout == "t":
        return random((*batch, columns, rows), dtype).swapaxes(-1, -2)
    if layout == "g":
        return random((*batch, rows, 2 * columns), dtype)[..., ::2]
    return random((*batch, rows, columns), dtype)


def product(a, b, dtype, **options):
    """Our product of two arrays, batches broadcast."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    c = np.full((*batch, a.shape[-2], b.shape[-1]), 77, dtype)
    problem = Matmul(batch, a.shape[-2], b.shape[-1], a.shape[-1], strides(a), strides(b), strides(c), dtype)
    plan = plan_matmul(problem, **options.pop("plan", {}))
    if plan.steps:
        Runner(plan, a=a, b=b, c=c, **options)()
    return c


def check(got, a, b, dtype, more=0):
    wide = np.int64 if np.dtype(dtype).kind in "iu" else np.float64
    wanted = a.astype(wide) @ b.astype(wide) + more
    if wide is np.int64:
        assert (got == wanted.astype(dtype)).all()
    elif got.size:
        assert abs(got - wanted).max() <= TOLERANCE[dtype] * max(abs(wanted).max(), 1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "int8", "uint8"])
@pytest.mark.parametrize("layouts", ["nn", "nt", "tn", "tt", "gg", "ng", "gt"])
def test_layouts(dtype, layouts):
    for rows, columns, depth in SHAPES:
        a, b = operand((), rows, depth, layouts[0], dtype), operand((), depth, columns, layouts[1], dtype)
        check(product(a, b, dtype), a, b, dtype)


@pytest.mark.parametrize("layouts", ["nn", "nt", "tn"])
@pytest.mark.parametrize("batch_a,batch_b", [
    ((3,), (3,)), ((2, 3), (2, 3)), ((4,), ()), ((), (4,)), ((2, 1), (3,)), ((2, 1, 3), (1, 4, 1))])
def test_batches(batch_a, batch_b, layouts):
    for rows, columns, depth in [(5, 7, 3), (40, 33, 20), (1, 50, 30), (300, 40, 30)]:
        a, b = operand(batch_a, rows, depth, layouts[0], "float32"), operand(batch_b, depth, columns, layouts[1],
                                                                             "float32")
        check(product(a, b, "float32"), a, b, "float32")


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")])
@pytest.mark.parametrize("layouts", ["nn", "nt", "tn", "tt", "gg"])
def test_sums_of_bytes_are_exact(dtypes, layouts):
    for rows, columns, depth in [*SHAPES, (20, 40, 3000)]:
        a, b = (random(sizes, "int32") for sizes in ((rows, depth), (depth, columns)))
        # the whole range, its ends often
        ends = [np.iinfo(d) for d in dtypes]
        a, b = (np.clip(x * 40, e.min, e.max).astype(d) for x, e, d in zip((a, b), ends, dtypes))
        a, b = (relaid(x, layout) for x, layout in zip((a, b), layouts))
        c = np.full((rows, columns), 77, np.int32)
        problem = Matmul((), rows, columns, depth, strides(a), strides(b), strides(c), dtypes[0], "int32",
                         b_dtype=dtypes[1])
        Runner(plan_matmul(problem), a=a, b=b, c=c)()
        assert (c == a.astype(np.int64) @ b.astype(np.int64)).all()


def relaid(array, layout):
    """The same matrix contiguous, transposed in memory, or with gaps."""
    if layout == "t":
        return np.ascontiguousarray(array.T).T
    if layout == "g":
        wide = np.zeros((array.shape[0], 2 * array.shape[1]), array.dtype)
        wide[:, ::2] = array
        return wide[:, ::2]
    return array


def test_heads_split_from_one_tensor():
    # (batch, time, head, size) read as (batch, head, time, size): batch dimensions that do not merge
    q, k = (random((2, 30, 4, 16), "float32").transpose(0, 2, 1, 3) for _ in range(2))
    check(product(q, k.swapaxes(-1, -2), "float32"), q, k.swapaxes(-1, -2), "float32")


@pytest.mark.parametrize("rows,columns,depth", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 4, 0), (20, 40, 0)])
def test_empty_sizes(rows, columns, depth):
    a, b = random((rows, depth), "float32"), random((depth, columns), "float32")
    check(product(a, b, "float32"), a, b, "float32")


@pytest.mark.parametrize("layout", ["t", "n"])
@pytest.mark.parametrize("rows,columns,depth", [(4, 3, 5), (40, 70, 600), (2, 100, 300), (500, 33, 20), (8, 5, 0),
                                                (19, 37, 40), (30, 1, 50)])
def test_bias(rows, columns, depth, layout):
    a, b = random((rows, depth), "float32"), operand((), depth, columns, layout, "float32")
    bias = random((columns,), "float32")
    got = product(a, b, "float32", plan={"epilogue": bias_epilogue("float32", "column", "c")}, bias=bias)
    check(got, a, b, "float32", bias)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layouts", ["nn", "nt", "tn", "tt", "gg"])
def test_an_epilogue_reads_what_the_output_holds(dtype, layouts):
    # of sums over one block along k, as linear algebra has them: longer ones wait in the output
    for rows, columns, depth in [*((r, c, min(d, 128)) for r, c, d in SHAPES), (2, 300, 100), (4, 70, 33),
                                 (130, 70, 64)]:
        a, b = operand((), rows, depth, layouts[0], dtype), operand((), depth, columns, layouts[1], dtype)
        c = random((rows, columns), dtype)
        before = c.copy()
        plan = plan_matmul(Matmul((), rows, columns, depth, strides(a), strides(b), strides(c), dtype), SUBTRACTED)
        Runner(plan, a=a, b=b, c=c)()
        check(before - c, a, b, dtype)


@pytest.mark.parametrize("layouts", ["nn", "tn", "nt"])
@pytest.mark.parametrize("depth", [4096, 5001])
def test_long_sums(layouts, depth):
    a, b = operand((), 30, depth, layouts[0], "float32"), operand((), depth, 40, layouts[1], "float32")
    bias = random((40,), "float32")
    got = product(a, b, "float32", plan={"epilogue": bias_epilogue("float32", "column", "c")}, bias=bias)
    check(got, a, b, "float32", bias)


def test_rows_that_a_tile_lacks_are_not_what_memory_held():
    # 13 rows are a tile of 12 or 14, or several small ones: some row is missing
    a, b, c = random((13, 400), "float32"), random((400, 100), "float32"), np.empty((13, 100), np.float32)
    plan = plan_matmul(Matmul((), 13, 100, 400, strides(a), strides(b), strides(c)))
    run, held = Runner(plan, a=a, b=b, c=c), np.uint32(0x00007FAB)
    for buffer in run.keep[2]:
        buffer[:len(buffer) // 4 * 4].view(np.uint32)[:] = held
    before = pool.get_num_threads()
    pool.set_num_threads(1)  # scratch is the first thread's
    try:
        run()
    finally:
        pool.set_num_threads(before)
    packed = (run.keep[2][list(plan.temporaries).index("scratch")][64:64 + 13 * 400 * 4].view(np.uint32) == held).sum()
    assert packed == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("layouts", ["nn", "tn", "nt", "tt"])
def test_a_vector_is_multiplied(layouts, dtype):
    for rows, columns, depth in [(300, 1, 500), (64, 1, 20000), (1, 64, 20000), (2000, 1, 3), (1, 1, 9000)]:
        a, b = operand((), rows, depth, layouts[0], dtype), operand((), depth, columns, layouts[1], dtype)
        check(product(a, b, dtype), a, b, dtype)


def test_sums_of_products():
    a, b = random((5, 20, 30), "float32"), random((5, 30, 40), "float32")
    c = np.empty((20, 40), np.float32)
    plan = plan_matmul(Matmul((), 20, 40, 30, (30, 1), (40, 1), (40, 1), sums=(5, 600, 1200)))
    Runner(plan, a=a, b=b, c=c)()
    assert np.allclose(c, (a @ b).sum(0), atol=1e-4)


def test_infinities_stay_in_their_rows():
    a, b = random((30, 50), "float32"), random((50, 40), "float32")
    a[3, 7] = np.inf
    a[5, 1] = np.nan
    got = product(a, b, "float32")
    assert np.isinf(got[3]).all() and np.isnan(got[5]).all()
    assert np.isfinite(np.delete(got, [3, 5], 0)).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_other_thread_counts(threads):
    before = pool.get_num_threads()
    pool.set_num_threads(threads)
    try:
        a, b = random((700, 300), "float32"), random((300, 200), "float32")
        check(product(a, b, "float32"), a, b, "float32")
        wide = operand((), 300, 900, "t", "float32")
        check(product(a[:2], wide, "float32"), a[:2], wide, "float32")
    finally:
        pool.set_num_threads(before)


@pytest.mark.parametrize("layouts", ["nn", "nt", "tn"])
def test_bfloat(layouts):
    torch = pytest.importorskip("torch")
    for rows, columns, depth in SHAPES:
        a = operand((), rows, depth, layouts[0], "float32")
        b = operand((), depth, columns, layouts[1], "float32")
        ta, tb = torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()
        c = torch.empty(rows, columns, dtype=torch.bfloat16)
        plan = plan_matmul(Matmul((), rows, columns, depth, ta.stride(), tb.stride(), c.stride(), "bfloat16"))
        Runner(plan, a=ta.data_ptr(), b=tb.data_ptr(), c=c.data_ptr())()
        wanted = ta.double() @ tb.double()
        assert (c.double() - wanted).abs().max() <= 8e-3 * wanted.abs().max()


@pytest.mark.parametrize("rows,columns,depth", [(3, 64, 64), (16, 100, 128), (33, 130, 64), (50, 65, 192),
                                                (64, 200, 64), (130, 70, 128), (200, 129, 64)])
@pytest.mark.parametrize("layout", ["n", "t"])
def test_few_rows(rows, columns, depth, layout):
    torch = pytest.importorskip("torch")
    a, b = operand((), rows, depth, layout, "float32"), operand((), depth, columns, "t", "float32")
    bias = random((columns,), "float32")
    ta, tb = torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()
    c = torch.empty(rows, columns, dtype=torch.bfloat16)
    problem = Matmul((), rows, columns, depth, ta.stride(), tb.stride(), c.stride(), "bfloat16")
    plan = plan_matmul(problem, epilogue=bias_epilogue("float32", "column", "c"))
    Runner(plan, a=ta.data_ptr(), b=tb.data_ptr(), c=c.data_ptr(), bias=bias)()
    wanted = ta.double() @ tb.double() + torch.from_numpy(bias)
    assert (c.double() - wanted).abs().max() <= 8e-3 * wanted.abs().max()
    for signs in (("uint8", "int8"), ("int8", "uint8")):
        wa, wb = (np.clip(x * 60 + 20, *((0, 255) if s == "uint8" else (-128, 127))).astype(s)
                  for x, s in zip((a, b), signs))
        wc = np.full((rows, columns), 77, np.int32)
        problem = Matmul((), rows, columns, depth, strides(wa), strides(wb), strides(wc), signs[0], "int32",
                         b_dtype=signs[1])
        Runner(plan_matmul(problem), a=wa, b=wb, c=wc)()
        assert (wc == wa.astype(np.int64) @ wb.astype(np.int64)).all()


def at_the_end(rows, columns, stride):
    """A bfloat16 matrix with the given row stride, after whose last element no memory may be read, and its owner."""
    import ctypes
    import mmap

    torch = pytest.importorskip("torch")
    elements = (rows - 1) * stride + columns
    size = -(-2 * elements // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    last = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(last), mmap.PAGESIZE, 0) == 0
    flat = torch.frombuffer(memory, dtype=torch.bfloat16, count=elements, offset=size - 2 * elements)
    flat.fill_(float("nan"))
    matrix = flat.as_strided((rows, columns), (stride, 1))
    matrix.copy_(torch.from_numpy(random((rows, columns), "float32")))
    return matrix, memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the system to guard memory")
@pytest.mark.parametrize("rows,columns,depth,gap", [(70, 40, 64, 0), (200, 130, 192, 0), (65, 200, 96, 32),
                                                    (600, 33, 1024, 0), (97, 64, 4160, 0), (130, 100, 70, 8)])
@pytest.mark.parametrize("layout", ["n", "t"])
def test_nothing_behind_a_bfloat_operand_is_read(rows, columns, depth, gap, layout):
    torch = pytest.importorskip("torch")
    a, held = at_the_end(rows, depth, depth + gap)
    b = torch.from_numpy(operand((), depth, columns, layout, "float32")).bfloat16()
    c = torch.empty(rows, columns, dtype=torch.bfloat16)
    plan = plan_matmul(Matmul((), rows, columns, depth, a.stride(), b.stride(), c.stride(), "bfloat16"))
    Runner(plan, a=a.data_ptr(), b=b.data_ptr(), c=c.data_ptr())()
    wanted = a.double() @ b.double()
    assert (c.double() - wanted).abs().max() <= 8e-3 * wanted.abs().max()


def test_refusals():
    with pytest.raises(ValueError, match="complex64"):
        plan_matmul(Matmul((), 2, 2, 2, (2, 1), (2, 1), (2, 1), "complex64"))
    with pytest.raises(ValueError, match="unit stride"):
        plan_matmul(Matmul((), 2, 2, 2, (2, 1), (2, 1), (4, 2)))
