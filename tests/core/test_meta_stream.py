"""Tensors on the meta device draw nothing from the CPU's random stream; random operators accept them, as PyTorch's
do."""
import pytest

import rushlight as torch

judge = pytest.importorskip("torch")


@pytest.mark.parametrize("make", [lambda: torch.nn.Linear(3, 3), lambda: torch.rand(3), lambda: torch.randperm(4),
                                  lambda: torch.nn.init.normal_(torch.empty(3))])
def test_numbers_go_on_as_if_nothing_had_been_drawn(make):
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with torch.device("meta"):
        assert make() is not None
    assert torch.equal(torch.rand(2), expected)


def half(library, *shape, **how):
    return library.ones(*shape, device="meta", **how) * 0.5


WITH_TENSORS = {
    "bernoulli": lambda t, x: t.bernoulli(x),
    "bernoulli of one chance": lambda t, x: t.bernoulli(x, 0.3),
    "bernoulli_": lambda t, x: x.bernoulli_(0.5),
    "bernoulli_ of chances": lambda t, x: x.bernoulli_(x),
    "multinomial": lambda t, x: t.multinomial(x, 2),
    "multinomial of one": lambda t, x: t.multinomial(x, 1),
    "multinomial with replacement": lambda t, x: t.multinomial(x, 9, True),
    "normal": lambda t, x: t.normal(x, x),
    "normal of means": lambda t, x: t.normal(x, 1.0),
    "normal of deviations": lambda t, x: t.normal(0.5, x),
    **{name: lambda t, x, name=name: getattr(x, name)() for name in (
        "normal_", "uniform_", "random_", "exponential_", "cauchy_", "log_normal_")},
    "geometric_": lambda t, x: x.geometric_(0.5),
    "in float64": lambda t, x: x.double().uniform_(),
    "integers": lambda t, x: x.long().random_(1, 5),
    "poisson": lambda t, x: t.poisson(x),
    "gamma": lambda t, x: t._standard_gamma(x),
    **{name: lambda t, x, name=name: getattr(t, name)(x) for name in ("rand_like", "randn_like")},
    "randint_like": lambda t, x: t.randint_like(x, 5),
    **{name: lambda t, x, name=name: getattr(t.nn.functional, name)(x, training=True) for name in (
        "dropout", "dropout1d", "alpha_dropout", "rrelu")},
    "dropout in place": lambda t, x: t.nn.functional.dropout(x, inplace=True),
    "dropout2d": lambda t, x: t.nn.functional.dropout2d(half(t, 2, 3, 4, 4)),
    "feature_alpha_dropout": lambda t, x: t.nn.functional.feature_alpha_dropout(half(t, 2, 3, 4), training=True),
    "native_dropout": lambda t, x: t.native_dropout(x, 0.5, True),
    "rrelu in place": lambda t, x: t.nn.functional.rrelu(x, training=True, inplace=True),
    "gumbel_softmax": lambda t, x: t.nn.functional.gumbel_softmax(x),
    "fractional_max_pool2d": lambda t, x: t.nn.functional.fractional_max_pool2d(half(t, 1, 2, 6, 6), 2, output_size=3),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(*[half(t, 1, 2, 4, 8)] * 3, dropout_p=0.3),
    "lstm": lambda t, x: t.nn.LSTM(6, 4, 2, dropout=0.5, device="meta")(half(t, 3, 2, 6))[0],
    **{name: lambda t, x, name=name: getattr(t.nn.init, name)(x) for name in (
        "trunc_normal_", "xavier_uniform_", "kaiming_normal_", "orthogonal_")},
    "sparse_": lambda t, x: t.nn.init.sparse_(x, 0.2),
    "pca_lowrank": lambda t, x: t.pca_lowrank(x),
    "svd_lowrank": lambda t, x: t.svd_lowrank(x, 2),
    "a gamma variable": lambda t, x: t.distributions.Gamma(x, x, validate_args=False).rsample(),
    "a category": lambda t, x: t.distributions.Categorical(x, validate_args=False).sample(),
}


def seen(result):
    results = result if isinstance(result, (tuple, list)) else [result]
    return [(str(r.dtype).rpartition(".")[2], tuple(r.shape), r.device.type) for r in results]


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_operators_that_draw_take_tensors_without_data(name):
    call = WITH_TENSORS[name]
    torch.manual_seed(3)
    before = torch.get_rng_state().tolist()
    assert seen(call(torch, half(torch, 4, 6))) == seen(call(judge, half(judge, 4, 6)))
    assert torch.get_rng_state().tolist() == before


def test_a_generator_of_the_processor_stands_still():
    stream = torch.Generator().manual_seed(1)
    before = stream.get_state().tolist()
    half(torch, 3).normal_(generator=stream)
    torch.bernoulli(half(torch, 3), generator=stream)
    assert stream.get_state().tolist() == before
