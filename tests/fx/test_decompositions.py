"""Tables of decompositions: what an operator decomposes into computes the same, by other operators."""
import pytest

import rushlight as torch
from rushlight import _decomp as decomp
from rushlight.fx.experimental.proxy_tensor import make_fx

F, aten = torch.nn.functional, torch.ops.aten
CASES = {
    "silu": F.silu, "hardswish": F.hardswish, "addcmul": lambda x: torch.addcmul(x, x, x), "softplus": F.softplus,
    "_log_softmax": lambda x: x.log_softmax(0),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "logaddexp": lambda x: torch.logaddexp(x, x), "std": lambda x: x.std(0), "rsub": lambda x: torch.rsub(x, 2)}


def targets(module):
    return {node.target._opname for node in module.graph.nodes if node.op == "call_function"
            and hasattr(node.target, "_opname")}


@pytest.mark.parametrize("name", CASES)
def test_a_decomposition_computes_the_same(name):
    x = torch.rand(3, 3)
    whole = make_fx(CASES[name])(x)
    table = decomp.get_decompositions([getattr(aten, name)])
    assert table and (name.startswith("_") or set(table) <= set(decomp.core_aten_decompositions()))
    parts = make_fx(CASES[name], table)(x)
    assert name not in targets(parts) and targets(parts) and targets(parts) != targets(whole)
    torch.testing.assert_close(parts(x), whole(x))


def test_core_decompositions_end():
    table = decomp.core_aten_decompositions()
    assert len({overload._opname for overload in table}) > 100
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.SiLU(), torch.nn.LayerNorm(4), torch.nn.Hardswish())
    found = make_fx(module, table)(torch.rand(2, 4))
    assert not targets(found) & {overload._opname for overload in table}
    program = torch.export.export(module, (torch.rand(2, 4),)).run_decompositions(table)
    torch.testing.assert_close(program.module()(torch.ones(2, 4)), module(torch.ones(2, 4)))


def test_registering_and_removing():
    table = {}

    @decomp.register_decomposition([aten.gelu, aten.silu.default], table)
    def nothing(x, **_):
        return x + 0

    assert table[aten.gelu.default] is table[aten.silu.default] is nothing
    decomp.remove_decompositions(table, [aten.gelu])
    assert list(table) == [aten.silu.default]
    assert decomp.get_decompositions(
        [aten.add, torch.ops.prims.matmul.default]) == {} and aten.gelu.default in decomp.decomposition_table
    with pytest.raises(TypeError, match="operator"):
        decomp.get_decompositions([torch.add])
