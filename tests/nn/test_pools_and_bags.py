"""Where results of pooling lie in memory, bags with a last offset, and what both refuse, beside PyTorch."""
import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def image(t, dtype="float32"):
    return t.arange(2 * 4 * 9 * 9.0).sin().reshape(2, 4, 9, 9).to(getattr(t, dtype)).contiguous(
        memory_format=t.channels_last)


def volume(t):
    return t.arange(2 * 2 * 9 ** 3.0).sin().reshape(2, 2, 9, 9, 9).contiguous(memory_format=t.channels_last_3d)


POOLS = {
    "max": lambda t, f: f.max_pool2d(image(t), 3, 2, return_indices=True),
    "max of half": lambda t, f: f.max_pool2d(image(t, "float16"), 3, 2, return_indices=True),
    "max unbatched": lambda t, f: f.max_pool2d(image(t)[0], 3, 2, return_indices=True),
    "max 3d": lambda t, f: f.max_pool3d(volume(t), 3, 2, return_indices=True),
    "average": lambda t, f: f.avg_pool2d(image(t), 3, 2),
    "average of doubles": lambda t, f: f.avg_pool2d(image(t, "float64"), 3, 2, padding=1),
    "average 3d": lambda t, f: f.avg_pool3d(volume(t), 3, 2),
    "lp": lambda t, f: f.lp_pool2d(image(t), 2, 3),
    "adaptive": lambda t, f: f.adaptive_avg_pool2d(image(t), 4),
    "adaptive equal": lambda t, f: f.adaptive_avg_pool2d(image(t), 3),
    "adaptive to one": lambda t, f: f.adaptive_avg_pool2d(image(t), 1),
    "adaptive of parts": lambda t, f: f.adaptive_avg_pool2d(image(t).contiguous()[::2, ::2, ::2, ::2], 1),
    "adaptive 3d": lambda t, f: f.adaptive_avg_pool3d(volume(t), 4),
    "adaptive 3d to one": lambda t, f: f.adaptive_avg_pool3d(volume(t), 1),
    "adaptive max": lambda t, f: f.adaptive_max_pool2d(image(t), 4, return_indices=True),
    "unpool": lambda t, f: f.max_unpool2d(*f.max_pool2d(image(t), 3, 2, return_indices=True), 3, 2),
}


@pytest.mark.parametrize("call", POOLS.values(), ids=POOLS)
def test_results_lie_as_pytorch_has_them(call):
    def found(t):
        out = call(t, t.nn.functional)
        parts = out if isinstance(out, (tuple, list)) else [out]
        return [(p.stride(), p.shape, p.double().tolist()) for p in parts]
    for (strides, shape, values), (other, sizes, wanted) in zip(found(torch), found(judge)):
        assert (strides, tuple(shape)) == (other, tuple(sizes))
        assert torch.allclose(torch.tensor(values), torch.tensor(wanted), atol=1e-3)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16"])
def test_adaptive_pools_refuse_whole_numbers(dtype):
    for t in BOTH:
        x = t.zeros(1, 2, 4, 4, dtype=getattr(t, dtype))
        for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
            with pytest.raises(RuntimeError, match="not implemented"):
                getattr(t.nn.functional, name)(x, 2)


def test_random_numbers_of_fractional_pools_are_checked():
    for t in BOTH:
        f, x = t.nn.functional, t.zeros(1, 2, 9, 9)
        for samples in (t.zeros(0, 2, 2), t.zeros(1, 3, 2), t.zeros(1, 2, 3)):
            with pytest.raises(RuntimeError, match="Expect _random_samples"):
                f.fractional_max_pool2d(x, 2, output_size=3, _random_samples=samples)
        with pytest.raises(RuntimeError, match="Expected input"):
            f.fractional_max_pool2d(t.zeros(1, 0, 9, 9), 2, output_size=3)
        assert f.fractional_max_pool2d(t.zeros(0, 2, 9, 9), 2, output_size=3).shape == (0, 2, 3, 3)


