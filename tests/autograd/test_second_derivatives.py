"""Second derivatives of every operator, on its own samples, against central differences."""
import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradgradcheck
from rushlight._src.core.op import OPS
from tests.ops.test_samples import SAMPLED, arguments
from tests.transforms.test_every_operator import at, caller, places

pytestmark = pytest.mark.sampled  # all cases with `-m long`

MOST = 60  # elements of the inputs: differences take two runs for each
ELSEWHERE = {"log1p": "the sample leaves its domain", "special.entr": "the sample leaves its domain",
             "linalg.lstsq": "its residuals carry no gradient", "linalg.householder_product": "a backward of a library"}


@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_second_derivative(name, index):
    if name in ELSEWHERE:
        pytest.skip(ELSEWHERE[name])
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    paths = list(places(values))
    inputs = [rl.tensor(np.asarray(at(values, p)), requires_grad=True) for p in paths]
    if not inputs or sum(x.numel() for x in inputs) > MOST:
        pytest.skip("nothing to differentiate, or too much")
    call = caller(name, sample, values, paths)
    floats = lambda *tensors: tuple(r for r in call(*tensors) if r.is_floating_point())
    if not any(r.requires_grad for r in floats(*inputs)):
        pytest.skip("no derivative")
    rl.manual_seed(0)
    assert gradgradcheck(floats, inputs, check_undefined_grad=False)


WRITING = {"mul_": 1, "div_": 1, "pow_": 1, "atan2_": 1, "lerp_": 2, "addcmul_": 2, "addcdiv_": 2, "exp_": 0,
           "sqrt_": 0, "sigmoid_": 0, "tanh_": 0, "reciprocal_": 0, "log_": 0,
           "square_": 0, "hypot_": 1, "xlogy_": 1}


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)], ids=["whole", "view"])
@pytest.mark.parametrize("name", WRITING)
def test_second_derivative_through_a_write(name, part):
    """The overwritten value takes part in double backward."""
    rl.manual_seed(0)
    inputs = [(rl.rand(4, dtype=rl.float64) + 0.5).requires_grad_() for _ in range(1 + WRITING[name])]

    def written(x, *others):
        x = x.clone()
        getattr(x[part].sin_() if name == "square_" else x[part], name)(*(other[part] for other in others))
        return x

    assert gradgradcheck(written, inputs)
    first = rl.autograd.grad(written(*inputs).sum(), inputs, create_graph=True)
    plain = [x[part].sin() if name == "square_" else x[part] if k == 0 else x[part] for k, x in enumerate(inputs)]
    expected = rl.autograd.grad(getattr(plain[0], name.rstrip("_"))(*plain[1:]).sum(), inputs, create_graph=True)
    mixed = [rl.autograd.grad(sum(g[part].sum() for g in found), inputs, materialize_grads=True)
             for found in (first, expected)]
    assert all(rl.allclose(a[part], b[part]) for a, b in zip(*mixed))
