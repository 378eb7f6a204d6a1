"""L-BFGS beside PyTorch's: the path of the parameters and of the state, with and without a line search."""
import copy

import numpy as np
import pytest
import torch

import rushlight


def valley(x, y):
    return (1 - x).square().sum() + 20 * (y - x.square()).square().sum()


@pytest.mark.parametrize("options", [{"lr": 0.05}, {"lr": 0.05, "max_iter": 3, "history_size": 2},
                                     {"line_search_fn": "strong_wolfe"},
                                     {"line_search_fn": "strong_wolfe", "max_eval": 4}, {"lr": 0.1, "max_iter": 1},
                                     {"tolerance_grad": 1e3}])
def test_the_same_path(options):
    paths = []
    for framework in (rushlight, torch):
        x, y = [framework.tensor(v, dtype=framework.float64, requires_grad=True) for v in ([-1.2, 0.3], [1.0, -0.5])]
        optimizer = framework.optim.LBFGS([x, y], **options)

        def closure():
            optimizer.zero_grad()
            loss = valley(x, y)
            loss.backward()
            return loss
        path = []
        for _ in range(5):
            loss = optimizer.step(closure)
            state = optimizer.state[x]
            path += [float(loss), *x.tolist(), *y.tolist(), state["func_evals"], state["n_iter"],
                     len(state.get("old_dirs", ()))]
        paths.append(path)
    np.testing.assert_allclose(*paths, rtol=1e-6, atol=1e-9)


def test_a_saved_state_goes_on():
    x = rushlight.tensor([-1.2, 1.0], dtype=rushlight.float64, requires_grad=True)

    def steps(optimizer, count):
        def closure():
            optimizer.zero_grad()
            loss = valley(x[0], x[1])
            loss.backward()
            return loss
        for _ in range(count):
            optimizer.step(closure)
        return x.tolist()

    first = rushlight.optim.LBFGS([x], max_iter=2, line_search_fn="strong_wolfe")
    steps(first, 2)
    state, at = copy.deepcopy(first.state_dict()), x.detach().clone()
    expected = steps(first, 2)
    with rushlight.no_grad():
        x.copy_(at)
    again = rushlight.optim.LBFGS([x], max_iter=2, line_search_fn="strong_wolfe")
    again.load_state_dict(state)
    assert steps(again, 2) == pytest.approx(expected, rel=1e-9)


def test_wrong_options():
    x = rushlight.zeros(1, requires_grad=True)
    with pytest.raises(ValueError, match="groups"):
        rushlight.optim.LBFGS([{"params": [x]}, {"params": [rushlight.zeros(1)]}])
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        rushlight.optim.LBFGS([x], line_search_fn="other").step(lambda: x)
