"""Images resampled, compared with torch: uint8 bit for bit, other integers refused."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

FORMS = [(mode, corners, smooth) for mode in ("bilinear", "bicubic") for corners in (False, True)
         for smooth in (False, True) if not (corners and smooth)]


@pytest.mark.parametrize("mode, corners, smooth", FORMS)
@pytest.mark.parametrize("shape, size", [((2, 3, 16, 16), (24, 9)), ((1, 2, 5, 7), (5, 20)), ((1, 1, 40, 33), (17, 13)),
                                         ((1, 4, 1, 6), (3, 2))])
def test_bytes(mode, corners, smooth, shape, size):
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    how = {"mode": mode, "align_corners": corners, "antialias": smooth}
    same(lambda lib, x: lib.nn.functional.interpolate(x, size, **how), image, rtol=0, atol=0)
    compiled = rushlight.compile(lambda x: rushlight.nn.functional.interpolate(x, size, **how))
    np.testing.assert_array_equal(compiled(rushlight.tensor(image)).numpy(),
                                  torch.nn.functional.interpolate(torch.tensor(image), size, **how).numpy())


def test_bytes_by_a_factor():
    image = np.random.default_rng(1).integers(0, 256, (1, 3, 7, 9), np.uint8)
    for mode in ("bilinear", "bicubic", "nearest", "nearest-exact"):
        same(lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=1.7, mode=mode), image, rtol=0, atol=0)


@pytest.mark.parametrize("mode, corners, smooth", FORMS)
def test_floats(mode, corners, smooth):
    how = {"mode": mode, "align_corners": corners, "antialias": smooth}
    same(lambda lib, x: lib.nn.functional.interpolate(x, (9, 4), **how), arrays((2, 3, 5, 6))[0])


@pytest.mark.parametrize("dtype, mode, rank", [("int64", "bilinear", 2), ("int32", "bicubic", 2),
                                               ("uint8", "linear", 1), ("uint8", "trilinear", 3),
                                               ("bool", "bilinear", 2), ("int64", "nearest", 1),
                                               ("int16", "nearest", 2), ("int8", "nearest-exact", 2),
                                               ("int32", "nearest", 3), ("bool", "nearest", 2)])
def test_whole_numbers_are_refused(dtype, mode, rank):
    for library in (rushlight, torch):
        with pytest.raises(NotImplementedError):
            library.nn.functional.interpolate(library.ones(1, 1, *[4] * rank, dtype=getattr(library, dtype)),
                                              size=[3] * rank, mode=mode)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_results_lie_as_their_inputs(mode, channels_last):
    x = rushlight.rand(2, 3, 8, 8)
    form = rushlight.channels_last if channels_last else rushlight.contiguous_format
    out = rushlight.nn.functional.interpolate(x.contiguous(memory_format=form), size=(4, 11), mode=mode, antialias=True)
    assert out.is_contiguous(memory_format=form)


@pytest.mark.parametrize("mode, antialias", [("bilinear", False), ("bilinear", True), ("bicubic", False),
                                             ("bicubic", True), ("nearest", False)])
def test_results_lie_as_images_do(mode, antialias):
    """Images with channels last, with gaps or one alone: where PyTorch's results have channels last, so have ours."""
    cuts = (lambda x: x, lambda x: x[:, :, 2:-2, 2:-2], lambda x: x[:, :, ::2, ::2], lambda x: x[0][None],
            lambda x: x[:1])
    for dtype in ("uint8", "float32"):
        for memory_format in ("contiguous_format", "channels_last"):
            for cut in cuts:
                seen = []
                for lib in (torch, rushlight):
                    x = cut(lib.ones((2, 3, 16, 16),
                                     dtype=getattr(lib, dtype)).contiguous(memory_format=getattr(lib, memory_format)))
                    y = lib.nn.functional.interpolate(x, size=(6, 6), mode=mode, antialias=antialias)
                    seen.append((y.is_contiguous(), y.is_contiguous(memory_format=lib.channels_last)))
                assert seen[0] == seen[1], (dtype, memory_format)


@pytest.mark.parametrize("mode, rank", [("linear", 1), ("nearest", 1), ("bilinear", 2), ("bicubic", 2), ("nearest", 2),
                                        ("nearest-exact", 2), ("trilinear", 3)])
def test_images_without_pixels_are_refused(mode, rank):
    texts = []
    for library in (torch, rushlight):
        with pytest.raises(RuntimeError) as caught:
            library.nn.functional.interpolate(library.ones(1, 1, *(4, 5, 6)[:rank - 1], 0), (3,) * rank, mode=mode)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
