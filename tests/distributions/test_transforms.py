"""Transforms, regions and the registries between them, beside PyTorch's."""
import copy
import pickle

import pytest
import torch

import rushlight
from .test_against_judge import same

NUMBERS, VECTOR, MATRIX = [[0.3, -1.2, 0.8], [2.0, 0.1, -0.4]], [[0.3, -1.2, 0.8]], [[0.7, 0.2], [-0.4, 1.1]]
CASES = {
    "exp": (lambda f, t: t.ExpTransform(), NUMBERS), "sigmoid": (lambda f, t: t.SigmoidTransform(), NUMBERS),
    "softplus": (lambda f, t: t.SoftplusTransform(), NUMBERS),
    "tanh": (lambda f, t: t.TanhTransform(), NUMBERS),
    "power": (lambda f, t: t.PowerTransform(f.tensor(1.7, dtype=f.float64)), [[0.3, 1.2, 0.8]]),
    "affine": (lambda f, t: t.AffineTransform(1.5, -2.0), NUMBERS),
    "affine of tensors": (lambda f, t: t.AffineTransform(f.tensor([1.0, 2.0, 3.0], dtype=f.float64),
                                                         f.tensor([1.0, -2.0, 3.0], dtype=f.float64)), NUMBERS),
    "affine of vectors": (lambda f, t: t.AffineTransform(0.5, 2.0, event_dim=1), NUMBERS),
    "independent": (lambda f, t: t.IndependentTransform(t.ExpTransform(), 1), NUMBERS),
    "composed": (lambda f, t: t.ComposeTransform([t.AffineTransform(0.5, 2.0), t.TanhTransform(), t.ExpTransform()]),
                 NUMBERS),
    "composed of vectors": (lambda f, t: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.1, 0.5),
                                                             t.StickBreakingTransform()]), NUMBERS),
    "inverse": (lambda f, t: t.ExpTransform().inv, [[0.3, 1.2, 0.8]]),
    "inverse of composed": (lambda f, t: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)]).inv,
                        [[1.3, 2.2]]),
    "composed of shapes": (lambda f, t: t.ComposeTransform([t.ExpTransform(), t.ReshapeTransform((3,), (3, 1)),
                                                            t.AffineTransform(0.1, 0.5)]), NUMBERS),
    "reshape": (lambda f, t: t.ReshapeTransform((3,), (3, 1)), NUMBERS),
    "stick": (lambda f, t: t.StickBreakingTransform(), NUMBERS),
    "correlation": (lambda f, t: t.CorrCholeskyTransform(), VECTOR),
    "cholesky": (lambda f, t: t.LowerCholeskyTransform(), MATRIX),
    "cat": (lambda f, t: t.CatTransform([t.ExpTransform(), t.TanhTransform()], dim=-1, lengths=[2, 1]), NUMBERS),
    "stack": (lambda f, t: t.StackTransform([t.ExpTransform(), t.TanhTransform()], dim=0), NUMBERS),
    "softmax": (lambda f, t: t.SoftmaxTransform(), NUMBERS),
    "normal": (lambda f, t: t.CumulativeDistributionTransform(f.distributions.Normal(f.tensor(0.5, dtype=f.float64),
                                                                                     f.tensor(2.0, dtype=f.float64))),
               NUMBERS),
    "positive definite": (lambda f, t: t.PositiveDefiniteTransform(), MATRIX),
}


def made(framework, name):
    make, value = CASES[name]
    return make(framework, framework.distributions.transforms), framework.tensor(value, dtype=framework.float64)


def attempt(function, *args):
    try:
        return function(*args)
    except (NotImplementedError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("name", CASES)
def test_values_inverses_and_volumes(name):
    ours, theirs = [], []
    for framework, found in ((rushlight, ours), (torch, theirs)):
        transform, x = made(framework, name)
        y = transform(x)
        found += [y, transform.inv(y), attempt(transform.log_abs_det_jacobian, x, y),
                  tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape)),
                  attempt(lambda: transform.event_dim), transform.domain.event_dim, transform.codomain.event_dim,
                  transform.bijective, bool(transform.codomain.check(y).all())]
    for a, b in zip(ours, theirs):
        if isinstance(b, torch.Tensor):
            same(a, b, 1e-7)
        else:
            assert a == b


@pytest.mark.parametrize("name", CASES)
def test_caches_copies_and_equality(name):
    transform, x = made(rushlight, name)
    kept = transform.with_cache(1)
    y = kept(x)
    assert kept.inv(y) is x or name.startswith(("inverse", "composed")) and rushlight.allclose(kept.inv(y), x)
    assert (transform == copy.copy(transform)) or transform._parameters is None
    assert transform == transform and transform != object()
    same_again = pickle.loads(pickle.dumps(kept))
    assert rushlight.equal(same_again(x), y)


def test_transforms_are_equal_by_their_parameters():
    t = rushlight.distributions.transforms
    assert t.AffineTransform(0, 1) == t.AffineTransform(rushlight.tensor(0.0), 1.0) != t.AffineTransform(0, 2)
    assert t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1, 2)]) == t.ComposeTransform([t.ExpTransform(),
                                                                                                  t.AffineTransform(
                                                                                                      1, 2)])
    assert t.ExpTransform() == t.ExpTransform() != t.TanhTransform() and t.ExpTransform().inv == t.ExpTransform().inv