BAGS = [(offsets, mode, padding) for offsets in ([0, 3, 3], [0, 3, 4], [0, 2, 3], [0, 3, 3, 3], [4], [0, 0, 4])
        for mode in ("sum", "max") for padding in (None, 5)]


@pytest.mark.parametrize("offsets, mode, padding", BAGS)
def test_bags_whose_last_offset_is_an_end(offsets, mode, padding):
    def found(t):
        table = t.arange(12.0).reshape(6, 2) + 1
        try:
            return t.nn.functional.embedding_bag(t.tensor([0, 1, 2, 3]), table, t.tensor(offsets), mode=mode,
                                                 include_last_offset=True, padding_idx=padding).tolist()
        except RuntimeError as error:
            return str(error)[:20]
    assert found(torch) == found(judge)


def test_errors_of_bags():
    for t in BOTH:
        bag, table = t.nn.functional.embedding_bag, t.ones(10, 2)
        for wrong in ([[-1, 1]], [[11, 8]]):
            for mode in ("sum", "mean", "max"):
                with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings"):
                    bag(t.tensor(wrong), table, mode=mode, padding_idx=0)
        for offsets in ([1, 2], [0, 9]):
            with pytest.raises(RuntimeError, match="offsets"):
                bag(t.tensor([1, 2]), table, t.tensor(offsets))
        with pytest.raises(RuntimeError, match="have the same type"):
            bag(t.tensor([1, 2]), table, t.tensor([0]), mode="sum", per_sample_weights=t.ones(2, dtype=t.float64))


def test_sparse_gradients_keep_their_rows():
    for t in BOTH:
        table, rows = t.nn.Embedding(10, 3, sparse=True), t.tensor([7, 1, 3])
        table(rows).sum().backward()
        rows[0] = 8
        assert table.weight.grad._indices().tolist() == [[7, 1, 3]]


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_refuse_complex_numbers(name):
    for t in BOTH:
        made = getattr(t.func, name)
        with pytest.raises(RuntimeError, match="Expected all inputs"):
            made(lambda x: x.conj())(t.ones(1, dtype=t.complex64))
        with pytest.raises(RuntimeError, match="Expected all outputs"):
            made(lambda x: t.conj(x * 0.5j))(t.ones(1))


def test_functions_of_the_older_package_say_so():
    import functorch as judged  # PyTorch's

    from rushlight import functorch
    for package in (judged, functorch):
        with pytest.warns(FutureWarning, match="Please use `torch.func.jacrev`"):
            package.jacrev(lambda x: x)
        with pytest.warns(FutureWarning, match="Please use `torch.vmap`"):
            package.vmap(lambda x: x)


@pytest.mark.parametrize("height", range(3, 9))
def test_sizes_of_unpooled_images(height):
    def found(t):
        x = t.arange(25.0).mul(7).remainder(25).reshape(1, 1, 5, 5)
        values, places = t.nn.functional.max_pool2d(x, 3, 2, return_indices=True)
        places.remainder_(12)
        try:
            return t.nn.functional.max_unpool2d(values, places, 3, 2, output_size=(height, 5)).tolist()
        except (ValueError, RuntimeError) as error:
            return type(error).__name__
    assert found(torch) == found(judge)


@pytest.mark.parametrize("options", [{}, {"padding": 1}, {"padding": 1, "count_include_pad": False},
                                     {"divisor_override": 3}, {"padding": 1, "divisor_override": -2}])
def test_averages_of_integers_are_exact_and_truncate(options):
    """Sums and counts are divided as integers, also where double precision would round."""
    numbers = [(1 << 61) + 1, 3, -7, 2, -(1 << 61) - 3, 5, -8, -9, 1 << 60, (1 << 53) + 1, 0, -1]

    def found(t):
        x, f = t.tensor(numbers), t.nn.functional
        one = {k: v for k, v in options.items() if k != "divisor_override"}
        return [f.avg_pool1d(x[None], 3, 2, **one).tolist(), f.avg_pool2d(x.view(1, 3, 4), 2, 1, **options).tolist(),
                f.avg_pool3d(x.view(1, 2, 3, 2), 2, 1, **options).tolist()]
    assert found(torch) == found(judge)
