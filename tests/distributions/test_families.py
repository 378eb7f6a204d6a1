"""What all families share: expansion of subclasses, parameters given in several ways, compiled programs."""
import pytest

import rushlight as torch
from rushlight import distributions as d
from .cases import CASES, make


class Shifted(d.Normal):
    """A subclass with a constructor, in the way that PyTorch's programs write it."""

    def __init__(self, loc, scale, shift, validate_args=None):
        self.shift = shift
        super().__init__(loc, scale, validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Shifted, _instance)
        new.shift = self.shift.expand(batch_shape)
        return super().expand(batch_shape, new)


class Own(d.Distribution):
    arg_constraints = {"rate": d.constraints.positive}
    support = d.constraints.real

    def __init__(self, rate, validate_args=None):
        self.rate, self.secret = rate, rate * 2
        super().__init__(rate.shape, validate_args=validate_args)

    def log_prob(self, value):
        return value * self.rate


def test_a_subclass_expands_with_what_it_keeps():
    made = Shifted(torch.zeros(2), torch.ones(2), torch.ones(2)).expand((3, 2))
    assert type(made) is Shifted and made.shift.shape == made.loc.shape == made.sample().shape == (3, 2)


def test_what_expand_cannot_know_is_refused():
    class Other(Shifted):
        def __init__(self):
            super().__init__(torch.zeros(2), torch.ones(2), torch.ones(2))

    with pytest.raises(NotImplementedError, match="expand"):
        Other().expand((3, 2))
    with pytest.raises(NotImplementedError, match="secret"):
        Own(torch.ones(2)).expand((3, 2))


@pytest.mark.parametrize("name", CASES)
def test_expanding_twice_and_flags(name):
    made = make(torch, name)[0]
    once = made.expand((1,) * (2 - len(made.batch_shape)) + tuple(made.batch_shape))
    grown = once.expand((3,) + tuple(once.batch_shape))
    assert grown.batch_shape == (3,) + tuple(once.batch_shape) and grown.event_shape == made.event_shape
    assert grown.sample((2,)).shape == (2, *grown.batch_shape, *grown.event_shape)
    made._validate_args = False
    assert made.expand(grown.batch_shape)._validate_args is False


@pytest.mark.parametrize("given", [{}, {"probs": 0.5, "logits": 0.0}])
@pytest.mark.parametrize("family", [d.Bernoulli, d.Geometric, d.ContinuousBernoulli, lambda **k: d.Binomial(2, **k),
                                    lambda **k: d.NegativeBinomial(2, **k),
                                    lambda **k: d.RelaxedBernoulli(0.5, **k)])
def test_exactly_one_of_the_alternatives(family, given):
    with pytest.raises(ValueError, match="exactly one of probs, logits"):
        family(**given)


def test_numbers_take_the_dtype_beside_them():
    made = d.Normal(torch.zeros(3, dtype=torch.float64), 1)
    assert made.scale.dtype == torch.float64 and made.scale.shape == (3,)
    with pytest.raises(ValueError, match="numbers or tensors"):
        d.Normal("0", 1.0)
    with pytest.raises(ValueError, match="two-dimensional"):
        d.MultivariateNormal(torch.zeros(2), torch.ones(2))
    with pytest.raises(ValueError, match="one-dimensional"):
        d.Categorical(torch.tensor(0.5))


def test_families_compile_into_one_graph():
    def program(a, b, x):
        normal = d.Normal(a, b)
        total = normal.log_prob(x).sum() + d.kl_divergence(normal, d.Normal(b, b.exp())).sum() + d.LogNormal(
            a, b).entropy().sum()
        vectors = d.MultivariateNormal(a, scale_tril=torch.diag(b))
        return total + d.Independent(d.Laplace(a, b),
                                     1).log_prob(x) + vectors.log_prob(x) + d.Categorical(logits=a).log_prob(
                                         torch.tensor(1))

    arguments = torch.randn(4), torch.rand(4) + 0.1, torch.randn(4)
    assert torch.allclose(torch.compile(program, fullgraph=True)(*arguments), program(*arguments), rtol=1e-5)


def test_every_name_is_found():
    for name in d.__all__:
        assert getattr(d, name) is not None
    assert set(dir(d)) >= set(d.__all__)
    with pytest.raises(AttributeError):
        d.Nothing
