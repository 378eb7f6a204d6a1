"""Einstein summation of several operands: the order in which they are contracted."""
import numpy as np
import pytest

import rushlight as torch


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]), ("aA,bB,cC,ABC->abc", [(3, 3), (4, 4), (5, 5), (3, 4, 5)]),
    ("i,j,k->ikj", [(2,), (3,), (4,)]),
    ("bij,bjk,bk->bi", [(2, 3, 4), (2, 4, 5), (2, 5)]), ("ab,bc,ca->", [(3, 4), (4, 5), (5, 3)]),
    ("a,a,ab->b", [(3,), (3,), (3, 2)]),
    ("...ij,jk,kl->...il", [(2, 3, 4), (4, 5), (5, 2)]), ("ab,cd,ef->f", [(2, 3), (3, 4), (2, 5)])])
def test_several_operands(equation, shapes):
    values = [np.random.default_rng(k).standard_normal(s) for k, s in enumerate(shapes)]
    found = torch.einsum(equation, *map(torch.tensor, values))
    np.testing.assert_allclose(found.numpy(), np.einsum(equation, *values), rtol=1e-10, atol=1e-12)


def test_what_lies_between_stays_small():
    """From left to right the product of the first two would have 40 ** 4 times 16 elements."""
    sizes = 40, 40, 16, 16
    factors = [torch.eye(n) for n in sizes]
    x = torch.randn(*sizes)
    before = torch.utils.flop_counter.FlopCounterMode(display=False)
    with before:
        assert torch.allclose(torch.einsum("aA,bB,cC,dD,ABCD->abcd", *factors, x), x)
    assert before.get_total_flops() <= 2 * x.numel() * sum(sizes)


def test_an_equation_is_one_program_where_nothing_interprets_it():
    from rushlight._src.core.native.objects import RUN, VIEW
    from rushlight._src.core.op import OPS

    einsum = OPS["einsum"]
    einsum.plans.clear()
    x = torch.ones(2, 3)
    assert torch.einsum("ij,kj->ik", x, x).tolist() == [[3, 3], [3, 3]]
    turned = torch.einsum("ij->ji", x)
    assert turned.data_ptr() == x.data_ptr() and turned._base is x
    assert sorted(plan.kind for plan in einsum.plans.values()) == sorted((RUN, VIEW))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.einsum("ij,kj->ik", x, x).dtype is torch.bfloat16
    assert torch.tensordot(x, x, ([1], [1])).tolist() == [[3, 3], [3, 3]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.tensordot(x, x, ([1], [1])).dtype is torch.bfloat16
