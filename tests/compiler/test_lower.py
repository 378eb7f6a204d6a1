"""Kernels as text: what is fused, how axes merge, which numbers become slots.  ``--update`` rewrites the golden
files."""

import pytest

from rushlight._src.compiler.lower import NotLowerable
from rushlight._src.core import dtypes

from .programs import Program


def softmax(p):
    a = p.input((30, 40))
    e = p.exp(p.sub(a, p.amax(a, dims=(1,))))
    return (p.div(e, p.sum(e, dims=(1,))),)


def layer_norm(p):
    a, w = p.input((30, 40)), p.input((40,))
    mean = p.mul(p.sum(a, dims=(1,)), 1 / 40)
    d = p.sub(a, mean)
    rstd = p.rsqrt(p.add(p.mul(p.sum(p.mul(d, d), dims=(1,)), 1 / 40), 1e-5))
    return p.mul(p.mul(d, rstd), w), mean, rstd


def scaled_sum(p):
    a, s = p.input((2, 3, 5)), p.input((), dtypes.float64, weak=True)
    return (p.mul(p.add(a, a), s),)


def column_sum(p):
    return (p.sum(p.exp(p.input((500, 70))), dims=(0,)),)


def transpose(p):
    return (p.copy(p.permute(p.input((30, 40)), dims=(1, 0))),)


def embedding(p):
    return (p.take(p.input((50, 8)), p.input((20,), dtypes.int64), dim=0),)


def padded(p):
    return (p.pad(p.input((30, 40)), low=(0, 2), high=(0, 3), inner=(0, 0), value=1.0),)


@pytest.mark.parametrize("build", [softmax, layer_norm, scaled_sum, column_sum, transpose, embedding, padded],
                         ids=lambda f: f.__name__)
def test_kernels_print_as_before(build, golden):
    p = Program()
    program = p.compile(*build(p))
    golden(f"kernels/{build.__name__}.txt", "\n\n".join(str(step.kernel) for step in program.steps))


def test_what_cannot_be_lowered_says_so():
    p = Program()
    with pytest.raises(NotLowerable, match="complex"):
        p.compile(p.neg(p.input((3,), dtypes.complex64)))
    p = Program()
    a = p.input((3, 3))
    with pytest.raises(NotLowerable, match="matmul"):
        p.compile(p.matmul(a, a))


def test_positions_are_checked_only_where_the_mask_holds():
    """A gather seen through padding: outside, there is nothing to be out of range."""
    import numpy as np

    import rushlight as torch

    from ..whole import whole

    def body(x):
        taken = x.index_select(0, torch.arange(3, -1, -1) * 1)
        return torch.nn.functional.pad(taken * 2, (0, 0, 2, 1))

    x = torch.randn(4, 3)
    np.testing.assert_array_equal(whole(body)(x).numpy(), body(x).numpy())


def test_masks_that_look_into_memory_are_guarded_by_later_masks():
    """A gather of what was padded, padded itself: the first mask reads an index, which is there where the second one
    holds."""
    import numpy as np

    import rushlight as torch

    def body(x, y):
        rows = x.index_add(0, torch.tensor([1, 0]), y[:2])
        return (rows * rows).sum() + rows[0].sum()

    def gradients(function):
        x, y = (torch.arange(12.0).reshape(3, 4).requires_grad_() for _ in range(2))
        function(x, y).backward()
        return x.grad.numpy(), y.grad.numpy()

    for found, wanted in zip(gradients(torch.compile(body)), gradients(body)):
        np.testing.assert_array_equal(found, wanted)
