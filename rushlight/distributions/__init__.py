"""Probability distributions: samples with gradients, densities, entropies, divergences, and transforms between regions.

Families are imported when they are first asked for.
"""
import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from . import transforms
from .distribution import Distribution

HOMES = {  # file: what it defines
    "exp_family": ["ExponentialFamily"], "constraint_registry": ["biject_to", "transform_to"],
    "kl": ["kl_divergence", "register_kl"], "transforms": transforms.__all__,
    # made from other distributions
    "independent": ["Independent"], "mixture_same_family": ["MixtureSameFamily"],
    "transformed_distribution": ["TransformedDistribution"],
    # a number of the line
    "normal": ["Normal"], "laplace": ["Laplace"], "cauchy": ["Cauchy"], "studentT": ["StudentT"], "gumbel": ["Gumbel"],
    "von_mises": ["VonMises"], "uniform": ["Uniform"],
    # a number above a bound
    "exponential": ["Exponential"], "gamma": ["Gamma"], "chi2": ["Chi2"], "inverse_gamma": ["InverseGamma"],
    "fishersnedecor": ["FisherSnedecor"],
    "log_normal": ["LogNormal"], "half_normal": ["HalfNormal"], "half_cauchy": ["HalfCauchy"], "weibull": ["Weibull"],
    "pareto": ["Pareto"],
    "generalized_pareto": ["GeneralizedPareto"],
    # a number from 0 to 1
    "beta": ["Beta"], "kumaraswamy": ["Kumaraswamy"], "continuous_bernoulli": ["ContinuousBernoulli"],
    "relaxed_bernoulli": ["RelaxedBernoulli"],
    # a count or a class
    "bernoulli": ["Bernoulli"], "binomial": ["Binomial"], "geometric": ["Geometric"],
    "negative_binomial": ["NegativeBinomial"], "poisson": ["Poisson"],
    "categorical": ["Categorical"],
    # a vector or a matrix
    "one_hot_categorical": ["OneHotCategorical", "OneHotCategoricalStraightThrough"],
    "relaxed_categorical": ["RelaxedOneHotCategorical"], "multinomial": ["Multinomial"],
    "dirichlet": ["Dirichlet"], "logistic_normal": ["LogisticNormal"], "multivariate_normal": ["MultivariateNormal"],
    "lowrank_multivariate_normal": ["LowRankMultivariateNormal"], "wishart": ["Wishart"],
    "lkj_cholesky": ["LKJCholesky"],
}
__all__ = ["Distribution", *[name for names in HOMES.values() for name in names]]


def __getattr__(name):
    for home, names in HOMES.items():
        if name in names:
            return globals().setdefault(name, getattr(_import_module(f".{home}", __name__), name))
    if name in HOMES or name == "utils":
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__, *HOMES])


class Families(_ModuleType):
    """This module, whose ``__dict__`` has every family for who looks through it."""

    @property
    def __dict__(self):
        for name in __all__:
            getattr(self, name)
        return globals()


_sys.modules[__name__].__class__ = Families
