"""Channels-last convolutions: int8 exactly, 16-bit floats and float32, on any CPU; the int8 primitive within
programs."""


import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight._src.devices.cpu.templates.conv import Convolution, plan_pixels, plan_pixels_input_grad  # noqa: E402
from rushlight._src.devices.cpu.templates.pixels_plan import pays  # noqa: E402
from rushlight._src.core.kinds import P  # noqa: E402

from .contractions import Runner, bias_epilogue  # noqa: E402
from .test_conv import CASES, TOLERANCE, close, reference  # noqa: E402

pytestmark = pytest.mark.processor


def channels_last(t):
    """The tensor with channels last, and its strides as if no dimension were 1."""
    order = (0, *range(2, t.dim()), 1)
    back = (0, t.dim() - 1, *range(1, t.dim() - 1))
    held = t.permute(order).contiguous()
    sizes, strides = list(held.shape), [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return held.permute(back), tuple(strides[k] for k in back)


def elements(shape, dtype):
    if dtype == "uint8":
        return torch.randint(0, 256, shape, dtype=torch.uint8)
    return torch.randint(-128, 128, shape,
                         dtype=torch.int8) if dtype == "int8" else torch.randn(shape).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_pixels(name, dtype):
    case = CASES[name]
    batch, channels, out, size, kernel, stride, pad, dilation, groups = case
    torch.manual_seed(0)
    whole = dtype in ("uint8", "int8")
    x, x_strides = channels_last(elements((batch, channels, *size), dtype))
    weight = elements((out, channels // groups, *kernel), "int8" if whole else dtype)
    border = 9 if whole else 0
    wide = torch.nn.functional.pad(x.double(), [p for p in reversed(pad) for _ in range(2)], value=border)
    wanted = getattr(torch.nn.functional, f"conv{len(size)}d")(wide, weight.double(), None, stride, 0, dilation, groups)
    for w in (weight, channels_last(weight)[0]):
        got, y_strides = channels_last(torch.full(wanted.shape, 77, dtype=torch.int32 if whole else weight.dtype))
        problem = Convolution(*case, dtype, x_strides, y_strides, w=w.stride(), b_dtype="int8" if whole else "",
                              out_dtype="int32" if whole else "", border=border)
        Runner(plan_pixels(problem), x=x.data_ptr(), weight=w.data_ptr(), y=got.data_ptr())()
        assert (got.double() - wanted).abs().max() <= (0 if whole else TOLERANCE[dtype] * wanted.abs().max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_images(name, dtype):
    x, weight, _, grad, _, wanted, _ = reference(CASES[name], dtype)
    (grad, strides), weights = channels_last(grad), (weight, channels_last(weight)[0])
    for w in weights:
        got, x_strides = channels_last(torch.full(x.shape, float("nan"), dtype=x.dtype))
        problem = Convolution(*CASES[name], dtype, x_strides, strides, w=w.stride())
        Runner(plan_pixels_input_grad(problem), x=got.data_ptr(), weight=w.data_ptr(), y=grad.data_ptr())()
        close(got, wanted, dtype)


# batch, channels, size, kernel, stride, padding, dilation
ALONE = [(2, 16, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)), (1, 40, (14, 20), (7, 7), (1, 1), (3, 3), (1, 1)),
         (2, 33, (13, 30), (5, 3), (2, 2), (2, 1), (1, 1)), (1, 21, (17, 17), (3, 5), (1, 2), (4, 0), (2, 3)),
         (1, 16, (5, 3), (3, 3), (1, 1), (2, 2), (1, 1)), (3, 18, (8, 8), (1, 1), (1, 1), (0, 0), (1, 1)),
         (1, 16, (9, 9), (1, 1), (2, 2), (0, 0), (1, 1)), (1, 64, (12, 12), (9, 9), (1, 1), (4, 4), (1, 1)),
         (1, 17, (11, 12), (4, 2), (3, 3), (1, 1), (1, 1)),
         (1, 20, (19, 14), (17, 9), (2, 1), (5, 4), (1, 1))]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16"])
@pytest.mark.parametrize("case", ALONE, ids=str)
def test_channels_alone(case, dtype):
    batch, channels, size, *rest = case
    whole = batch, channels, channels, size, *rest, channels
    x, weight, bias, grad, y, wanted, _ = reference(whole, dtype)
    if not pays(dtype, 1, 1, channels):
        pytest.skip("such images have channels in front")
    (x_last, x_strides), (grad_last, y_strides) = channels_last(x), channels_last(grad)
    for w in (weight, channels_last(weight)[0], weight.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)):
        problem = Convolution(*whole, dtype, x_strides, y_strides, w=w.stride())
        got = torch.full_like(grad_last, float("nan"))
        Runner(plan_pixels(problem, bias_epilogue(dtype, "column", "y")), x=x_last.data_ptr(), weight=w.data_ptr(),
               y=got.data_ptr(), bias=bias.data_ptr())()
        close(got, y, dtype)
        back = torch.full_like(x_last, float("nan"))
        Runner(plan_pixels_input_grad(problem), x=back.data_ptr(), weight=w.data_ptr(), y=grad_last.data_ptr())()
        close(back, wanted, dtype)


def test_infinite_pixels_of_channels_alone_stay_in_their_windows():
    x, strides = channels_last(torch.ones(1, 20, 9, 30))
    x[:, 3, 4, 20] = float("inf")
    weight, (got, y_strides) = torch.ones(20, 1, 3, 3), channels_last(torch.zeros(1, 20, 9, 30))
    Runner(plan_pixels(Convolution(1, 20, 20, (9, 30), (3, 3), (1, 1), (1, 1), (1, 1), 20, "float32", strides,
                                   y_strides)),
           x=x.data_ptr(), weight=weight.data_ptr(), y=got.data_ptr())()
    assert got.isinf().sum() == 9 and got[0, 3, 3:6, 19:22].isinf().all()


def model(lib, last):
    """Two convolutions with what stands around them in networks, and an image; the same in either library."""
    lib.manual_seed(0)
    nn, form = lib.nn, {"memory_format": lib.channels_last}
    made = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.Conv2d(16, 16, 3, 2, 1, bias=False), nn.GELU(), nn.MaxPool2d(3, 1, 1),
                         nn.Conv2d(16, 16, 5, padding=2, groups=4), nn.Conv2d(16, 16, 3, padding=1, groups=16))
    with lib.no_grad():
        for number, one in enumerate(made.parameters()):
            one.copy_(lib.linspace(-1, 1, one.numel()).cos().mul(0.2 + number % 3 * 0.1).reshape(one.shape))
    x = lib.linspace(-3, 3, 2 * 8 * 9 * 10).sin().reshape(2, 8, 9, 10)
    return (made.to(**form), x.contiguous(**form)) if last else (made, x)


@pytest.mark.parametrize("train", [False, True])
def test_networks_with_channels_last(train):
    found = []
    for lib, compiled in ((torch, False), (rushlight, False), (rushlight, True)):
        made, x = model(lib, True)
        made, x = made.train(train), x.requires_grad_()
        run = lib.compile(made, fullgraph=True) if compiled else made
        y = run(x)
        (y.float() * lib.linspace(0, 1, y.numel()).reshape(y.shape)).sum().backward()
        found.append([y.stride(), *(t.detach().numpy() for t in (y, x.grad, *(p.grad for p in made.parameters())))])
    (strides, *wanted), *others = found
    for own, *values in others:
        assert own == strides
        for got, one in zip(values, wanted):
            np.testing.assert_allclose(got, one, rtol=2e-3, atol=2e-4 * np.abs(one).max() + 1e-4)


def test_what_follows_is_an_epilogue(caplog):
    made, x = model(rushlight, True)
    with caplog.at_level("DEBUG", "rushlight"), rushlight.no_grad():
        y = rushlight.compile(made[:3].eval(), fullgraph=True)(x)
    assert y.is_contiguous(memory_format=rushlight.channels_last)
    if pays("float32", 8, 16):
        assert "prims.conv_last by template" in caplog.text and "operations after it, reading column" in caplog.text


@pytest.mark.parametrize("channels", [3, 40])
def test_infinite_neighbours_stay_out(channels):
    """What lies beside a run of channels is not multiplied by zero."""
    x, strides = channels_last(torch.ones(1, channels, 9, 9).bfloat16())
    x[:, :, :, 5:] = float("inf")
    weight, (got, y_strides) = torch.ones(16, channels, 1,
                                          1).bfloat16(), channels_last(torch.zeros(1, 16, 9, 9).bfloat16())
    Runner(plan_pixels(Convolution(1, channels, 16, (9, 9), (1, 1), (1, 1), (0, 0), (1, 1), 1, "bfloat16", strides,
                                   y_strides)),
           x=x.data_ptr(), weight=weight.data_ptr(), y=got.data_ptr())()
    assert (got[:, :, :, :5] == channels).all() and got[:, :, :, 5:].isinf().all()


def test_channels_must_be_neighbours():
    with pytest.raises(ValueError, match="are not contiguous"):
        plan_pixels(Convolution(1, 16, 16, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 1, "uint8", b_dtype="int8",
                                out_dtype="int32"))


GEOMETRY = {"stride": (1, 2), "padding": (1, 0), "dilation": (1, 1), "groups": 1}


def of_bytes():
    """(images, weights) with the reference's sums, for GEOMETRY and a border of 7."""
    generator = np.random.default_rng(0)
    x, w = generator.integers(0, 256, (2, 9, 8, 20), np.uint8), generator.integers(-128, 128, (33, 20, 3, 3), np.int8)
    wide = torch.from_numpy(np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)), constant_values=7)).double().permute(0, 3, 1, 2)
    wanted = torch.nn.functional.conv2d(wide, torch.from_numpy(w).double(),
                                        stride=(1, 2)).permute(0, 2, 3, 1).numpy().astype(np.int32)
    return rushlight.from_numpy(x), rushlight.from_numpy(w), wanted


