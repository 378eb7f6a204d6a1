"""Numbers, sizes and places at the edges on WebGPU: results and errors of the processor."""
import threading

import pytest

import rushlight as rl
from rushlight._src.devices.webgpu.provider import provider

NUMBERS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 3e38, 1.4e-45, 2.0**-126]
UNARY = ("isnan isinf isfinite signbit neg abs sign floor ceil trunc round relu sqrt reciprocal square isneginf "
         "isposinf logical_not nan_to_num").split()
BINARY = ("add sub mul div maximum minimum fmax fmin eq ne lt le gt ge fmod remainder copysign floor_divide").split()
REDUCED = "amax amin argmax argmin sum prod all any nansum".split()
WHOLE = "add sub mul floor_divide remainder fmod maximum bitwise_and bitwise_or bitwise_xor eq lt".split()
TYPES = rl.int8, rl.uint8, rl.int16, rl.int32, rl.int64
SHIFTS = [0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100]


def equal(f, *given, raises=False):
    """Elements, their signs where they are 0 among them, or both without a number; the same error where f ``raises``
    one."""
    wanted, found = (outcome(f, [x.clone().to(where) for x in given]) for where in ("cpu", "webgpu"))
    if raises or isinstance(wanted, str) or isinstance(found, str):
        return raises and isinstance(wanted, str) and wanted == found
    same = found == wanted
    if found.is_floating_point():
        same &= (found != 0) | (found.signbit() == wanted.signbit())
    return found.dtype is wanted.dtype and found.shape == wanted.shape and bool(
        (same | found.isnan() & wanted.isnan() if found.is_floating_point() else same).all())


def outcome(f, given):
    try:
        return f(*given).cpu()
    except Exception as error:  # noqa: BLE001 - what is compared
        return f"{type(error).__name__} {error}".replace("webgpu", "cpu")


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.float16, rl.bfloat16])
def test_floats(dtype):
    x = rl.tensor(NUMBERS).to(dtype)
    wrong = [name for name in UNARY if not equal(getattr(rl, name), x)]
    wrong += [name for name in BINARY if not equal(getattr(rl, name), x, x[:, None])]
    wrong += [name for name in REDUCED if not (equal(getattr(rl, name), x) and equal(getattr(rl, name), x[3:]))]
    wrong += [to for to in (*TYPES, rl.bool, rl.float32, rl.float64, rl.float16, rl.bfloat16)
              if not equal(lambda a, to=to: a.to(to), x)]
    assert not wrong


def test_a_number_with_itself():
    """What a compiler might take for known."""
    x = rl.tensor(NUMBERS)
    for f in (lambda a: a - a, lambda a: a / a, lambda a: a != a, lambda a: a == a, lambda a: a * 0,
              lambda a: a + (-a), lambda a: (a + 1) - 1, lambda a: a * 2 - a * 2, lambda a: a % a, lambda a: a / 0,
              lambda a: a >= a, lambda a: a.maximum(a), lambda a: rl.where(a > a, a, -a), lambda a: a * a.reciprocal()):
        assert equal(f, x)


@pytest.mark.parametrize("zero", (0, -0.0))
def test_zero_divided(zero):
    """0 / x is NaN for 0 and NaN, and has the sign of x: no compiler shall take it for 0."""
    assert equal(lambda a: zero / a, rl.tensor(NUMBERS))
    assert equal(lambda a: rl.zeros_like(a).fill_(zero) / a, rl.tensor(NUMBERS))


@pytest.mark.parametrize("dtype", TYPES)
def test_whole_numbers(dtype):
    kind = rl.iinfo(dtype)
    x = rl.tensor([kind.min, kind.max, 0, 1, 3, 7, kind.max // 2, kind.min // 2], dtype=dtype)
    y = rl.tensor([1, 2, 3, 7, -1 if kind.min < 0 else 5, 5], dtype=dtype)[:, None]
    wrong = [name for name in WHOLE if not equal(getattr(rl, name), x, y)]
    wrong += [name for name in ("floor_divide", "remainder", "fmod")
              if not equal(getattr(rl, name), x, rl.zeros_like(x), raises=True)]
    wrong += [name for name in ("neg", "abs", "bitwise_not", "sign", "sum", "prod", "amax")
              if not equal(getattr(rl, name), x)]
    wrong += [name for name in ("bitwise_left_shift", "bitwise_right_shift")
              if not equal(getattr(rl, name), x, rl.tensor(SHIFTS).to(dtype)[:, None])]
    assert not wrong


def test_sizes():
    """Without elements, and without dimensions."""
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 4)):
        x = rl.ones(*shape)
        for f in (lambda a: a.sum(), lambda a: a.sum(-1), lambda a: rl.cat((a, a)), lambda a: a.softmax(-1),
                  lambda a: a.sort(-1)[1], lambda a: a.cumsum(-1), lambda a: a.mean(),
                  lambda a: a.nonzero(), lambda a: a[a > 0], lambda a: a * 2, lambda a: a.clone()):
            assert equal(f, x), shape
        assert equal(lambda a: a.amax(-1), x, raises=shape[-1] == 0), shape
    for f in (lambda a: a.sum(), lambda a: a.exp(), lambda a: a.sort()[0], lambda a: a.cumsum(0), lambda a: a.argmax(),
              lambda a: a[None], lambda a: rl.where(a > 0, a, -a)):
        assert equal(f, rl.tensor(-1.5))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.uint8, rl.int64])
def test_places_within_memory(dtype):
    """Views at any byte, in any order, read and written."""
    x = rl.arange(240).to(dtype)

    def written(a, first):
        a[first:first + 7] += 1
        return a

    for first in (1, 2, 3, 17, 63, 65):
        assert equal(lambda a, first=first: (a[first:first + 100] * 2).sum(), x)
        assert equal(lambda a, first=first: a[first:first + 5].clone(), x)
        assert equal(lambda a, first=first: written(a, first), x)
    m = x.reshape(6, 8, 5)
    for f in (lambda a: a.transpose(0, 2).contiguous(), lambda a: a.flip(1), lambda a: a[:, ::2, 1::2].clone(),
              lambda a: a[:1].expand(4, 8, 5).contiguous(), lambda a: a[0, :5].diagonal().clone(),
              lambda a: rl.empty(5, 8, 6, dtype=a.dtype, device=a.device).copy_(a.permute(2, 1, 0)),
              lambda a: a.as_strided((3, 3), (7, 2), 2).clone()):
        assert equal(f, m)


def test_loops_that_are_long():
    """Software Vulkan leaves a shader's loops after 65,535 turns without a word."""
    x, at = rl.ones(70_000), rl.zeros(70_000, dtype=rl.int64)
    assert x.to("webgpu").cumsum(0)[-1].item() == 70_000 and x.to("webgpu").sum().item() == 70_000
    found = rl.zeros(2, device="webgpu").index_add(0, at.to("webgpu"), x.to("webgpu"))
    assert found.tolist() == [70_000, 0]
    if "loops" not in provider.board(0).features:
        with pytest.raises(RuntimeError, match="more turns"):
            rl.ones(1, 1 << 20, device="webgpu") @ rl.ones(1 << 20, 1, device="webgpu")


def test_threads():
    wrong = []

    def work(k):
        for j in range(10):
            found = (rl.full((50,), float(k), device="webgpu") * 2 + j).sum().item()
            if found != 50 * (2 * k + j):
                wrong.append((k, j, found))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
