"""A sample of each distribution, for both frameworks: name, parameters as nested lists, and values to look at."""
MATRIX = [[2.0, 0.5], [0.5, 1.0]]
FACTOR = [[1.5, 0.0], [0.4, 0.8]]
CASES = {
    "Bernoulli": ({"probs": [0.2, 0.7]}, [0.0, 1.0]),
    "Bernoulli.logits": ({"logits": [-0.3, 1.2]}, [0.0, 1.0]),
    "Beta": ({"concentration1": [0.7, 3.0], "concentration0": [2.0, 1.5]}, [0.3, 0.8]),
    "Binomial": ({"total_count": [5.0, 5.0], "probs": [0.3, 0.9]}, [2.0, 5.0]),
    "Categorical": ({"probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]}, [0.0, 2.0]),
    "Categorical.logits": ({"logits": [[0.2, 0.5, -0.3], [0.6, 1.1, 0.3]]}, [1.0, 2.0]),
    "Cauchy": ({"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.4, -2.0]),
    "Chi2": ({"df": [1.5, 4.0]}, [0.4, 3.0]),
    "ContinuousBernoulli": ({"probs": [0.2, 0.5]}, [0.4, 0.9]),
    "Dirichlet": ({"concentration": [[0.5, 1.5, 2.0], [3.0, 2.0, 1.0]]}, [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]]),
    "Exponential": ({"rate": [0.7, 2.0]}, [0.4, 1.7]),
    "FisherSnedecor": ({"df1": [3.0, 5.0], "df2": [6.0, 9.0]}, [0.4, 1.7]),
    "Gamma": ({"concentration": [0.5, 3.0], "rate": [1.0, 2.0]}, [0.4, 1.7]),
    "GeneralizedPareto": ({"loc": [0.0, 1.0], "scale": [1.0, 2.0], "concentration": [0.2, 0.4]}, [0.4, 1.7]),
    "Geometric": ({"probs": [0.2, 0.7]}, [3.0, 0.0]),
    "Gumbel": ({"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.4, -1.0]),
    "HalfCauchy": ({"scale": [1.0, 2.0]}, [0.4, 1.7]),
    "HalfNormal": ({"scale": [1.0, 2.0]}, [0.4, 1.7]),
    "InverseGamma": ({"concentration": [2.5, 3.0], "rate": [1.0, 2.0]}, [0.4, 1.7]),
    "Kumaraswamy": ({"concentration1": [1.7, 3.0], "concentration0": [2.0, 1.5]}, [0.3, 0.8]),
    "LKJCholesky": ({"dim": 3, "concentration": [0.8, 2.0]},
                    [[[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.36, 0.8]]] * 2),
    "Laplace": ({"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.4, -2.0]),
    "LogNormal": ({"loc": [0.0, 0.5], "scale": [1.0, 0.3]}, [0.4, 2.0]),
    "LogisticNormal": ({"loc": [[0.0, 0.5]], "scale": [[1.0, 0.3]]}, [[0.2, 0.3, 0.5]]),
    "LowRankMultivariateNormal": ({"loc": [0.0, 1.0], "cov_factor": [[1.0], [0.5]], "cov_diag": [0.5, 1.5]},
                                  [0.4, -2.0]),
    "Multinomial": ({"total_count": 4, "probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]},
                    [[1.0, 2.0, 1.0], [0.0, 0.0, 4.0]]),
    "MultivariateNormal": ({"loc": [0.0, 1.0], "covariance_matrix": MATRIX}, [0.4, -2.0]),
    "MultivariateNormal.precision": ({"loc": [0.0, 1.0], "precision_matrix": MATRIX}, [0.4, -2.0]),
    "MultivariateNormal.factor": ({"loc": [0.0, 1.0], "scale_tril": FACTOR}, [0.4, -2.0]),
    "NegativeBinomial": ({"total_count": [3.0, 5.0], "probs": [0.2, 0.65]}, [2.0, 5.0]),
    "Normal": ({"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.4, -2.0]),
    "OneHotCategorical": ({"probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "OneHotCategoricalStraightThrough": ({"probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]},
                                         [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "Pareto": ({"scale": [1.0, 2.0], "alpha": [2.5, 3.0]}, [1.4, 2.7]),
    "Poisson": ({"rate": [0.7, 4.0]}, [2.0, 3.0]),
    "RelaxedBernoulli": ({"temperature": [0.7], "probs": [0.2, 0.7]}, [0.3, 0.9]),
    "RelaxedOneHotCategorical": ({"temperature": [0.7], "probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]},
                                 [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]]),
    "StudentT": ({"df": [2.5, 4.0], "loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.4, -2.0]),
    "Uniform": ({"low": [0.0, -1.0], "high": [1.0, 2.0]}, [0.4, 1.5]),
    "VonMises": ({"loc": [0.0, 1.0], "concentration": [0.7, 4.0]}, [0.4, -2.0]),
    "Weibull": ({"scale": [1.0, 2.0], "concentration": [1.5, 0.8]}, [0.4, 1.7]),
    "Wishart": ({"df": 3.5, "covariance_matrix": MATRIX}, [[1.5, 0.2], [0.2, 0.9]]),
}
CASES["Independent"] = ({"base": "Normal", "parameters": {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}}, [0.4, -2.0])
CASES["MixtureSameFamily"] = ({"weights": [0.3, 0.7], "parameters": {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}}, 0.4)
FLOAT32 = ("GeneralizedPareto",)  # where the judge compares with a float32 zero


def tensors(framework, value, dtype):
    return framework.tensor(value, dtype=dtype) if isinstance(value, list) else value


def make(framework, name, dtype=None, wants_grad=False):
    """The distribution of one case, its tensor parameters, and the values to look at."""
    dtype = dtype or (framework.float32 if name in FLOAT32 else framework.float64)
    parameters, value = CASES[name]
    module = framework.distributions
    given = {k: tensors(framework, v, dtype) for k, v in parameters.items() if not isinstance(v, dict)}
    inner = {k: tensors(framework, v, dtype) for k, v in parameters.get("parameters", {}).items()}
    leaves = [v for v in (*given.values(), *inner.values()) if isinstance(v, framework.Tensor)]
    for leaf in leaves:
        leaf.requires_grad_(wants_grad)
    if name == "Independent":
        made = module.Independent(module.Normal(**inner), 1)
    elif name == "MixtureSameFamily":
        made = module.MixtureSameFamily(module.Categorical(given["weights"]), module.Normal(**inner))
    else:
        made = getattr(module, name.partition(".")[0])(**given)
    return made, leaves, framework.tensor(value, dtype=dtype)
