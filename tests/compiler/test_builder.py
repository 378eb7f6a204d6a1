"""The IR builder: arithmetic, control flow, memory and conversions, run through the JIT against NumPy."""

import ctypes

import numpy as np
import pytest

from rushlight._src.core.llvm import processor
from rushlight._src.core.llvm.loaded import callable_at
from rushlight._src.devices.cpu.llvm import features, jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import bf16, f16, f32, f64, i1, i8, i32, i64, ptr, vector
from rushlight._src.devices.cpu.llvm.values import constant, constant_vector, zero

pytestmark = pytest.mark.processor


def compiled(write, parameters, result=None, cpu=None):
    """A function filled by `write(f, *parameters)`, called with ctypes integers."""
    module = Module(cpu)
    f = module.function("test", parameters, *([result] if result else []))
    write(f, *f.parameters)
    text = module.text()
    address = jit.build(text, lambda: text, ["test"])["test"]
    kind = ctypes.c_int64 if result else None
    return callable_at(address, ctypes.CFUNCTYPE(kind, *[ctypes.c_int64] * len(parameters)))


def test_types_are_interned():
    assert vector(f32, 16) is vector(f32, 16)
    assert str(vector(ptr, 8)) == "<8 x ptr>"
    assert vector(f32, 0) is f32
    assert (f32.bytes, i1.bytes, vector(bf16, 32).bytes) == (4, 1, 64)


def test_constants_are_shared_and_fold():
    assert constant(i64, 3) is constant(i64, 3)
    f = Module().function("f", [("x", i64)])
    x = f.parameters[0]
    assert f.add(x, 0) is x and f.mul(x, 1) is x
    assert f.mul(f.add(constant(i64, 2), 3), 4).number == 20


def test_operands_must_agree():
    f = Module().function("f", [("x", i64), ("y", i32)])
    with pytest.raises(TypeError, match="i64 and i32"):
        f.add(*f.parameters)


@pytest.mark.parametrize("n", [0, 1, 10])
def test_loop_carries_values(n):
    def write(f, count):
        total, last = f.loop(0, count, 1, [constant(i64, 0), constant(i64, -1)], lambda i, v: [f.add(v[0], i), i])
        f.ret(f.add(f.mul(total, 100), last))

    assert compiled(write, [("count", i64)], i64)(n) == 100 * sum(range(n)) + n - 1


def test_nested_loops_and_conditions():
    def write(f, count):
        def inner(i, values):
            return f.loop(0, i, 1, values, lambda j, v: [f.when(
                f.compare("==", f.rem(j, 2), 0), lambda: [f.add(v[0], j)], lambda: [v[0]])[0]])

        f.ret(f.loop(0, count, 1, [constant(i64, 0)], inner)[0])

    assert compiled(write, [("count", i64)], i64)(9) == sum(j for i in range(9) for j in range(i) if j % 2 == 0)


def test_while_and_switch():
    def write(f, start):
        steps, _ = f.while_loop(
            [constant(i64, 0), start], lambda v: f.compare(">", v[1], 1), lambda v: [f.add(v[0], 1), f.div(v[1], 2)])
        place = f.alloca(i64)
        f.store(steps, place)
        f.switch(steps, {3: lambda: f.store(constant(i64, 333), place), 4: lambda: f.store(constant(i64, 444), place)})
        f.ret(f.load(i64, place))

    run = compiled(write, [("start", i64)], i64)
    assert [run(8), run(16), run(32)] == [333, 444, 5]


@pytest.mark.parametrize("n", [0, 1, 7, 16, 20])
def test_masked_copy(n):
    def write(f, source, target, count):
        mask = f.lane_mask(count, 16)
        kind = vector(f32, 16)
        f.store(f.load(kind, f.cast("inttoptr", source, ptr), mask=mask), f.cast("inttoptr", target, ptr), mask=mask)
        f.ret()

    x, y = np.arange(32, dtype=np.float32), np.full(32, -1, np.float32)
    compiled(write, [("source", i64), ("target", i64), ("count", i64)])(x.ctypes.data, y.ctypes.data, n)
    kept = min(n, 16)
    assert (y[:kept] == x[:kept]).all() and (y[kept:] == -1).all()


def test_gather_shuffle_and_reduce():
    def write(f, source, target):
        base = f.cast("inttoptr", source, ptr)
        picked = f.gather(vector(f32, 8), f.offset(base, constant_vector(i64, [7, 6, 5, 4, 3, 2, 1, 0]), f32))
        swapped = f.shuffle(picked, None, [1, 0, 3, 2, 5, 4, 7, 6])
        out = f.cast("inttoptr", target, ptr)
        f.store(swapped, out)
        f.store(f.reduce("add", picked), f.offset(out, 8, f32))
        f.store(f.reduce("max", picked), f.offset(out, 9, f32))
        f.ret()

    x, y = np.arange(8, dtype=np.float32), np.zeros(10, np.float32)
    compiled(write, [("source", i64), ("target", i64)])(x.ctypes.data, y.ctypes.data)
    assert y.tolist() == [6, 7, 4, 5, 2, 3, 0, 1, 28, 7]


def _convert_all(source, target, dtype_in, dtype_out, values, cpu=None, lanes=8):
    def write(f, x, y, count):
        x, y = (f.cast("inttoptr", p, ptr) for p in (x, y))

        def body(i, _):
            f.store(f.convert(f.load(vector(source, lanes), f.offset(x, i, source)), target), f.offset(y, i, target))

        f.loop(0, count, lanes, [], body)
        f.ret()

    assert len(values) % lanes == 0
    x = np.ascontiguousarray(values, dtype_in)
    y = np.zeros(len(x), dtype_out)
    compiled(write, [("x", i64), ("y", i64), ("n", i64)], cpu=cpu)(x.ctypes.data, y.ctypes.data, len(x))
    return y


