"""Every operator on its own samples, against torch: forward, and gradients in float64 precision where it has them."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight._src.core.op import OPS, Sample  # noqa: E402

NOT_PUBLIC = [name for name in OPS if name.split(".")[-1].startswith("_") or name.startswith("prims.")]
SAMPLED = [(name, k) for name, op in OPS.items() for k in range(len(op.traits.get("samples", ())))
           if name not in NOT_PUBLIC and not name.endswith("_")]
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "digamma", "pow", "float_power", "xlogy", "rpow"}
UNIT = {"asin", "acos", "atanh", "erfinv", "logit"}
ABOVE_ONE = {"acosh"}
OURS_ONLY = {"rpow"}
NO_GRADIENT = {"nextafter"}  # torch records one that always fails


def theirs(name):
    place = torch
    for part in name.split("."):
        place = getattr(place, part, None)
    return place or getattr(torch.Tensor, name, None)


def arguments(name, sample: Sample, seed=0):
    """Arrays for shapes, anything else as it is."""
    generator = np.random.default_rng(seed)

    def make(value, first=[True]):
        is_shape = isinstance(value, tuple) and all(isinstance(v, int) for v in value)
        if is_shape:
            x = generator.standard_normal(value)
            if name in POSITIVE:
                x = np.abs(x) + 0.3
            if name in UNIT:
                x = np.clip(np.abs(x) / 4, 0.05, 0.9)
            if name in ABOVE_ONE:
                x = np.abs(x) + 1.2
            return np.asarray(x)
        if isinstance(value, list):
            return [make(v) for v in value]
        return value

    first = make(sample.args[0])
    rest = [make(v) if not keeps_tuple(name, k) else v for k, v in enumerate(sample.args[1:], 1)]
    return [first, *rest]


def keeps_tuple(name, k):
    """Parameters whose tuples are sizes or dimensions, not shapes of tensors."""
    parameter = list(OPS[name].signature.parameters.values())[min(k, len(OPS[name].signature.parameters) - 1)].name
    return parameter in ("shape", "dim", "dims", "size", "pad", "shifts", "repeats", "kernel_size", "sizes", "which",
                         "order", "times")


def build(library, values, tensor):
    if isinstance(values, np.ndarray):
        return tensor(values)
    return [build(library, v, tensor) for v in values] if isinstance(values, list) else values


def flat(values):
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from flat(v)
        elif hasattr(v, "requires_grad"):
            yield v


def energy(x):
    """The sum of squares: a real number that depends on every element."""
    return (x * x.conj()).real.sum() if x.is_complex() else (x * x).sum()


@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_against_torch(name, index):
    if name in OURS_ONLY or theirs(name) is None:
        pytest.skip("no such name in torch")
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    ours = [build(rushlight, v, lambda a: rushlight.tensor(a, requires_grad=True)) for v in values]
    judge = [build(torch, v, lambda a: torch.tensor(a, requires_grad=True)) for v in values]
    got = OPS[name](*ours, **sample.kwargs)
    wanted = theirs(name)(*judge, **sample.kwargs)
    outputs = list(flat([got])), list(flat([wanted]))
    assert len(outputs[0]) == len(outputs[1])
    for a, b in zip(*outputs):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().resolve_conj().numpy(), rtol=1e-7, atol=1e-9)
    smooth = [(a, b) for a, b in zip(*outputs) if b.requires_grad]
    if not smooth:
        return
    try:
        sum(energy(b) for _, b in smooth).backward()
    except RuntimeError as error:  # the judge itself has no gradient here, or stumbles over its own in-place changes
        assert "not implemented" in str(error) or "modified by an inplace operation" in str(error)
        return
    if name in NO_GRADIENT:
        return
    sum(energy(a) for a, _ in smooth).backward()
    for a, b in zip(flat(ours), flat(judge)):
        if b.grad is not None and a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), (b.grad + 0).numpy(), rtol=1e-6, atol=1e-8)
        elif b.grad is not None:
            assert not b.grad.abs().max(), f"no gradient, expected {b.grad}"
