"""Deep copies of parameters and tensors have the gradients, attributes and hooks that PyTorch's have."""
import copy

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def kinds(t):
    """Leaves with a gradient and an attribute: parameters of all kinds, and tensors that are none."""
    class Derived(t.nn.Parameter):
        pass

    class Overriding(t.Tensor):
        def new_empty(self, *args, **kwargs):
            return t.Tensor.new_empty(self, *args, **kwargs).as_subclass(Overriding)

    found = {"parameter": t.nn.Parameter(t.ones(2)), "frozen": t.nn.Parameter(t.ones(2), requires_grad=False),
             "transposed": t.nn.Parameter(t.ones(2, 3).t()), "derived": Derived(t.ones(2)),
             "overriding": t.nn.Parameter(t.ones(2).as_subclass(Overriding)), "tensor": t.ones(2, requires_grad=True),
             "buffer": t.nn.Buffer(t.ones(2))}
    for leaf in found.values():
        leaf.tag, leaf.grad = 1, t.ones_like(leaf.detach())
    return found


def facts(t):
    copies = {name: copy.deepcopy(leaf) for name, leaf in kinds(t).items()}
    return {name: (type(x).__name__, isinstance(x, t.nn.Parameter), isinstance(x, t.nn.Buffer), x.requires_grad,
                   x.grad is None, hasattr(x, "tag"), x.stride(), x.tolist()) for name, x in copies.items()}


def test_copies_of_leaves():
    assert facts(rl) == facts(torch)


def copied_module(t):
    module = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.LazyLinear(3))
    module.tied = module[0].weight
    module[0](t.ones(2)).sum().backward()
    module[0].weight.register_hook(lambda gradient: gradient * 2)
    made = copy.deepcopy(module)
    before = [p.grad is None for p in made[0].parameters()]
    made[0](t.ones(2)).sum().backward()
    return (before, made.tied is made[0].weight, made[0].weight.grad.tolist(), type(made[1].weight).__name__,
            copy.copy(module[0].weight).grad is None)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_copies_of_modules():
    assert copied_module(rl) == copied_module(torch)


def two_over_one_storage(t):
    base = t.zeros(6)
    first, second = copy.deepcopy([t.nn.Parameter(base[:3]), t.nn.Parameter(base[3:])])
    return first.untyped_storage().nbytes(), first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def test_copies_of_parameters_have_storages_of_their_own():
    assert two_over_one_storage(rl) == two_over_one_storage(torch)
