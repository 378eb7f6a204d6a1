"""Functions of a table stand in for operators in programs that are compiled ahead, and in their gradients."""
import pytest

import rushlight as torch
from rushlight._functorch.aot_autograd import aot_function, aot_module, aot_module_simplified

F, aten = torch.nn.functional, torch.ops.aten
SCALED = {  # name: (function, overload, what stands in for it: the same, three times)
    "silu": (F.silu, aten.silu.default, lambda x: 3 * x * x.sigmoid()),
    "itself": (F.silu, aten.silu.default, lambda x: 3 * aten.silu.default(x)),
    "within a body": (lambda x: F.softplus(x).tanh(), aten.tanh.default, lambda x: 3 * (1 - 2 / ((2 * x).exp() + 1))),
    "a layer": (lambda x: F.linear(x, torch.eye(3)), aten.linear.default, lambda x, w, b=None: 3 * (x @ w.t()))}


@pytest.mark.parametrize("name", SCALED)
def test_functions_stand_in_for_operators(name):
    function, overload, other = SCALED[name]
    x, weights = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    wanted = function(x)
    gradient, = torch.autograd.grad(wanted, x, weights)
    for decompositions, factor in (({overload: other}, 3), ({overload: lambda *_: NotImplemented}, 1), ({}, 1)):
        for f in (aot_function(function, lambda module, _: module, decompositions=decompositions),
                  aot_module_simplified(function, (x,), lambda module, _: module, decompositions=decompositions)):
            found = f(x)
            torch.testing.assert_close(found, factor * wanted)
            torch.testing.assert_close(torch.autograd.grad(found, x, weights)[0], factor * gradient)


def test_functions_stand_in_for_operators_of_users_and_in_modules():
    @torch.library.custom_op("substitution_tests::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() ** 2)

    opaque.register_fake(torch.empty_like)

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

        def forward(self, x):
            return opaque(x * self.weight)

    module = Module()
    made = aot_module(module, lambda graph, _: graph,
                      decompositions={torch.ops.substitution_tests.opaque.default: lambda x: x * x})
    found = made(torch.ones(3))
    found.sum().backward()
    assert found.tolist() == [4, 4, 4] and module.weight.grad.tolist() == [4, 4, 4]
