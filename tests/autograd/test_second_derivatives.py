"""Second derivatives of every operator, on its own samples, against central differences."""
import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradgradcheck
from rushlight.core.op import OPS
from tests.ops.test_samples import SAMPLED, arguments
from tests.transforms.test_every_operator import at, caller, places

MOST = 60  # elements of the inputs: differences take two runs for each
ELSEWHERE = {"log1p": "the sample leaves its domain", "special.entr": "the sample leaves its domain",
             "linalg.lstsq": "its residuals carry no gradient", "linalg.householder_product": "a backward of a library"}


@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_second_derivative(name, index):
    if name in ELSEWHERE:
        pytest.skip(ELSEWHERE[name])
    sample = OPS[name].facts["samples"][index]
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