REGIONS = {
    "real": lambda c: c.real, "positive": lambda c: c.positive, "nonnegative": lambda c: c.nonnegative,
    "greater": lambda c: c.greater_than(2.0),
    "less": lambda c: c.less_than(-1.0), "interval": lambda c: c.interval(-1.0, 3.0), "unit": lambda c: c.unit_interval,
    "half open": lambda c: c.half_open_interval(0.0, 2.0),
    "simplex": lambda c: c.simplex, "vector": lambda c: c.independent(c.positive, 1),
    "correlation": lambda c: c.corr_cholesky,
    "cat": lambda c: c.cat([c.positive, c.real], 0, [1, 2]),
    "stack": lambda c: c.stack([c.positive, c.real, c.unit_interval], 0), "cholesky": lambda c: c.lower_cholesky,
    "definite": lambda c: c.positive_definite, "integers": lambda c: c.nonnegative_integer,
}


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", REGIONS)
def test_regions_are_reached(name, registry):
    found = []
    for framework in (rushlight, torch):
        region = REGIONS[name](framework.distributions.constraints)
        x = framework.tensor([[0.3, -1.0, 0.5], [1.0, 0.2, 0.7], [-0.3, 0.1, 0.6]] if region.event_dim == 2
                             and name != "correlation" else [0.3, -1.0, 0.5], dtype=framework.float64)
        transform = attempt(getattr(framework.distributions, registry), region)
        if not isinstance(transform, type):
            y = transform(x)
            assert bool(region.check(y).all())
            transform = y
        found.append(transform)
    ours, theirs = found
    if isinstance(theirs, type):
        assert ours is theirs
    else:
        same(ours, theirs, 1e-9)


@pytest.mark.parametrize("name, value", [
    ("real", [0.5, float("nan"), float("inf")]), ("positive", [0.0, 1.0, -1.0]), ("nonnegative", [0.0, 1.0, -1.0]),
    ("unit_interval", [0.0, 1.0, 1.5]),
    ("boolean", [0.0, 1.0, 0.5]), ("nonnegative_integer", [0.0, 1.5, -1.0]), ("positive_integer", [0.0, 1.0, 2.5]),
    ("one_hot", [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]),
    ("simplex", [[0.2, 0.8], [0.2, 0.7], [-0.1, 1.1]]),
    ("lower_triangular", [[[1.0, 0.0], [2.0, 3.0]], [[1.0, 1.0], [0.0, 1.0]]]),
    ("lower_cholesky", [[[1.0, 0.0], [2.0, 3.0]], [[-1.0, 0.0], [0.0, 1.0]]]),
    ("corr_cholesky", [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.6]]]),
    ("symmetric", [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.5], [0.4, 1.0]]]),
    ("positive_definite", [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    ("positive_semidefinite", [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])])
def test_what_regions_contain(name, value):
    ours, theirs = [getattr(f.distributions.constraints, name) for f in (rushlight, torch)]
    assert ours.check(rushlight.tensor(value, dtype=rushlight.float64)).tolist() == theirs.check(
        torch.tensor(value, dtype=torch.float64)).tolist()
    assert (ours.event_dim, ours.is_discrete, repr(ours)) == (theirs.event_dim, theirs.is_discrete, repr(theirs))


@pytest.mark.parametrize("make", [lambda c: c.interval(0, 2), lambda c: c.integer_interval(0, 2),
                                  lambda c: c.greater_than(0.5), lambda c: c.less_than(1),
                                  lambda c: c.half_open_interval(0, 1), lambda c: c.greater_than_eq(1),
                                  lambda c: c.independent(c.positive, 1), lambda c: c.multinomial(2)])
def test_regions_with_bounds(make):
    value = [[0.0, 1.0, 2.0], [0.5, 0.7, -1.0]]
    ours, theirs = make(rushlight.distributions.constraints), make(torch.distributions.constraints)
    assert ours.check(rushlight.tensor(value)).tolist() == theirs.check(torch.tensor(value)).tolist()
    assert (ours.event_dim, ours.is_discrete, repr(ours)) == (theirs.event_dim, theirs.is_discrete, repr(theirs))


@pytest.mark.parametrize("call", [
    lambda f, t: t.Transform(cache_size=2), lambda f, t: t.ReshapeTransform((3,), (2,)),
    lambda f, t: t.ReshapeTransform((3,), (3, 1)).forward_shape((2,)),
    lambda f, t: t.CorrCholeskyTransform().forward_shape((4,)),
    lambda f, t: t.CorrCholeskyTransform().inverse_shape((2, 3)),
    lambda f, t: t.StickBreakingTransform().forward_shape(()),
    lambda f, t: t.IndependentTransform(t.ExpTransform(), 2)(f.zeros(3)),
    lambda f, t: t.AbsTransform().log_abs_det_jacobian(f.zeros(1), f.zeros(1)),
    lambda f, t: f.distributions.constraints.dependent.check(f.zeros(1)),
    lambda f, t: f.distributions.biject_to.register(3, lambda c: None),
    lambda f, t: f.distributions.kl_divergence(f.distributions.Normal(0.0, 1.0), f.distributions.Geometric(0.5)),
    lambda f, t: f.distributions.register_kl(3, 4),
    lambda f, t: f.distributions.utils.tril_matrix_to_vec(f.zeros(2, 2), 4),
    lambda f, t: f.distributions.utils.vec_to_tril_matrix(f.zeros(5)), lambda f, t: t.CatTransform([3])])
def test_errors_are_of_the_same_type(call):
    with pytest.raises(Exception) as theirs:
        call(torch, torch.distributions.transforms)
    with pytest.raises(theirs.type):
        call(rushlight, rushlight.distributions.transforms)


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_triangles_as_vectors(diag):
    for framework in (rushlight, torch):
        matrix = framework.arange(16.0).reshape(4, 4)
        vector = framework.distributions.utils.tril_matrix_to_vec(matrix, diag)
        assert framework.distributions.utils.vec_to_tril_matrix(vector, diag).tolist() == matrix.tril(diag).tolist()