@pytest.mark.parametrize("cpu", [features.host(), features._x86(processor.restrict("generic", "", {}, bool))],
                         ids=["host", "generic"])
def test_half_conversions_are_exact(cpu):
    every = np.arange(65536, dtype=np.uint16)
    as_float = _convert_all(f16, f32, np.uint16, np.float32, every, cpu)
    wanted = every.view(np.float16).astype(np.float32)
    assert np.array_equal(as_float, wanted, equal_nan=True)
    bits = np.random.default_rng(0).integers(0, 2**32, 80000, dtype=np.uint32)
    small = (np.random.default_rng(1).random(8000) * 2.0 ** np.random.default_rng(2).integers(-30, 20, 8000))
    numbers = np.concatenate([bits.view(np.float32), small.astype(np.float32),
                              np.float32([65519, 65520, 65504, 0, -0.0, 1, 2, 3])])
    with np.errstate(over="ignore"):
        wanted = numbers.astype(np.float16)
    got = _convert_all(f32, f16, np.float32, np.float16, numbers, cpu)
    finite = ~np.isnan(numbers)
    assert np.array_equal(got.view(np.uint16)[finite], wanted.view(np.uint16)[finite])
    assert np.isnan(got[~finite]).all()


@pytest.mark.parametrize("lanes", (4, 8, 16))
def test_bfloat_rounds_to_nearest_even(lanes):
    """Denormal numbers too, all of a vector's lanes or some, though the instruction for it takes them for zero."""
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(0).integers(0, 2**32, 80000, dtype=np.uint32)
    edges = np.uint32([1, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x00008000, 0x00018000, 0x80000000, 0])
    numbers = np.concatenate([bits, bits & 0x807FFFFF, edges, edges])
    got = _convert_all(f32, bf16, np.uint32, np.uint16, numbers, lanes=lanes)
    wanted = torch.from_numpy(numbers.view(np.float32)).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    finite = ~np.isnan(numbers.view(np.float32))
    assert np.array_equal(got[finite], wanted[finite])
    assert ((got[~finite] & 0x7FFF) > 0x7F80).all()


def test_integer_conversions():
    x = np.array([-3, -1, 0, 1, 2, 100, 127, -128])
    assert _convert_all(i8, f64, np.int8, np.float64, x).tolist() == x.tolist()
    assert _convert_all(f32, i32, np.float32, np.int32, x + 0.5).tolist() == np.trunc(x + 0.5).tolist()
    assert _convert_all(i32, i64, np.int32, np.int64, x).tolist() == x.tolist()


def test_literals_round_to_their_type():
    assert constant(f16, 1e9).text == "0xH7C00"
    assert constant(bf16, 1.0).text == "0xR3F80"
    assert zero(vector(f32, 4)).text == "splat (float 0x0000000000000000)"


@pytest.mark.parametrize("element", [bf16, f16])
def test_halves_are_picked_as_bits(element):
    module = Module()
    f = module.function("test", [("at", ptr)])
    at, = f.parameters
    f.store(f.shuffle(f.load(vector(element, 8), at), None, range(0, 8, 2)), at)
    f.ret()
    assert "shufflevector <8 x i16>" in module.text()
    given = np.arange(8, dtype=np.uint16)
    compiled(lambda f, at: (f.store(f.shuffle(f.load(vector(element, 8), at), None, range(0, 8, 2)), at), f.ret()),
             [("at", ptr)])(given.ctypes.data)
    assert given.tolist() == [0, 2, 4, 6, 4, 5, 6, 7]


def test_halves_of_another_block_are_taken_as_they_lie_in_memory():
    """LLVM would carry them as floats from block to block, and ask a library to narrow them."""
    module = Module()
    f = module.function("test", [("source", ptr), ("target", ptr), ("count", i64)])
    source, target, count = f.parameters
    x = f.load(vector(bf16, 16), source)
    f.loop(0, count, 1, [], lambda k, _: f.store(f.convert(x, f32), f.offset(target, f.mul(k, 64))))
    f.ret()
    assert "bitcast <16 x bfloat>" not in module.text()
    image = jit.compile_object(module.text())
    assert b"__truncsfbf2" not in image and b"__extend" not in image


@pytest.mark.parametrize("element, routine", [(bf16, b"__truncsfbf2"), (f16, b"__truncsfhf2")])
def test_halves_of_branches_and_loops_are_carried_as_bits(element, routine):
    module = Module(features._x86(processor.restrict("generic", "", {}, bool))) if features.host().is_x86 else Module()
    f = module.function("test", [("at", ptr), ("count", i64)])
    at, count = f.parameters
    lanes = vector(element, 4)
    found, = f.when(f.compare(">", count, 0), lambda: [f.load(lanes, at)], lambda: [f.load(lanes, f.offset(at, 8))])
    found, = f.loop(0, count, 1, [found], lambda k, _: [f.load(lanes, f.offset(at, f.mul(k, 2)))])
    found, = f.while_loop([found], lambda _: f.compare(">", count, 9), lambda _: [f.load(lanes, at)])
    f.store(found, f.offset(at, 16))
    f.ret()
    assert routine not in jit.compile_object(module.text())
    given = np.arange(12, dtype=np.uint16)
    address = jit.build(module.text(), module.text, ["test"])["test"]
    for count, wanted in ((0, [4, 5, 6, 7]), (3, [2, 3, 4, 5])):
        ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)(given.ctypes.data, count)
        assert given.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, *wanted]
