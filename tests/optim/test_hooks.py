"""Hooks of optimizers, of the framework's and of users' own."""
import pytest

import rushlight as rl


class Plain(rl.optim.Optimizer):
    """Goes down the gradient."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @rl.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad)
        return "stepped"


@pytest.mark.parametrize("make", [Plain, rl.optim.SGD])
def test_hooks_run_around_a_step(make):
    p = rl.nn.Parameter(rl.ones(2))
    optimizer, seen = make([p], lr=0.5), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append((p.tolist(), args, kwargs)))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(p.tolist()))
    p.grad = rl.ones(2)
    optimizer.step()
    assert seen == [([1, 1], (), {}), [0.5, 0.5]]


def test_a_hook_may_change_the_arguments():
    p = rl.nn.Parameter(rl.ones(1))
    optimizer = rl.optim.SGD([p], lr=0.5)
    p.grad = rl.ones(1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((lambda: "changed",), kwargs))
    assert optimizer.step(lambda: "given") == "changed"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_a_step_of_ones_own_returns_what_it_returns():
    p = rl.nn.Parameter(rl.ones(1))
    p.grad = rl.ones(1)
    assert Plain([p], 0.1).step() == "stepped"


def test_an_optimizer_around_another_need_not_be_initialised():
    class Around(rl.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            self.inner.step(closure)

        @property
        def param_groups(self):
            return self.inner.param_groups

    p = rl.ones(1, requires_grad=True)
    p.grad = rl.ones(1)
    Around(rl.optim.SGD([p], 0.5)).step()
    assert p.item() == 0.5


def test_hooks_of_all_optimizers_run_outside_of_those_of_one():
    from rushlight.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    seen, optimizer = [], rl.optim.SGD([rl.nn.Parameter(rl.ones(1))])
    handles = [register_optimizer_step_pre_hook(lambda *_: seen.append("before all")),
               register_optimizer_step_post_hook(lambda *_: seen.append("after all")),
               optimizer.register_step_pre_hook(lambda *_: seen.append("before")),
               optimizer.register_step_post_hook(lambda *_: seen.append("after"))]
    optimizer.step()
    assert seen == ["before all", "before", "after", "after all"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_hooks_of_states_may_be_put_first():
    seen, optimizer = [], rl.optim.SGD([rl.nn.Parameter(rl.ones(1))])
    for name in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
        for k, first in enumerate((False, True)):
            getattr(optimizer, f"register_{name}_hook")(lambda *_, k=k: seen.append(k), prepend=first)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [1, 0] * 4
