"""Every operator's samples on a device that the host may not touch: the numbers of the processor, on the operands'
device, with gradients there."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.op import OPS

from ..ops.test_samples import SAMPLED, arguments, build, energy, flat

pytestmark = pytest.mark.sampled  # all cases with `-m long`


def called(name, index, where):
    """(results and gradients as arrays, the devices they lie on) of an operator's sample."""
    sample = OPS[name].traits["samples"][index]
    rl.manual_seed(0)
    operands = [build(rl, v, lambda a: rl.tensor(a).to(where)) for v in arguments(name, sample)]
    leaves = [x.requires_grad_() for x in flat(operands) if x.is_floating_point()]
    results = list(flat([OPS[name](*operands, **sample.kwargs)]))
    tracked = [y for y in results if y.requires_grad]
    if tracked:
        sum(map(energy, tracked)).backward()
    seen = [y.detach() for y in results] + [x.grad for x in leaves if x.grad is not None]
    return [y.cpu().resolve_conj().resolve_neg().numpy() for y in seen], {y.device for y in seen}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_samples(name, index):
    wanted, _ = called(name, index, "cpu")
    found, places = called(name, index, "fake:1")
    assert places <= {rl.device("fake:1")} and len(found) == len(wanted) > 0
    for a, b in zip(found, wanted):
        if np.asarray(b).dtype.kind in "fc":  # plans for one size and for all add up in another order
            np.testing.assert_allclose(a, b, rtol=b.dtype.type(np.finfo(b.dtype).eps) ** 0.75,
                                       atol=64 * np.finfo(b.dtype).eps)
        else:
            np.testing.assert_array_equal(a, b)


FACTORIES = {
    "zeros": ((2, 3),), "ones": ((2, 3),), "full": ((2, 3), 7.0), "empty": ((2, 3),), "arange": (5,),
    "linspace": (0, 1, 5), "logspace": (0, 1, 5), "eye": (3,), "rand": (2, 3),
    "randn": (2, 3), "randint": (10, (2, 3)), "randperm": (5,), "tensor": ([1, 2],), "tril_indices": (3, 3),
    "hann_window": (8,), "scalar_tensor": (2.0,), "as_tensor": ([1, 2],)}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    function, arguments = getattr(rl, name), FACTORIES[name]
    assert function(*arguments, device="fake:1").device == rl.device("fake:1")
    with rl.device("fake"):
        assert function(*arguments).device == rl.device("fake:0")
    assert function(*arguments).device == rl.device("cpu")


def test_one_stream_of_random_numbers_for_a_seed():
    rl.manual_seed(3)
    a = rl.randn(5)
    generator = rl.Generator("fake:1").manual_seed(3)
    b = rl.randn(5, device="fake:1", generator=generator)
    assert a.tolist() == b.tolist()
    with pytest.raises(RuntimeError, match="Expected a 'fake:1' device type for generator"):
        rl.randn(5, device="fake:1", generator=rl.Generator())


def test_mixtures():
    a, b, c = rl.ones(2, device="fake:0"), rl.ones(2, device="fake:1"), rl.ones(2)
    for call in (lambda: a + b, lambda: a + c, lambda: c * b, lambda: rl.cat([a, c]), lambda: rl.stack([a[0], c[0]]),
                 lambda: a @ c, lambda: rl.where(a > 0, a, b),
                 lambda: rl.nn.functional.linear(a, rl.ones(2, 2)), lambda: a.add_(c)):
        with pytest.raises(RuntimeError,
                           match="Expected all tensors to be on the same device, but found at least two devices"):
            call()
    two = rl.tensor(2.0, requires_grad=True)
    made = a * two
    made.sum().backward()
    assert made.device == a.device and two.grad.device == rl.device("cpu") and two.grad.item() == 2
    assert a[rl.tensor([1])].device == a.device and (rl.tensor(2.0) - a).tolist() == [1, 1]


def test_default_devices_leave_tensors_of_others_alone():
    x = rl.rand(4, 4)
    with rl.device("fake"):
        assert x.bernoulli_().device == x.tril().device == (2.0**x).device == rl.zeros_like(
            x).device == x.unique().device == rl.device("cpu")
