"""States of optimizers: what they hold of complex parameters, of parameters given twice, and what older versions
wrote."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("settings", [{"momentum": 0.9, "dampening": 0.5}, {"momentum": 0.9, "nesterov": True},
                                      {"maximize": True, "weight_decay": 0.1}])
def test_complex_parameters_go_as_pairs_of_real_ones(settings):
    z = rl.tensor([1 + 2j, 0.5 - 1j], requires_grad=True)
    x, y = z.detach().real.clone().requires_grad_(), z.detach().imag.clone().requires_grad_()
    one, two = rl.optim.SGD([z], lr=0.1, **settings), rl.optim.SGD([x, y], lr=0.1, **settings)
    for _ in range(3):
        one.zero_grad(), two.zero_grad()
        (z**2).abs().sum().backward()
        (rl.complex(x, y) ** 2).abs().sum().backward()
        one.step(), two.step()
        assert rl.allclose(z.detach(), rl.complex(x, y).detach())


def test_parameters_that_stand_twice_have_one_number():
    optimizer = rl.optim.Adam([rl.nn.Parameter(rl.ones(1)), rl.nn.Parameter(rl.ones(2))])
    optimizer.param_groups.extend(optimizer.param_groups)
    assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "Adagrad", "RMSprop"])
def test_counters_written_as_numbers_and_settings_that_were_not_written(name):
    def trained(t):
        p = t.nn.Parameter(t.ones(3))
        make = getattr(t.optim, name)
        optimizer = make([p], lr=0.1)
        for k in range(4):
            p.grad = t.full((3,), float(k + 1))
            optimizer.step()
            if k == 1:
                state = optimizer.state_dict()
                state["state"][0] = {key: v.item() if t.is_tensor(v) and not v.dim() else v
                                     for key, v in state["state"][0].items()}
                for key in ("maximize", "capturable", "foreach"):
                    state["param_groups"][0].pop(key, None)
                optimizer = make([p], lr=0.1)
                optimizer.load_state_dict(state)
        assert "foreach" in optimizer.param_groups[0] and t.is_tensor(optimizer.state[p]["step"])
        return p.tolist()

    assert trained(rl) == pytest.approx(trained(torch), rel=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adadelta", "Adafactor", "Adamax", "RAdam", "LBFGS"])
def test_a_learning_rate_is_one_number(name):
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(rl.optim, name)([rl.nn.Parameter(rl.ones(1))], lr=rl.tensor([0.1, 0.2]))
