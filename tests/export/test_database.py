"""Modules of one operator each, exported by both libraries: the same overloads with the same arguments, and results
that are those of the module."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight._src.core.op import OPS  # noqa: E402
from tests.ops.test_samples import OURS_ONLY, SAMPLED, arguments, flat, theirs  # noqa: E402

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]
OTHERWISE = {  # operator: why its graph is another than PyTorch's
    "positive": "it gives its argument back, so that there is nothing to write down",
    "nn.functional.softsign": "numbers are floats in the bodies of operators that PyTorch lacks",
    "stft": "padding is part of the operator",
    "linalg.pinv": "tolerances that are not given are numbers"}
CASES = [(name, k) for name, k in SAMPLED if name not in OURS_ONLY and theirs(name) is not None]


def module_of(library, function, values, kwargs):
    """A module that calls a function with these arguments, and its tensors."""
    tensors = []

    def cut(value):
        if isinstance(value, np.ndarray):
            tensors.append(library.tensor(value))
            return slice(len(tensors) - 1)  # stands for it: no argument is a slice
        return list(map(cut, value)) if isinstance(value, list) else value

    places = list(map(cut, values))

    def put(place, given):
        if isinstance(place, slice):
            return given[place.stop]
        return [put(p, given) for p in place] if isinstance(place, list) else place

    class Module(library.nn.Module):
        def forward(self, *given):
            return function(*[put(place, given) for place in places], **kwargs)

    return Module(), tuple(tensors)


def written(value):
    """An argument of a node as text, whichever library it is of."""
    if isinstance(value, (list, tuple)):
        return [written(v) for v in value]
    return value.op if hasattr(value, "op") else str(value)


def listed(program):
    calls = [n for n in program.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]
    return [(str(n.target), written(n.args), {k: written(v) for k, v in n.kwargs.items()}) for n in calls]


@pytest.mark.parametrize("name,index", CASES, ids=[f"{n}-{k}" for n, k in CASES])
def test_one_operator(name, index):
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    module, given = module_of(rl, OPS[name], values, sample.kwargs)
    program = rl.export.export(module, given)
    if not OPS[name].traits.get("random"):
        for found, wanted in zip(flat([program.module()(*given)]), flat([module(*given)])):
            np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-6, atol=1e-9)
    if name in OTHERWISE:
        return
    judge, given = module_of(torch, theirs(name), values, sample.kwargs)
    try:
        expected = torch.export.export(judge, given)
    except Exception as error:
        pytest.skip(f"PyTorch does not export it: {error}")
    assert listed(program) == listed(expected)
