"""Modules called with other tensors than their own, beside PyTorch's."""
import pytest
import torch

import rushlight
from rushlight.func import functional_call

SIDES = [torch, rushlight]


def held(make, call):
    """What PyTorch gives, or raises, as the project does."""
    found = []
    for side in SIDES:
        given = {name: side.tensor(value) for name, value in make.items()}
        try:
            found.append(call(side, given))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    assert found[0] == found[1]
    return found[1]


def scaling(side, **tensors):
    class Scaling(side.nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in tensors.items():
                setattr(self, name, value)

        def forward(self, x):
            self.told = x * self.scale
            return self.told.sum().item()
    return Scaling()


def test_tensors_that_are_no_parameters_are_replaced():
    def call(side, given):
        module = scaling(side, scale=side.ones(2))
        return side.func.functional_call(module, given, side.ones(2)), module.scale.tolist()
    assert held({"scale": [3.0, 4.0]}, call) == (7.0, [1.0, 1.0])


def test_names_that_the_module_lacks_are_there_for_the_call():
    def call(side, given):
        module = scaling(side)
        return side.func.functional_call(module, given, side.ones(2)), hasattr(module, "scale")
    assert held({"scale": [3.0, 4.0]}, call) == (7.0, False)


@pytest.mark.parametrize("names", [("scale",), ("scale", "extra")])
def test_what_is_no_tensor_is_no_place_of_one(names):
    def call(side, given):
        module = scaling(side, scale=2.0, extra=None)
        return side.func.functional_call(module, given, side.ones(2))
    assert held({name: [1.0] for name in names}, call)[0] == "TypeError"


def test_what_the_call_assigns_is_in_the_dictionary():
    class Counting(rushlight.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", rushlight.zeros(1))

        def forward(self, x):
            self.count = self.count + 1
            return x + self.count

    module, start = Counting(), rushlight.tensor([2.0])
    given = {"count": start}
    assert functional_call(module, given, rushlight.zeros(1)).item() == given["count"].item() == 3.0
    assert start.item() == 2.0 and module.count.item() == 0.0


def test_modules_of_one_another_are_called_without_ties():
    module = rushlight.nn.Linear(1, 1)
    module.again = module
    given = {"again.again.weight": rushlight.ones(1, 1), "bias": rushlight.zeros(1)}
    assert functional_call(module, given, rushlight.ones(1), tie_weights=False).item() == 1.0


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("names", [("weight",), ("weight", "other"), ("weight", "extra"), ("extra",)])
def test_strict_calls_count_ties(tie, names):
    def call(side, given):
        module = side.nn.Linear(1, 1, bias=False)
        module.other = module.weight
        return side.func.functional_call(module, given, side.ones(1), tie_weights=tie, strict=True).tolist()
    held({name: [[1.0]] for name in names}, call)


def test_scripted_modules_are_refused():
    with pytest.raises(RuntimeError, match="used with Jitted modules"):
        functional_call(rushlight.jit.script(rushlight.nn.Linear(1, 1)), {}, rushlight.ones(1))


@pytest.mark.parametrize("shape, biased, message", [
    ((4, 3, 2), True, "bias cannot be added to static key"), ((3, 3, 2), False, "expecting static_k.size"),
    ((4, 3, 5), False, "expecting static_k.size")])
def test_static_keys_have_the_sizes_of_heads(shape, biased, message):
    def call(side):
        bias = side.zeros(1, 1, 4) if biased else None
        x = side.zeros(3, 2, 4)
        return side.nn.functional.multi_head_attention_forward(
            x, x, x, 4, 2, side.zeros(12, 4), side.zeros(12), bias, bias, False, 0.0, side.zeros(4, 4), side.zeros(4),
            static_k=side.zeros(shape), static_v=side.zeros(4, 3, 2))
    for side in SIDES:
        with pytest.raises(AssertionError, match=message):
            call(side)


def test_all_layers_are_listed():
    assert set(torch.nn.modules.__all__) - set(rushlight.nn.modules.__all__) <= {"LinearCrossEntropyOptions"}


@pytest.mark.parametrize("name", ["_prelu_kernel", "_trilinear"])
def test_operators_inside_are_names_of_the_root(name):
    assert getattr(rushlight, name) is getattr(rushlight.ops.aten, name)
    assert not hasattr(rushlight, name + "_of_nobody")