def test_bytes_are_a_primitive(caplog):
    x, w, wanted = of_bytes()
    with caplog.at_level("DEBUG", "rushlight.kernels"):
        got = P.int_conv(x, w, **GEOMETRY, border=7)
    assert "prims.int_conv by template" in caplog.text
    np.testing.assert_array_equal(got.numpy(), wanted)
    mapped = rushlight.func.vmap(lambda w: P.int_conv(x, w, **GEOMETRY, border=7))(rushlight.stack([w, w + 1]))
    np.testing.assert_array_equal(mapped[0].numpy(), wanted)


def test_bytes_are_requantised_where_they_are_stored(caplog):
    x, w, wanted = of_bytes()
    scale = rushlight.linspace(1e-5, 1e-3, 33)

    def requantised(x, w, scale):
        sums = P.int_conv(x, w, **GEOMETRY, border=7)
        return (((sums.to(rushlight.float32) * scale).round() + 3).clamp(0, 255)).to(rushlight.uint8)

    with caplog.at_level("DEBUG", "rushlight.fusion"):
        got = rushlight.compile(requantised, fullgraph=True)(x, w, scale)
    assert "operations after it, reading column" in caplog.text
    np.testing.assert_array_equal(got.numpy(), np.clip(np.rint(wanted.astype(np.float32) * scale.numpy()) + 3, 0,
                                                       255).astype(np.uint8))
