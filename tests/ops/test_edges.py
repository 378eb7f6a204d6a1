"""Arguments at the edges of what operators take: huge and negative numbers, nothing at all, NaN, beside torch's."""
import math

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
NAN = math.nan
IMAGE = [[[1.0, NAN, 3.0, 2.0], [0.0, 1.0, NAN, NAN], [5.0, 4.0, 3.0, 2.0], [1.0, 2.0, 3.0, 4.0]]]


def attention(t, *sizes):
    q, k, v = (t.arange(math.prod(s), dtype=t.float32).reshape(s) for s in sizes)
    return t.nn.functional.scaled_dot_product_attention(q, k, v)


def cleared(t, make):
    p = t.nn.Parameter(t.ones(3))
    p.grad = make(t.ones(6))
    before, base = p.grad, p.grad._base
    t.optim.SGD([p], lr=1.0).zero_grad(set_to_none=False)
    module = t.nn.Module()
    module.p = p
    module.zero_grad(set_to_none=False)
    return p.grad, t.tensor(p.grad is before), base


EDGES = {
    "index_fill at -n": lambda t: t.arange(3.0).index_fill(0, t.tensor([-3, -1]), 9.0),
    "index_fill beyond -n": lambda t: t.arange(3.0).index_fill(0, t.tensor([-4]), 9.0),
    "index_fill beyond n": lambda t: t.arange(3.0).index_fill_(0, t.tensor([3]), 9.0),
    "heads of size 0": lambda t: attention(t, (1, 2, 3, 0), (1, 2, 3, 0), (1, 2, 3, 4)),
    "values of size 0": lambda t: attention(t, (1, 2, 3, 0), (1, 2, 3, 0), (1, 2, 3, 0)),
    "no queries": lambda t: attention(t, (1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
    "no keys": lambda t: attention(t, (1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 4)),
    **{f"round to {d}": (lambda t, d=d: t.tensor([1.5, 123456.0, -7.25e30, math.inf]).round(decimals=d))
       for d in (-400, -39, -5, 39, 400)},
    **{f"round to {d} in float64": (lambda t, d=d: t.tensor([1.5, 123456.0, -7.25e30],
                                                            dtype=t.float64).round(decimals=d))
       for d in (-400, -308, 308, 400)},
    "round whole numbers": lambda t: t.tensor([155]).round(decimals=-1),
    "nextafter of whole numbers": lambda t: t.nextafter(t.tensor([1]), t.tensor([2])),
    "max_pool2d": lambda t: t.nn.functional.max_pool2d(t.tensor(IMAGE), 2, return_indices=True),
    "max_pool2d, overlapping": lambda t: t.nn.functional.max_pool2d(t.tensor(IMAGE), 2, 1, return_indices=True),
    "max_pool1d": lambda t: t.nn.functional.max_pool1d(t.tensor(IMAGE[0]), 2, return_indices=True),
    "max_pool3d": lambda t: t.nn.functional.max_pool3d(t.tensor([IMAGE]), (1, 2, 2), return_indices=True),
    "adaptive_max_pool2d": lambda t: t.nn.functional.adaptive_max_pool2d(t.tensor(IMAGE), 2, return_indices=True),
    "-inf within a border": lambda t: t.nn.functional.max_pool2d(t.full((1, 1, 4, 4), -math.inf), 2, padding=1,
                                                                 return_indices=True),
    "-inf within a border, dilated": lambda t: t.nn.functional.max_pool2d(t.full((1, 1, 7, 6), -math.inf), 3, padding=1,
                                                                          dilation=2, stride=1, return_indices=True),
    "a gradient that is a view": lambda t: cleared(t, lambda x: x[:3])[:2],
    "a strided gradient": lambda t: cleared(t, lambda x: x[::2]), "its base": lambda t: cleared(t, lambda x: x[3:])[2],
    "layouts": lambda t: tuple(t.tensor(len(str(x.layout)))
                               for x in (t.empty(2, 3, layout=t.sparse_coo), t.zeros(2, 3, layout=t.sparse_csr),
                                         t.zeros_like(t.ones(2, 2), layout=t.sparse_coo))),
    "a value with leading dimensions of size 1": lambda t: (lambda a: (a.__setitem__([True, False], t.ones(1, 1, 1, 3)),
                                                                       a)[1])(t.zeros(2, 3)),
    "the same of places": lambda t: (lambda a: (a.__setitem__([0, 1, 2, 3], t.ones(1, 4)), a)[1])(t.arange(4.0)),
    "the same as a function": lambda t: t.zeros(3).index_put_((t.tensor([0]),), t.ones(1, 1)),
    "images with channels last": lambda t: t.empty(2, 3, 4, 4, memory_format=t.channels_last).zero_(),
    "no images": lambda t: t.empty(3, 3, memory_format=t.channels_last),
    "powers of -1 and 0": lambda t: t.pow(t.tensor([[-1.0, -0.0, 0.0, -math.inf, NAN, 1.0]]),
                                          t.tensor([[math.inf], [-math.inf], [-1.0], [-3.0], [-2.0], [0.0], [3.0],
                                                    [0.5]])),
    "ldexp of tiny and huge numbers": lambda t: t.ldexp(t.tensor([-0.0, 1e-38, 1e38, -1.0, math.inf]),
                                                        t.tensor([1000, 200, -250, 1000, -1000])),
    "ldexp in float64": lambda t: t.ldexp(t.tensor([5e-324, 1e308, 3.0], dtype=t.float64), t.tensor([2000, -2000, 1])),
    "no variance": lambda t: t.zeros(0).std(correction=-1),
    "variances of no rows": lambda t: t.zeros(0, 2).var(0, correction=-3),
    **{f"{name} of a number along 7": (lambda t, name=name: getattr(t.tensor(3.0), name)(7))
       for name in ("mode", "median", "nanmedian", "sort", "cummax")},
    "a tolerance that is no number": lambda t: t.isclose(t.ones(1), t.ones(1), rtol=NAN),
    "a factor that is no number": lambda t: t.addcmul(t.ones(2, dtype=t.int64), t.tensor([1, 2]), t.tensor([1, 2]),
                                                      value=NAN),
    "a sum in another dtype": lambda t: t.addmm(t.ones(2, 2, dtype=t.float64), t.ones(2, 2), t.ones(2, 2)),
    "an outer product in another dtype": lambda t: t.addr(t.ones(2, 2, dtype=t.float64), t.ones(2, dtype=t.int32),
                                                          t.ones(2)),
    "a system of whole numbers": lambda t: t.cholesky_solve(t.ones(2, 1, dtype=t.int32), t.eye(2)),
    "put into nothing": lambda t: t.zeros(0).put(t.tensor([0]), t.ones(1)),
    "added to nothing": lambda t: t.zeros(0).index_add(0, t.tensor([0]), t.ones(1)),
    "none put into nothing": lambda t: t.zeros(0, 2).index_copy(0, t.zeros(0, dtype=t.int64), t.ones(0, 2)),
    "counts between huge bounds": lambda t: t.histc(t.tensor([1.0, 2.0], dtype=t.float64), 4, -3e38, 3e38),
    "sum_to_size of a number": lambda t: t.tensor(2.0).sum_to_size(()),
    "a full tensor that is sparse": lambda t: t.ones(2, layout=t.sparse_coo),
}


def outcome(t, program):
    try:
        found = program(t)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return next(kind for kind in (NotImplementedError, IndexError, TypeError, ValueError, RuntimeError)
                    if isinstance(error, kind))
    return [(list(x.shape), str(x.dtype), list(x.stride()), x.detach().tolist())
            for x in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    theirs, ours = outcome(torch, EDGES[name]), outcome(rl, EDGES[name])
    if isinstance(theirs, list) and isinstance(ours, list):
        for a, b in zip(theirs, ours, strict=True):
            assert a[:3] == b[:3]
            np.testing.assert_allclose(b[3], a[3], rtol=1e-6)
    else:
        assert theirs is ours


HUGE = 1 << 62


@pytest.mark.parametrize("make", [
    lambda t: t.empty(HUGE, HUGE), lambda t: t.zeros(1 << 31, 1 << 31, 1 << 31), lambda t: t.ones(1).expand(HUGE, 4),
    lambda t: t.empty(0, HUGE, HUGE), lambda t: t.empty(0).resize_(1 << 30, 1 << 32, 2),
    lambda t: t.empty(HUGE, HUGE, device="meta"), lambda t: t.ones(2).repeat(HUGE, 8),
    lambda t: t.empty(HUGE, device="meta", dtype=t.float64),
    lambda t: t.ones(3).as_strided((1 << 40, 1 << 40), (1, 1))])
def test_sizes_that_64_bits_do_not_count(make):
    for t in (torch, rl):
        with pytest.raises(RuntimeError):
            make(t)


@pytest.mark.parametrize("mode, options", [("nearest", {}), ("bilinear", {}), ("bilinear", {"antialias": True}),
                                           ("bicubic", {"antialias": True}), ("area", {})])
@pytest.mark.parametrize("size", [(4, 4), (16, 6)])
def test_images_with_channels_last_stay_so(mode, options, size):
    strides = []
    for t in (torch, rl):
        x = t.arange(2 * 3 * 8 * 8, dtype=t.float32).view(2, 3, 8, 8).contiguous(memory_format=t.channels_last)
        strides.append(tuple(t.nn.functional.interpolate(x, size=size, mode=mode, **options).stride()))
    assert strides[0] == strides[1]


def test_deviations_of_many_numbers():
    """The second of two long reductions in one kernel is cut into chunks as the first is."""
    x = np.random.default_rng(0).random(3_000_000, np.float32)
    exact = x.astype(np.float64)
    for shape in ((-1,), (3, -1)):
        ours, rows = rl.from_numpy(x).view(shape), exact.reshape(shape)
        np.testing.assert_allclose(ours.var(-1).numpy(), rows.var(-1, ddof=1), rtol=4e-7)
        np.testing.assert_allclose(rl.compile(lambda v: v.softmax(-1))(ours * 20).double().sum(-1).numpy(), 1,
                                   rtol=1e-6)
    np.testing.assert_allclose(rl.from_numpy(x).view(-1, 50).std(0).numpy(), exact.reshape(-1, 50).std(0, ddof=1),
                               rtol=2e-6)


@pytest.mark.parametrize("function, dim", [(lambda v: v.add_(1), 0), (lambda v: v.add_(1), 1),
                                           (lambda v: v[0].mul_(2), 0), (lambda v: (v.zero_(), v * 2)[0], 0)])
def test_mapped_functions_that_write_return_what_they_wrote(function, dim):
    seen = []
    for t in (torch, rl):
        x = t.ones(2, 3)
        y = t.func.vmap(function, in_dims=dim)(x)
        seen.append((y.tolist(), x.tolist(), y.data_ptr() == x.data_ptr(), y.stride()))
    assert seen[0] == seen[1]


def test_acosh_below_its_domain():
    x = [3e38, -3e38, -5e3, 0.5, 1.0, 2.0, -math.inf, math.inf, NAN]
    for dtype in ("float32", "float64"):
        theirs, ours = (t.tensor(x, dtype=getattr(t, dtype)).acosh().tolist() for t in (torch, rl))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("shape, dim", [((4, 0), -1), ((4, 0), 0), ((0, 3), 0), ((0,), None), ((2, 0, 3), 1),
                                        ((0, 0), 0), ((3, 2), 1), ((1, 1), 0), ((2, 3), None)])
def test_gradients_of_products_of_any_size(shape, dim):
    def found(t):
        x = t.full(shape, 2.0, requires_grad=True)
        y = x.prod() if dim is None else x.prod(dim)
        gradient, = t.autograd.grad((y * y).sum(), x, create_graph=True)
        gradient.sum().backward()
        return y.tolist(), gradient.tolist(), x.grad.tolist()
    assert found(rl) == found(torch)


def test_tensors_without_elements():
    def found(t):
        pooled, at = t.nn.functional.max_pool2d(t.ones(0, 2, 4, 4), 2, return_indices=True)
        medians = [(str(x.dtype), str(x.tolist())) for dtype in ("int64", "float64") for x in
                   (t.zeros(0, dtype=getattr(t, dtype)).median(), t.zeros(0, dtype=getattr(t, dtype)).nanmedian())]
        nothing = t.zeros(0, dtype=t.int64)
        return tuple(t.nn.functional.max_unpool2d(pooled, at, 2).shape), medians, t.arange(0).repeat_interleave(
            nothing).tolist()
    assert found(rl) == found(torch)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_are_written_in_their_dtypes_alone(name):
    for values, indices in (("int16", "int64"), ("float64", "int64"), ("float32", "int32")):
        for t in (torch, rl):
            out = t.empty(0, dtype=getattr(t, values)), t.empty(0, dtype=getattr(t, indices))
            with pytest.raises(RuntimeError, match="expected scalar.type (Float|Long) but found (Short|Double|Int)"):
                getattr(t, name)(t.ones(3), 0, out=out)
